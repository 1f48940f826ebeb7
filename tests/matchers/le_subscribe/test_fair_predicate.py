"""Counting: which side of the constants is satisfied, predicates stored once, compound predicates counted once."""

from __future__ import annotations

import pytest

from whimbrel.matchers import make
from whimbrel.matchers.le_subscribe.fair_predicate import FairPredicate
from whimbrel.matchers.le_subscribe.predicate_clusters import LAST_STAMP

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
    matcher._counts.stamp = LAST_STAMP - 4
    matcher._counts.arrays.hits[:] = LAST_STAMP
    matcher._counts.arrays.seen[:] = LAST_STAMP
    for _ in range(3):
        assert matcher.match({"a": 1, "b": [1, 2]}) == ["x"]
        assert matcher.match({"a": 1}) == []
    matcher._check()


def test_an_interval_with_two_ends_is_two_predicates_found_by_binary_search() -> None:
    matcher = fair(count=True)
    matcher.add_many(enumerate([f"x BETWEEN {low} AND {low + 10}" for low in (0, 5, 20, 30)]))
    assert matcher.match({"x": 12}) == [1]
    stats = matcher.stats()
    assert stats["predicates_stored"] == 8
    # Low ends 0 and 5 are at most 12; high ends 15, 30 and 40 are at least 12. Nothing is evaluated.
    assert (stats["predicate_evaluations"], stats["predicates_satisfied"], stats["additions"]) == (0, 5, 5)


def test_of_several_values_one_must_be_between_both_ends() -> None:
    matcher = fair(count=True)
    matcher.add_many(enumerate(["x > 10 AND x < 20", "x >= 0 AND x < 10", "x > 10 AND x < 40", "x > 10"]))
    assert matcher.match({"x": [5, 30]}) == [1, 2, 3]
    stats = matcher.stats()
    # 5 is compared with the high end of the one interval that begins below it, 30 with those of all three.
    assert (stats["predicate_evaluations"], stats["additions"]) == (1 + 3, 2 + 2 + 1)
    matcher._check()


def test_a_member_is_one_more_equality_beside_the_value_that_is_picked() -> None:
    matcher = fair(count=True)
    matcher.add_many(enumerate(["x CONTAINS 1 AND x > 5", "x CONTAINS ALL (1, 7)", "x CONTAINS 7", "x = 7"]))
    assert matcher.match({"x": [1, 7]}) == [0, 1, 2, 3]
    stats = matcher.stats()
    # The predicates x = 1, x = 7 and x > 5; the last two subscriptions are one row.
    assert (stats["predicates_stored"], stats["additions"]) == (3, 2 + 2 + 1)
    assert matcher.match({"x": 7}) == [2, 3]
    assert matcher.match({"x": [1, 5]}) == []
