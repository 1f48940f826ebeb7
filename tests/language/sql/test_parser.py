from __future__ import annotations

import math

import pytest

from whimbrel.language import parse
from whimbrel.model.expression import (
    And,
    Compare,
    CompareAttributes,
    Constant,
    Contains,
    EndsWith,
    Expression,
    In,
    InCidr,
    IsMissing,
    IsNull,
    Like,
    Not,
    Or,
    RLike,
    StartsWith,
)
from whimbrel.model.values import Timestamp

A5 = Compare("a", "=", 5)
B6 = Compare("b", "=", 6)
C7 = Compare("c", "=", 7)


def tree(text: str) -> Expression:
    return parse(text).expression


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a = 5", A5),
        ("a=5", A5),
        ("a <> 5", Compare("a", "!=", 5)),
        ("a != 5", Compare("a", "!=", 5)),
        ("a < 5", Compare("a", "<", 5)),
        ("a <= 5", Compare("a", "<=", 5)),
        ("a > 5", Compare("a", ">", 5)),
        ("a >= 5", Compare("a", ">=", 5)),
        ("a = NULL", Compare("a", "=", None)),
        ("a = 'it''s'", Compare("a", "=", "it's")),
        ("a = TRUE", Compare("a", "=", True)),
        ("a = tRuE", Compare("a", "=", True)),
        ("a = FALSE", Compare("a", "=", False)),
        ("a = -5", Compare("a", "=", -5)),
        ("a = +5", A5),
        ("a = - 5", Compare("a", "=", -5)),
        ("a = -0.0", Compare("a", "=", 0)),
        ("a > -1e999", Compare("a", ">", -math.inf)),
        ("a = TIMESTAMP '1970-01-02'", Compare("a", "=", Timestamp(86_400_000_000_000))),
        ("a = timestamp'1970-01-01'", Compare("a", "=", Timestamp(0))),
        ("(a) = (5)", A5),
        ("((a = 5))", A5),
    ],
)
def test_comparisons_with_literals(text, expression):
    assert tree(text) == expression
    assert repr(tree(text)) == repr(expression)  # 5 is not 5.0


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("5 < a", Compare("a", ">", 5)),
        ("5 >= a", Compare("a", "<=", 5)),
        ("'x' = a", Compare("a", "=", "x")),
        ("5 != a", Compare("a", "!=", 5)),
    ],
)
def test_a_literal_on_the_left_flips_the_comparison(text, expression):
    assert tree(text) == expression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 < 2", True),
        ("2 <= 1", False),
        ("2 > 1", True),
        ("1 >= 2", False),
        ("'a' < 'b'", True),
        ("1 = 1.0", True),
        ("9007199254740993 = 9007199254740992.0", False),
        ("TRUE = TRUE", True),
        ("TRUE = 1", False),
        ("TRUE != 1", True),
        ("1 = '1'", False),
        ("1 != '1'", True),
        ("1 < '1'", None),
        ("TRUE > FALSE", None),
        ("NULL = NULL", None),
        ("1 != NULL", None),
        ("TIMESTAMP '2020-01-01' < TIMESTAMP '2021-01-01'", True),
        ("TIMESTAMP '2020-01-01' = '2020-01-01'", False),
        ("TRUE", True),
        ("false", False),
        ("NULL", None),
    ],
)
def test_literal_comparisons_fold_by_the_rules_of_matching(text, value):
    assert tree(text) == Constant(value)


def test_attributes_compare_with_each_other():
    assert tree("price < limit_price") == CompareAttributes("price", "<", "limit_price")
    assert tree('"a b" != a.b') == CompareAttributes("a b", "!=", "a.b")


def test_a_bare_attribute_means_that_it_is_true():
    assert tree("active") == Compare("active", "=", True)
    assert tree("NOT active AND (b)") == And((Not(Compare("active", "=", True)), Compare("b", "=", True)))


