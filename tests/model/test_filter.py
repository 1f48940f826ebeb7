"""Filters: equality, what covers and intersects what, and where the answer is allowed to be incomplete."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from tests.strategies import events, filters, one_attribute, value_sets
from whimbrel import Filter
from whimbrel.model import conjunction
from whimbrel.model import expression as x
from whimbrel.model.errors import LimitExceeded, UnknownDialect
from whimbrel.model.event import Event
from whimbrel.model.limits import BINDING_STEPS


def covers(left: str, right: str) -> bool:
    return Filter.parse(left).covers(Filter.parse(right))


def intersects(left: str, right: str) -> bool:
    found = Filter.parse(left).intersects(Filter.parse(right))
    assert Filter.parse(right).intersects(Filter.parse(left)) == found
    return found


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("TRUE", "a = 1"),
        ("a = 1", "FALSE"),
        ("a > 1", "a > 2"),
        ("a > 1", "a > 2 AND b = 1"),
        ("a > 1 OR b = 1", "b = 1 AND c = 1"),
        ("a IN (1, 2, 3)", "a IN (1, 3)"),
        ("a != 1", "a = 2"),
        ("a != 1", "a > 1"),
        ("a IS NOT NULL", "a > 1"),
        ("a IS NOT NULL", "a < b"),
        ("a IS NOT MISSING", "a IS NOT NULL"),
        ("a IS NULL", "a IS MISSING"),
        ("a LIKE 'x%'", "a STARTS WITH 'xy'"),
        ("a LIKE '%x'", "a LIKE '%yx'"),
        ("a LIKE '%x%'", "a LIKE '%yxz%'"),
        ("a LIKE '%x%'", "a = 'yxz'"),
        ("a NOT LIKE '%x'", "a < 5"),
        ("a IN CIDR '10.0.0.0/8'", "a IN CIDR '10.1.0.0/16'"),
        ("a CONTAINS 1", "a CONTAINS ALL (1, 2)"),
        ("a CONTAINS ANY (1, 2)", "a CONTAINS 1"),
        ("a CONTAINS ANY (1, 2)", "a IN (1, 2)"),
        ("a CONTAINS NONE (1)", "a CONTAINS NONE (1, 2)"),
        ("a < b", "b > a AND c = 1"),
    ],
)
def test_a_filter_covers_another(left: str, right: str) -> None:
    assert covers(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a = 1", "TRUE"),
        ("FALSE", "a = 1"),
        ("a > 2", "a > 1"),
        ("a != 1", "b = 2"),
        ("a = 1", "a IS NULL"),
        ("a IS MISSING", "a IS NULL"),
        ("a < 5", "a < 'x'"),
        ("a < 5", "a = TRUE"),
        ("a CONTAINS ALL (1, 2)", "a = 1"),
        ("a < b", "a <= b"),
        ("a = a AND b = 1", "a IS NOT NULL AND b = 1"),
    ],
)
def test_a_filter_does_not_cover_another(left: str, right: str) -> None:
    assert not covers(left, right)


def test_each_conjunction_is_covered_by_one() -> None:
    assert covers("a IN (1, 2)", "a = 1 AND b = 1 OR a = 2 AND b = 2")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("b = 1 OR b != 1 AND a = 1", "a = 1 AND b IS NOT NULL"),  # covered by two conjunctions together
        ("a LIKE '%x%'", "a LIKE 'x%'"),  # patterns of different kinds
        ("a LIKE 'a%c'", "a LIKE 'a%bc'"),  # two LIKE patterns
        ("a CONTAINS ANY (1, 2)", "a > 0 AND a < 3 AND a NOT IN (1.5)"),
        ("a <= b", "a < b"),  # comparisons of attributes are not compared
    ],
)
def test_false_may_mean_not_known(left: str, right: str) -> None:
    assert not covers(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a = 1", "b = 1"),
        ("a = 1", "a = 2"),  # a list holds both
        ("a > 1", "a < 1"),
        ("a = 1", "a CONTAINS ALL (2, 3)"),
        ("a IS NULL", "a IS MISSING"),
        ("a < b", "a = 1"),
        ("a LIKE '%x'", "a LIKE '%y'"),
        ("TRUE", "a = 1"),
    ],
)
def test_filters_intersect(left: str, right: str) -> None:
    assert intersects(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("FALSE", "TRUE"),
        ("a = 1", "a IS NULL"),
        ("a = 1", "a IS MISSING"),
        ("a IS MISSING", "a IS NOT MISSING"),
        ("a = 1", "a CONTAINS NONE (1, 2)"),
        ("a CONTAINS 1", "a CONTAINS NONE (1)"),
        ("a < b", "a IS NULL"),
        ("b IS NULL", "a < b"),
        ("a = 1 AND b = 1", "a IS NULL OR b IS NULL"),
    ],
)
def test_filters_do_not_intersect(left: str, right: str) -> None:
    assert not intersects(left, right)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 AND a = 2",
        "a > 1 AND a < 1",
        "a < FALSE",
        "a = NULL",
        "a != a",
        "a > 9007199254740992 AND a < 9007199254740993",
        "a > 'x' AND a < 'x\0'",
        "a > 1 AND a < 'x'",
        "a LIKE '%ab' AND a NOT LIKE '%b'",
        "a = 'x' AND a LIKE '%y'",
        "a CONTAINS 1 AND a CONTAINS NONE (1)",
        "a IS NULL AND a = 1",
        "a IS MISSING AND a < b",
    ],
)
def test_a_filter_that_nothing_matches_is_unsatisfiable(text: str) -> None:
    assert not Filter.parse(text).is_satisfiable()
    assert Filter.parse(text) == Filter.parse("FALSE")


@pytest.mark.parametrize("text", ["a < b AND b < a", "a LIKE 'x%y' AND a LIKE 'x%z'", "a LIKE '_' AND a LIKE '__'"])
def test_true_may_mean_not_known(text: str) -> None:
    assert Filter.parse(text).is_satisfiable()


@given(one_attribute, one_attribute, value_sets)
def test_covers_and_intersects_are_never_wrong_on_one_attribute(
    left: x.Expression, right: x.Expression, values: list[Any]
) -> None:
    one, two, event = Filter(left), Filter(right), Event({"a": values})
    first, second = one.matches(event), two.matches(event)
    assert first or not (second and one.covers(two))
    assert one.intersects(two) or not (first and second)


@given(filters, filters)
def test_or_covers_its_terms_and_terms_cover_and(one: Filter, two: Filter) -> None:
    either = Filter(x.Or((one.expression, two.expression)))
    both = Filter(x.And((one.expression, two.expression)))
    assert either.is_satisfiable() == (one.is_satisfiable() or two.is_satisfiable())
    assert either.intersects(one) or not one.is_satisfiable()
    assert not both.is_satisfiable() or (one.is_satisfiable() and two.is_satisfiable())


@given(filters, events())
def test_a_filter_survives_pickling(filter: Filter, event: dict[str, Any]) -> None:
    _ = filter.conjunctions
    again = pickle.loads(pickle.dumps(filter))
    assert again == filter
    assert again.matches(event) == filter.matches(event)


def test_a_filter_is_equal_to_filters_only() -> None:
    filter = Filter.parse("a = 1")
    assert filter != "a = 1"
    assert filter == Filter(x.Compare("a", "=", 1))
    assert len({filter, Filter.parse("a = 1.0"), Filter.parse("a = TRUE")}) == 2


def test_a_filter_names_the_attributes_of_its_normal_form() -> None:
    assert Filter.parse("a = 1 OR d.x < b").attributes == {"a", "b", "d.x"}
    assert Filter.parse("a = 1 AND a = 2").attributes == frozenset()


def test_a_filter_prints_itself() -> None:
    filter = Filter.parse("b=2 and a<1")
    assert str(filter) == "a < 1 AND b = 2"
    assert repr(filter) == "Filter.parse('a < 1 AND b = 2')"
    assert (filter.text, filter.dialect) == ("b=2 and a<1", "sql")


def test_an_unknown_dialect_is_named_with_those_available() -> None:
    with pytest.raises(UnknownDialect, match=r"Expected a dialect of .*sql.*, but got 'prolog'") as caught:
        Filter.parse("a = 1", dialect="prolog")
    assert caught.value.dialect == "prolog"
    assert "sql" in caught.value.available


def test_a_search_for_a_binding_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conjunction, "BINDING_STEPS", replace(BINDING_STEPS, value=100))
    filter = Filter.parse("a < b")
    assert filter.matches({"a": list(range(500)), "b": 500})
    with pytest.raises(LimitExceeded, match="at most 100 combinations tried, but got 101") as caught:
        filter.matches({"a": list(range(10, 20)), "b": list(range(10))})
    assert caught.value.limit == BINDING_STEPS.name
