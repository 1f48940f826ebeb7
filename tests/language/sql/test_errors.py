from __future__ import annotations

import builtins

import pytest

from whimbrel.language import parse
from whimbrel.model import patterns
from whimbrel.model.errors import FilterError, FilterSyntaxError, LimitExceeded, MissingExtra, UnknownDialect
from whimbrel.model.limits import FILTER_BYTES, FILTER_DEPTH, FILTER_PREDICATES, IN_MEMBERS, INTEGER_DIGITS

START = "an attribute, a literal, NOT or '('"
OPERAND = "an attribute or a literal"
END = "AND, OR or the end of the filter"


@pytest.mark.parametrize(
    ("text", "position", "expected", "found"),
    [
        ("", 0, START, "the end of the filter"),
        ("   ", 3, START, "the end of the filter"),
        ("= 5", 0, START, "'='"),
        ("and", 0, OPERAND, "the keyword AND"),
        ("a = ", 4, OPERAND, "the end of the filter"),
        ("a = and", 4, OPERAND, "the keyword AND"),
        ("a = 5 b", 6, END, "the name b"),
        ("a = 5 = 6", 6, END, "'='"),
        ("a 5", 2, END, "the number 5"),
        ("a..b = 5", 1, END, "'.'"),
        ("a = 5; DROP", 5, END, "';' (a filter ends without a semicolon)"),
        ("a = 5 -- x", 6, END, "'-' (there are no comments)"),
        ("a = 5 /* x */", 6, END, "'/' (there are no comments)"),
        ("5", 0, "a condition", "the number 5"),
        ("a AND 'x'", 6, "a condition", "the text 'x'"),
        ("NOT 5", 4, "a condition", "the number 5"),
        ("a = 5x", 4, "a number", "the malformed number 5x"),
        ("a = 1.2.3", 4, "a number", "the malformed number 1.2.3"),
        ("a = .", 4, "a number", "'.'"),
        ("a = --5", 5, "a number", "'-' (there are no comments)"),
        ("a = -b", 5, "a number", "the name b"),
        ("a = -'x'", 5, "a number", "the text 'x'"),
        ("a = 'x", 4, OPERAND, "text without its closing '"),
        ("a = TIMESTAMP 'x", 14, END, "text without its closing '"),
        ('"a = 5', 0, START, 'a name without its closing "'),
        ("`a = 5", 0, START, "a name without its closing `"),
        ("(a = 5", 6, "AND, OR or ')'", "the end of the filter"),
        ("(a", 2, "an operator or ')'", "the end of the filter"),
        ("(a = 5))", 7, END, "')'"),
        ("()", 1, START, "')'"),
        ("a = (b = 5)", 4, OPERAND, "a condition"),
        ("a BETWEEN 1 OR 2", 12, "AND of BETWEEN", "the keyword OR"),
        ("a BETWEEN 1 AND", 15, OPERAND, "the end of the filter"),
        ("a IN ()", 6, "a literal", "')'"),
        ("a IN 5", 5, "'(' after IN", "the number 5"),
        ("a IN (1", 7, "',' or ')'", "the end of the filter"),
        ("a IN (1,)", 8, "a literal", "')'"),
        ("a IN (1 2)", 8, "',' or ')'", "the number 2"),
        ("a IN (b)", 6, "a literal", "the name b"),
        ('a IN ("b")', 6, "a literal", "the name \"b\" (text is written 'b')"),
        ('a IN ("it\'s")', 6, "a literal", "the name \"it's\" (text is written 'it''s')"),
        ("5 IN (1, 2)", 0, "an attribute before IN", "the number 5"),
        ("5 IN (a)", 0, "an attribute before IN", "the number 5"),
        ("'x' LIKE 'x'", 0, "an attribute before LIKE", "the text 'x'"),
        ("5 IS NULL", 0, "an attribute before IS", "the number 5"),
        ("NULL CONTAINS 5", 0, "an attribute before CONTAINS", "the keyword NULL"),
        ("'1.1.1.1' IN CIDR '::/0'", 0, "an attribute before IN CIDR", "the text '1.1.1.1'"),
        ("a IS 5", 5, "NULL, MISSING, TRUE, FALSE or NOT", "the number 5"),
        ("a IS NOT x", 9, "NULL, MISSING, TRUE or FALSE", "the name x"),
        ("a NOT = 5", 6, "IN, BETWEEN, LIKE, ILIKE, RLIKE, CONTAINS, STARTS WITH or ENDS WITH after NOT", "'='"),
        (
            "a NOT IS NULL",
            6,
            "IN, BETWEEN, LIKE, ILIKE, RLIKE, CONTAINS, STARTS WITH or ENDS WITH after NOT",
            "the keyword IS",
        ),
        ("a LIKE 5", 7, "text after LIKE", "the number 5"),
        ("a LIKE b", 7, "text after LIKE", "the name b"),
        ("a LIKE TRUE", 7, "text after LIKE", "the keyword TRUE"),
        ("a LIKE TIMESTAMP '2020-01-01'", 7, "text after LIKE", "the name TIMESTAMP"),
        ("a LIKE 'x' ESCAPE NULL", 18, "text after ESCAPE", "the keyword NULL"),
        ("a LIKE 'x' ESCAPE 5", 18, "text after ESCAPE", "the number 5"),
        ("a STARTS 'x'", 9, "WITH after STARTS", "the text 'x'"),
        ("a ENDS WITH 5", 12, "text after ENDS WITH", "the number 5"),
        ("a RLIKE 5", 8, "text after RLIKE", "the number 5"),
        ("a IN CIDR 5", 10, "text after IN CIDR", "the number 5"),
        ("t CONTAINS", 10, "a literal, ALL, ANY or NONE", "the end of the filter"),
        ("t CONTAINS b", 11, "a literal, ALL, ANY or NONE", "the name b"),
        ("t CONTAINS ALL 5", 15, "'(' after CONTAINS ALL", "the number 5"),
        ("t CONTAINS ANY ()", 16, "a literal", "')'"),
        ("t CONTAINS ('x', 'y')", 15, "an operator or ')'", "','"),
        ("a = 5 AND\n  b ~ 6", 14, END, "'~'"),
    ],
)
def test_a_syntax_error_says_what_was_expected_what_was_found_and_where(text, position, expected, found):
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    error = caught.value
    assert (error.position, error.expected, error.found) == (position, expected, found)
    assert error.text == text


