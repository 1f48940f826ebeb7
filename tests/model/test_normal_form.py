"""The normal form: canonical whatever the order of terms, merged, bounded, and made in time that its limits allow."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.strategies import events, expressions, predicates
from whimbrel import Filter
from whimbrel.model import expression as x
from whimbrel.model.conjunction import TRUE
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.limits import (
    EXPRESSION_DEPTH,
    FILTER_CONJUNCTIONS,
    FILTER_CONSTRAINTS,
    FILTER_PREDICATES,
    IN_MEMBERS,
)
from whimbrel.model.normal_form import ABSORB_UP_TO


def shuffled(expression: x.Expression, order: random.Random) -> x.Expression:
    if isinstance(expression, x.Not):
        return x.Not(shuffled(expression.term, order))
    if isinstance(expression, x.And | x.Or):
        terms = [shuffled(term, order) for term in expression.terms]
        order.shuffle(terms)
        return replace(expression, terms=tuple(terms))
    if isinstance(expression, x.In | x.Contains):
        return replace(expression, values=tuple(order.sample(expression.values, len(expression.values))))
    return expression


def equal(attribute: str, value: Any) -> x.Compare:
    return x.Compare(attribute, "=", value)


@given(expressions, st.randoms(use_true_random=False))
def test_the_order_of_terms_does_not_matter(expression: x.Expression, order: random.Random) -> None:
    assert Filter(shuffled(expression, order)) == Filter(expression)


@given(st.lists(predicates, min_size=1, max_size=3), st.lists(predicates, min_size=1, max_size=3), events())
def test_and_of_ors_expands_exactly(left: list[Any], right: list[Any], event: dict[str, Any]) -> None:
    expression = x.And((x.Or(tuple(left)), x.Or(tuple(right))))
    assert Filter(expression).matches(event) == oracle.matches(expression, event)
    opposite = x.Not(expression)
    assert Filter(opposite).matches(event) == oracle.matches(opposite, event)


@given(expressions)
def test_repeating_a_term_changes_nothing(expression: x.Expression) -> None:
    assert Filter(x.And((expression,))) == Filter(expression)
    assert Filter(x.Or((expression, expression))) == Filter(expression)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a = 1 OR a = 2", "a IN (1, 2)"),
        ("a = 1 OR a = 1.0", "a = 1"),
        ("a < 5 OR a >= 5", "a <= 1e999"),
        ("a >= 1 AND a <= 5", "a BETWEEN 1 AND 5"),
        ("NOT (a < 5)", "a >= 5"),
        ("NOT (a = 1 OR b = 2)", "b != 2 AND a != 1"),
        ("a LIKE 'x%' AND a LIKE 'xy%'", "a STARTS WITH 'xy'"),
        ("(a = 1 OR a = 2) AND (b = 1 OR b = 2)", "a IN (1, 2) AND b IN (1, 2)"),
        ("a = 1 AND b = 1 OR a = 1 AND b = 2 OR a = 2 AND b = 1 OR a = 2 AND b = 2", "a IN (1, 2) AND b IN (1, 2)"),
        ("a = 1 OR a = 1 AND b = 2", "a = 1"),
        ("a IS NULL OR a IS NOT NULL", "TRUE"),
        ("a IS MISSING OR a IS NOT MISSING", "TRUE"),
        ("a IS NULL OR a = a", "TRUE"),
        ("a IS NULL OR a = 1 OR a != 1", "TRUE"),
        ("a = a", "a IS NOT NULL"),
        ("a = 1 OR a != 1", "a IS NOT NULL"),
        ("a = 1 OR TRUE", "TRUE"),
        ("a = 1 AND FALSE", "FALSE"),
        ("a = 1 AND a = 2", "FALSE"),
        ("a < 5 AND a > 5", "FALSE"),
        ("a = 1 AND a IS NULL", "FALSE"),
        ("a < b", "b > a"),
        ("a < b OR b > a", "a < b"),
        ("a < a", "FALSE"),
        ("a CONTAINS 1 AND a CONTAINS 2", "a CONTAINS ALL (1, 2)"),
        ("NOT (a CONTAINS ANY (1, 2))", "a CONTAINS NONE (2, 1)"),
        ("NOT (a CONTAINS ALL (1, 2))", "a CONTAINS NONE (1) OR a CONTAINS NONE (2)"),
        ("a LIKE '%_'", "a LIKE '_%'"),
        ("a IS NULL OR a CONTAINS 1 OR a CONTAINS 2", "a CONTAINS 2 OR a CONTAINS 1 OR a IS NULL"),
        ("(a IS NULL OR a CONTAINS 2) OR a CONTAINS 1", "(a IS NULL OR a CONTAINS 1) OR a CONTAINS 2"),
        ("a CONTAINS NULL OR (a = FALSE OR a IS NULL)", "a = FALSE OR a IS NULL OR a CONTAINS NULL"),
    ],
)
def test_filters_of_the_same_meaning_are_equal(text: str, same: str) -> None:
    assert Filter.parse(text) == Filter.parse(same)
    assert hash(Filter.parse(text)) == hash(Filter.parse(same))


def test_a_comparison_with_itself_still_binds_beside_other_attributes() -> None:
    assert Filter.parse("a = a AND b = 1") != Filter.parse("a IS NOT NULL AND b = 1")


def test_always_true_is_one_empty_conjunction() -> None:
    assert Filter.parse("TRUE").conjunctions == (TRUE,)
    assert TRUE.is_true()
    assert Filter.parse("FALSE").conjunctions == ()


def test_or_of_one_attribute_is_one_conjunction_of_any_length() -> None:
    many = Filter(x.Or(tuple(equal("a", i) for i in range(3_000))))
    assert len(many.conjunctions) == 1
    assert many.matches({"a": 2_999})
    few = Filter(x.And(tuple(x.Compare("a", "!=", i) for i in range(3_000))))
    assert not few.matches({"a": 2_999})
    assert few.matches({"a": 3_000})


def test_and_of_many_attributes_is_one_conjunction() -> None:
    wide = Filter(x.And(tuple(equal(f"a{i}", 1) for i in range(3_000))))
    assert len(wide.conjunctions[0].constraints) == 3_000


def test_a_filter_has_at_most_so_many_predicates() -> None:
    with pytest.raises(LimitExceeded, match="at most 10,000 predicates, but got 10,001"):
        _ = Filter(x.Or((equal("a", 1),) * (FILTER_PREDICATES.value + 1))).conjunctions


def test_a_filter_is_at_most_so_deep() -> None:
    def deep(levels: int) -> Filter:
        expression: x.Expression = equal("a", 1)
        for _ in range(levels):
            expression = x.Not(expression)
        return Filter(expression)

    assert deep(EXPRESSION_DEPTH.value).matches({"a": 1})
    with pytest.raises(LimitExceeded, match="at most 200 levels of AND, OR and NOT"):
        deep(EXPRESSION_DEPTH.value + 1).matches({"a": 1})
    with pytest.raises(LimitExceeded, match="expression depth"):
        deep(100_000).matches({"a": 1})


def test_a_filter_expands_to_at_most_so_many_conjunctions() -> None:
    def pairs(count: int) -> Filter:
        return Filter(x.And(tuple(x.Or((equal(f"a{i}", 1), equal(f"b{i}", 1))) for i in range(count))))

    assert len(pairs(10).conjunctions) == FILTER_CONJUNCTIONS.value
    with pytest.raises(LimitExceeded, match="at most 1,024 conjunctions, but got 2,048"):
        _ = pairs(11).conjunctions
    with pytest.raises(LimitExceeded, match="filter conjunctions"):
        _ = pairs(500).conjunctions


@pytest.mark.parametrize(
    "expression",
    [
        x.Or(tuple(equal(f"a{i}", 1) for i in range(2_000))),
        x.Or(tuple(x.Contains("a", "ALL", (i,)) for i in range(2_000))),
        x.Or(tuple(x.Like("a", f"%{i}%") for i in range(2_000))),
        x.Not(x.Contains("a", "ALL", tuple(range(IN_MEMBERS.value)))),
    ],
    ids=["attributes", "members", "patterns", "not all"],
)
def test_an_or_that_does_not_merge_is_refused_soon(expression: x.Expression) -> None:
    with pytest.raises(LimitExceeded, match="filter conjunctions"):
        _ = Filter(expression).conjunctions


def test_a_filter_expands_to_at_most_so_many_constraints() -> None:
    ors = tuple(x.Or((equal(f"a{i}", 1), equal(f"b{i}", 1))) for i in range(10))
    shared = tuple(equal(f"c{i}", 1) for i in range(1_000))
    with pytest.raises(LimitExceeded, match="at most 100,000 constraints of all conjunctions") as caught:
        _ = Filter(x.And(ors + shared)).conjunctions
    assert caught.value.maximum == FILTER_CONSTRAINTS.value


@pytest.mark.parametrize(
    "expression",
    [
        x.Contains("a", "ALL", tuple(range(IN_MEMBERS.value))),
        x.Contains("a", "NONE", tuple(range(IN_MEMBERS.value))),
        x.In("a", tuple(range(IN_MEMBERS.value))),
        x.And(tuple(x.Contains("a", "ANY", (0, i)) for i in range(1, 2_000))),
        x.And(tuple(x.Contains("a", "ANY", (i, i + 1)) for i in range(2_000))),
        x.And(tuple(x.Like("a", f"%{i}%") for i in range(500))),
        x.And(tuple(x.Not(x.Like("a", f"%{i}%")) for i in range(500))),
        x.And(tuple(x.CompareAttributes(f"a{i}", "<", f"b{i}") for i in range(2_000))),
    ],
    ids=["all", "none", "in", "any of a hub", "any of a chain", "patterns", "not patterns", "links"],
)
def test_a_large_filter_is_one_conjunction_that_covers_itself(expression: x.Expression) -> None:
    filter = Filter(expression)
    assert len(filter.conjunctions) == 1
    assert filter.covers(filter)
    assert filter.intersects(filter)


def beside(shared: x.Expression, count: int) -> x.Expression:
    """A term AND one of so many alternatives, of which none covers another."""
    return x.And((shared, x.Or(tuple(x.And((equal(f"b{i}", 1), equal(f"c{i}", 1))) for i in range(count)))))


def steps(count: int) -> x.Expression:
    """An OR of which two alternatives are united, then the result and the next one, and so on."""
    alternatives = [x.And((equal("a", 0), equal("b", 0)))]
    for i in range(1, count):
        this, other, known = ("a", "b", (i + 1) // 2) if i % 2 else ("b", "a", i // 2 + 1)
        alternatives.append(x.And((equal(this, (i + 1) // 2), x.In(other, tuple(range(known))))))
    shared = tuple(equal(f"c{i}", 1) for i in range(8))
    return x.Or(tuple(x.And((*one.terms, *shared)) for one in alternatives))


@pytest.mark.parametrize(
    "expression",
    [
        beside(x.In("a", tuple(range(10_000))), 60),
        beside(x.Contains("a", "ANY", tuple(range(10_000))), 60),
        beside(x.In("a", tuple(range(900))), 1_000),
        beside(x.And(tuple(x.Like("a", f"%{i}%") for i in range(1_000, 3_000))), 60),
        beside(x.And(tuple(x.Contains("a", "ANY", (i, i + 1)) for i in range(1_000))), 60),
    ],
    ids=["list", "members", "alternatives", "patterns", "groups"],
)
def test_what_many_conjunctions_repeat_is_compared_soon(expression: x.And) -> None:
    assert len(Filter(expression).conjunctions) == len(expression.terms[1].terms)  # type: ignore[union-attr]


def test_conjunctions_that_are_united_one_after_the_other_are_united_soon() -> None:
    (conjunction,) = Filter(steps(400)).conjunctions
    assert len(conjunction.attributes) == 10


def test_all_conjunctions_name_at_most_so_many_values() -> None:
    with pytest.raises(LimitExceeded, match="at most 1,000,000 values and patterns of all conjunctions"):
        _ = Filter(beside(x.In("a", tuple(range(10_000))), 101)).conjunctions
    different = [x.And((x.Compare("a", "!=", i), equal(f"b{i}", 1))) for i in range(101)]
    with pytest.raises(LimitExceeded, match="filter values"):
        _ = Filter(x.And((x.In("a", tuple(range(10_000))), x.Or(tuple(different))))).conjunctions


def test_a_hash_is_not_pickled_as_another_process_has_others() -> None:
    (conjunction,) = Filter.parse("a = 'x' AND b = 1").conjunctions
    assert hash(conjunction) == hash(Filter.parse("b = 1 AND a = 'x'").conjunctions[0])
    again = pickle.loads(pickle.dumps(conjunction))
    assert not {"_hash"} & (vars(again).keys() | vars(again.constraints[0][1]).keys())
    assert again == conjunction and hash(again) == hash(conjunction)


def test_covered_conjunctions_are_dropped_up_to_a_number() -> None:
    few = [x.And((equal(f"a{i}", 1), equal("b", 1))) for i in range(ABSORB_UP_TO - 1)]
    assert len(Filter(x.Or((equal("b", 1), *few))).conjunctions) == 1
    many = [x.And((equal(f"a{i}", 1), equal("b", 1))) for i in range(ABSORB_UP_TO)]
    assert len(Filter(x.Or((equal("b", 1), *many))).conjunctions) == ABSORB_UP_TO + 1


def test_a_larger_conjunction_gives_way_to_one_that_covers_it() -> None:
    wide = "a >= 0 AND b >= 0"
    narrow = "a = 1 AND b = 1 AND c = 1"
    assert Filter.parse(f"{narrow} OR {wide}") == Filter.parse(wide)
