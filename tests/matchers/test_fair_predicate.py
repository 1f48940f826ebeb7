"""Counting: which side of the constants is satisfied, predicates stored once, compound predicates counted once."""

from __future__ import annotations

import pytest

from whimbrel.matchers import make
from whimbrel.matchers.fair_predicate import FairPredicate
from whimbrel.matchers.predicate_clusters import LAST_STAMP

STATS = ("predicates_satisfied", "additions", "comparisons")


def fair(**options: object) -> FairPredicate:
    matcher = make("fair_predicate", **options)
    assert isinstance(matcher, FairPredicate)
    return matcher


@pytest.mark.parametrize(
    ("operator", "expected"), [("<", [3, 4]), ("<=", [2, 3, 4]), (">", [0, 1]), (">=", [0, 1, 2]), ("!=", [0, 1, 3, 4])]
)
def test_the_satisfied_constants_of_an_ordered_operator_are_a_run_on_the_right_side(
    operator: str, expected: list[int]
) -> None:
    matcher = fair(count=True)
    for constant in range(5):
        matcher.add(constant, f"x {operator} {constant}")
    assert matcher.match({"x": 2}) == expected
    assert matcher.stats()["predicates_satisfied"] == len(expected)
    assert matcher.match({"x": "2"}) == ([0, 1, 2, 3, 4] if operator == "!=" else [])


def test_a_predicate_of_many_conjunctions_is_stored_once() -> None:
    matcher = fair(count=True)
    matcher.add_many(enumerate(["a = 1 AND b < 5", "a = 1 AND b < 6", "a = 1 AND c != 2", "b < 5 AND c != 2"]))
    assert matcher.match({"a": 1, "b": 5, "c": 3}) == [1, 2]
    stats = matcher.stats()
    assert stats["predicates_stored"] == 4
    assert tuple(stats[name] for name in STATS) == (3, 3 + 1 + 2, 6)


def test_one_value_has_to_satisfy_all_predicates_on_an_attribute() -> None:
    matcher = fair(count=True)
    matcher.add("between", "price > 10 AND price < 20")
    matcher.add("both", "price > 10 AND size < 20")
    assert matcher.match({"price": [5, 30], "size": 1}) == ["both"]
    assert matcher.match({"price": [15, 30], "size": 1}) == ["between", "both"]


def test_a_predicate_counts_once_however_many_values_satisfy_it() -> None:
    matcher = fair(count=True)
    matcher.add("x", "price > 10 AND color = 'red'")
    matcher.add("y", "price IN (11, 12, 13) AND color = 'red'")
    matcher.add("z", "price NOT IN (11, 12) AND price < 99 AND color = 'red'")
    assert matcher.match({"price": [11, 12, 13], "color": "blue"}) == []
    assert matcher.stats()["additions"] == 3
    assert matcher.match({"price": [11, 12, 13], "color": "red"}) == ["x", "y", "z"]


def test_counts_start_anew_when_the_stamps_run_out() -> None:
    matcher = fair()
    matcher.add("x", "a = 1 AND b IN (1, 2)")
    assert matcher.match({"a": 1, "b": [1, 2]}) == ["x"]
    matcher._stamp = LAST_STAMP - 4
    matcher._hits[:] = LAST_STAMP
    matcher._seen[:] = LAST_STAMP
    for _ in range(3):
        assert matcher.match({"a": 1, "b": [1, 2]}) == ["x"]
        assert matcher.match({"a": 1}) == []
    matcher._check()


def test_two_ended_intervals_are_scanned_from_the_lowest() -> None:
    matcher = fair(count=True)
    matcher.add_many(enumerate([f"x BETWEEN {low} AND {low + 10}" for low in (0, 5, 20, 30)]))
    assert matcher.match({"x": 12}) == [1]
    assert matcher.stats()["predicate_evaluations"] == 2