def test_the_message_has_a_caret_under_the_place():
    with pytest.raises(FilterSyntaxError) as caught:
        parse("a = 5 AND\n  b ~ 6 AND c")
    assert str(caught.value).splitlines() == [
        "Expected AND, OR or the end of the filter, but got '~' at line 2, column 5",
        "    b ~ 6 AND c",
        "      ^",
    ]


@pytest.mark.parametrize(("text", "space"), [("\ta ~ 1", "\t  "), ("名 ~ 1", "   "), ("a = 'e\u0301' ~ 1", " " * 8)])
def test_the_caret_stands_under_the_place_behind_tabs_and_wide_letters_too(text, space):
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    assert str(caught.value).splitlines()[1:] == [f"  {text}", f"  {space}^"]


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("b = 1 AND a LIKE 'x\\'", 17, "Expected a character after the escape"),
        ("a LIKE 'x!' ESCAPE '!'", 7, "Expected a character after the escape"),
        ("a LIKE 'x' ESCAPE 'ab'", 18, "Expected one character after ESCAPE, but got 'ab'"),
        ("b = 'x' AND a IN CIDR '10.0.0.0/99'", 22, "Expected an IP network"),
        ("b = 'x' AND a IN CIDR 'fe80::%eth0/64'", 22, "Expected an IP network without a zone"),
        ("a > TIMESTAMP '2020-13-01'", 14, "Expected a timestamp"),
        ("a IN ('x', TIMESTAMP 'soon')", 21, "Expected a timestamp"),
    ],
)
def test_a_literal_that_cannot_stand_where_it_does_is_refused_with_its_place(text, position, problem):
    for _ in range(3):  # the third time the shape is known
        with pytest.raises(FilterError) as caught:
            parse(text)
        assert caught.value.position == position
        assert caught.value.problem.startswith(problem)


def test_a_bad_regular_expression_is_refused_with_its_place(capfd):
    pytest.importorskip("re2")
    with pytest.raises(FilterError) as caught:
        parse("a = 5 AND b RLIKE '('")
    assert caught.value.position == 18
    assert caught.value.problem == "Expected a regular expression, but got '(': missing ): ("