def test_between_is_two_comparisons():
    assert tree("a BETWEEN 1 AND 2") == And((Compare("a", ">=", 1), Compare("a", "<=", 2)))
    assert tree("a not between 1 and 2") == Not(And((Compare("a", ">=", 1), Compare("a", "<=", 2))))
    assert tree("a BETWEEN b AND 2") == And((CompareAttributes("a", ">=", "b"), Compare("a", "<=", 2)))
    assert tree("5 BETWEEN a AND b") == And((Compare("a", "<=", 5), Compare("b", ">=", 5)))
    assert tree("5 BETWEEN 1 AND 9") == And((Constant(True), Constant(True)))
    assert tree("a BETWEEN NULL AND 2") == And((Compare("a", ">=", None), Compare("a", "<=", 2)))
    assert tree("a BETWEEN 1 AND 2 AND b = 6") == And((Compare("a", ">=", 1), Compare("a", "<=", 2), B6))


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a IN (1)", In("a", (1,))),
        ("a IN (-1, 'x', TRUE, NULL, TIMESTAMP '1970-01-01')", In("a", (-1, "x", True, None, Timestamp(0)))),
        ("a NOT IN (1, 2)", Not(In("a", (1, 2)))),
        ("a IN ((1), 2)", In("a", (1, 2))),
        ("t CONTAINS 'x'", Contains("t", "ALL", ("x",))),
        ("t CONTAINS ('x')", Contains("t", "ALL", ("x",))),
        ("t CONTAINS NULL", Contains("t", "ALL", (None,))),
        ("t CONTAINS ALL ('x', 1)", Contains("t", "ALL", ("x", 1))),
        ("t contains any ('x')", Contains("t", "ANY", ("x",))),
        ("t CONTAINS NONE ('x')", Contains("t", "NONE", ("x",))),
        ("t NOT CONTAINS 'x'", Not(Contains("t", "ALL", ("x",)))),
        ("t NOT CONTAINS ANY ('x')", Not(Contains("t", "ANY", ("x",)))),
    ],
)
def test_lists(text, expression):
    assert tree(text) == expression


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a LIKE 'x%'", Like("a", "x%")),
        ("a LIKE 'x!%' ESCAPE '!'", Like("a", "x!%", "!")),
        ("a LIKE 'x' escape ''", Like("a", "x", "")),
        ("a NOT LIKE '%'", Not(Like("a", "%"))),
        ("a LIKE NULL", Constant(None)),
        ("a STARTS WITH 'x'", StartsWith("a", "x")),
        ("a NOT STARTS WITH 'x'", Not(StartsWith("a", "x"))),
        ("a ends with 'x'", EndsWith("a", "x")),
        ("a ENDS WITH NULL", Constant(None)),
        ("a IN CIDR '10.0.0.0/8'", InCidr("a", "10.0.0.0/8")),
        ("a NOT IN CIDR '::1'", Not(InCidr("a", "::1/128"))),
        ("a IN CIDR '10.1.2.3/8'", InCidr("a", "10.0.0.0/8")),
        ("a IS NULL", IsNull("a")),
        ("a IS NOT NULL", Not(IsNull("a"))),
        ("a is missing", IsMissing("a")),
        ("a IS NOT MISSING", Not(IsMissing("a"))),
    ],
)
def test_tests_of_strings_and_states(text, expression):
    assert tree(text) == expression


def test_regular_expressions_need_a_linear_time_engine():
    pytest.importorskip("re2")
    assert tree("a RLIKE '^x+$'") == RLike("a", "^x+$")
    assert tree("a NOT RLIKE 'x'") == Not(RLike("a", "x"))


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a = 5 AND b = 6 OR c = 7", Or((And((A5, B6)), C7))),
        ("a = 5 OR b = 6 AND c = 7", Or((A5, And((B6, C7))))),
        ("NOT a = 5 AND b = 6", And((Not(A5), B6))),
        ("NOT (a = 5 AND b = 6)", Not(And((A5, B6)))),
        ("NOT NOT a = 5", Not(Not(A5))),
        ("(a = 5 OR b = 6) AND c = 7", And((Or((A5, B6)), C7))),
        ("a = 5 AND (b = 6 AND c = 7)", And((A5, B6, C7))),
        ("a = 5 or b = 6 Or c = 7", Or((A5, B6, C7))),
    ],
)
def test_not_binds_tighter_than_and_tighter_than_or(text, expression):
    assert tree(text) == expression


def test_words_that_are_keywords_only_in_their_place_are_names_elsewhere():
    assert tree("timestamp > TIMESTAMP '1970-01-01'") == Compare("timestamp", ">", Timestamp(0))
    assert tree("all = 1 AND missing IS MISSING") == And((Compare("all", "=", 1), IsMissing("missing")))
    assert tree("contains CONTAINS 1 OR escape") == Or(
        (Contains("contains", "ALL", (1,)), Compare("escape", "=", True))
    )


def test_reserved_words_are_names_when_quoted_or_after_a_dot():
    assert tree('"and" = 5 AND d.or = 6') == And((Compare("and", "=", 5), Compare("d.or", "=", 6)))


def test_letters_outside_ascii_never_make_a_keyword():
    assert tree("\u0131n = 5") == Compare("\u0131n", "=", 5)  # a dotless i, whose upper case is I


def test_names_are_case_sensitive():
    assert tree("Price = 5") != tree("price = 5")


def test_long_chains_are_not_nested():
    assert len(tree(" AND ".join(["a = 5"] * 5_000)).terms) == 5_000
    assert len(tree(" OR ".join(["a = 5"] * 5_000)).terms) == 5_000
    assert len(tree(f"a IN ({', '.join(map(str, range(20_000)))})").values) == 20_000


def test_the_filter_remembers_its_text():
    assert parse("a  = 5").text == "a  = 5"
    assert parse("a  = 5").dialect == "sql"