def test_without_the_regex_engine_rlike_says_what_to_install(monkeypatch):
    def no_re2(name, *args, **kwargs):
        if name == "re2":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    real = builtins.__import__
    patterns._compile.cache_clear()
    monkeypatch.setattr(builtins, "__import__", no_re2)
    with pytest.raises(MissingExtra) as caught:
        parse("a RLIKE 'never compiled before'")
    assert caught.value.extra == "regex"


@pytest.mark.parametrize("text", ["a = '\ud800'", "\udfff = 5", "a = 5 \ud83d"])
def test_lone_surrogates_are_refused(text):
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    assert caught.value.expected == "text without lone surrogates"
    assert 0xD800 <= ord(text[caught.value.position]) <= 0xDFFF
    str(caught.value).encode()  # the message can be written


@pytest.mark.parametrize("source", [None, 5, b"a = 5", ["a = 5"], {"a": [5]}])
def test_what_is_not_text_is_refused(source):
    with pytest.raises(FilterSyntaxError, match="Expected the text of a filter, but got"):
        parse(source)


def test_an_unknown_dialect_names_those_available():
    with pytest.raises(UnknownDialect) as caught:
        parse("a = 5", dialect="cobol")
    assert "sql" in caught.value.available


@pytest.mark.parametrize(
    ("text", "limit", "where"),
    [
        ("(" * 10_000, FILTER_DEPTH, "line 1, column 65"),
        ("NOT " * 10_000, FILTER_DEPTH, "line 1, column 257"),
        ("(" * 10_000 + "a" + ")" * 10_000, FILTER_DEPTH, "line 1, column 65"),
        ("a = " + "(" * 10_000, FILTER_DEPTH, "line 1, column 69"),
        ("NOT (" * 5_000, FILTER_DEPTH, "line 1, column 161"),
        ("x\n= " + "9" * 1_001, INTEGER_DIGITS, "line 2, column 3"),
        ("x IN (1, -" + "9" * 1_001 + ")", INTEGER_DIGITS, "line 1, column 11"),
        ("a LIKE '" + "%_" * 40 + "'", None, "line 1, column 8"),
        ("a LIKE '" + "x" * 10_000 + "'", None, "line 1, column 8"),
        ("a RLIKE '" + "x" * 10_000 + "'", None, "line 1, column 9"),
    ],
)
def test_what_is_too_large_is_refused_with_the_place(text, limit, where):
    with pytest.raises(LimitExceeded) as caught:
        parse(text)
    assert caught.value.where == where
    if limit is not None:
        assert (caught.value.limit, caught.value.maximum) == (limit.name, limit.value)


def test_the_depth_that_is_allowed_parses():
    depth = FILTER_DEPTH.value
    assert parse("(" * depth + "a = 5" + ")" * depth) == parse("a = 5")
    assert parse("NOT " * depth + "a = 5") == parse("a = 5")
    nested = "a = 5"
    for _ in range(depth // 2):
        nested = f"NOT (b = 1 OR c = 2 AND {nested})"
    parse(nested)


def test_the_number_of_predicates_is_bounded():
    parse(" AND ".join(["a"] * FILTER_PREDICATES.value))
    with pytest.raises(LimitExceeded, match="filter predicates"):
        parse(" AND ".join(["a"] * (FILTER_PREDICATES.value + 1)))
    with pytest.raises(LimitExceeded, match="filter predicates"):
        parse(" AND ".join(["a BETWEEN 1 AND 2"] * (FILTER_PREDICATES.value // 2 + 1)))


def test_the_members_of_a_list_are_bounded():
    parse(f"a IN ({'1,' * (IN_MEMBERS.value - 1)}1)")
    with pytest.raises(LimitExceeded, match="list members"):
        parse(f"a IN ({'1,' * IN_MEMBERS.value}1)")
    with pytest.raises(LimitExceeded, match="list members"):
        parse(f"a CONTAINS ANY ({'1,' * IN_MEMBERS.value}1)")


def test_the_bytes_of_a_text_are_bounded():
    padding = FILTER_BYTES.value - len("a = ''")
    parse(f"a = '{'x' * padding}'")
    for text in (f"a = '{'x' * (padding + 1)}'", f"a = '{'é' * (padding // 2 + 1)}'"):
        with pytest.raises(LimitExceeded, match="filter bytes"):
            parse(text)
