"""Interval sets against membership: the algebra on every value of the pools and on what lies next to them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import KEYS, STRINGS, interval_sets, strings, values
from whimbrel.model.intervals import (
    ALL,
    BOTTOM,
    EMPTY,
    TOP,
    IntervalSet,
    _next_number,
    after,
    before,
    compare_set,
    edge,
)
from whimbrel.model.normal_form import key_of
from whimbrel.model.values import BOOLEAN, NUMBER, STRING, TIMESTAMP, SortKey, Value

LARGEST = 10**1000 - 1


def members(set_of: IntervalSet, keys: Iterable[SortKey] = KEYS) -> set[SortKey]:
    return {key for key in keys if key in set_of}


def sample(*sets: IntervalSet) -> set[SortKey]:
    """Values in every region that the cuts of these sets bound: the pools, and what lies just above each cut."""
    out = set(KEYS)
    for rank, _, value, _ in (cut for each in sets for cut in each.cuts if cut[2] is not None):
        out.add((rank, value))  # type: ignore[arg-type]
        if isinstance(value, str):
            out.add((rank, value + "\0"))
        elif rank == TIMESTAMP:
            out |= {(rank, int(value) - 1), (rank, int(value) + 1)}  # type: ignore[arg-type]
        elif rank == NUMBER:
            out.add((rank, _next_number(value)))  # type: ignore[arg-type]
    return out


def where(op: str, value: Value) -> IntervalSet:
    return compare_set(op, key_of(value))


def is_canonical(set_of: IntervalSet) -> bool:
    return len(set_of.cuts) % 2 == 0 and list(set_of.cuts) == sorted(set(set_of.cuts))


@given(interval_sets(), interval_sets())
def test_the_algebra_is_that_of_sets(p: IntervalSet, q: IntervalSet) -> None:
    assert members(p.intersect(q)) == members(p) & members(q)
    assert members(p.union(q)) == members(p) | members(q)
    assert members(p.minus(q)) == members(p) - members(q)
    assert members(p.complement()) == set(KEYS) - members(p)
    assert all(map(is_canonical, (p.intersect(q), p.union(q), p.minus(q), p.complement())))


@given(interval_sets(), interval_sets())
def test_emptiness_covering_and_overlap_are_exact(p: IntervalSet, q: IntervalSet) -> None:
    keys = sample(p, q)
    assert bool(p) == bool(members(p, keys))
    assert p.covers(q) == (members(q, keys) <= members(p, keys))
    assert p.overlaps(q) == bool(members(p, keys) & members(q, keys))


@given(interval_sets(), interval_sets(), interval_sets())
def test_a_union_of_many_is_the_union_of_pairs(p: IntervalSet, q: IntervalSet, r: IntervalSet) -> None:
    assert p.union(q, r) == p.union(q).union(r) == r.union(p, q)
    assert p.union() == p.union(EMPTY) == p


@given(interval_sets())
def test_points_are_all_there_is_of_a_set_of_points(p: IntervalSet) -> None:
    points = p.as_points()
    if points is not None:
        assert set(points) == members(p)
        assert points == sorted(points)


@given(st.lists(values, max_size=4))
def test_a_set_of_points_has_them_and_nothing_else(chosen: list[Value]) -> None:
    keys = {key_of(value) for value in chosen}
    assert members(IntervalSet.points(keys)) == keys


@given(strings)
def test_a_prefix_has_the_strings_that_start_with_it(text: str) -> None:
    starting = {key for key in KEYS if isinstance(key[1], str) and key[1].startswith(text)}
    assert members(IntervalSet.prefix(text)) == starting


def test_a_prefix_skips_the_surrogates() -> None:
    assert members(IntervalSet.prefix("\ud7ff")) >= {(STRING, "\ud7ff"), (STRING, "\ud7ff\U0010ffff")}
    assert IntervalSet.prefix("a\ud7ff").cuts[1] == before((STRING, "a\ue000"))


def test_a_prefix_of_last_characters_reaches_to_the_end() -> None:
    assert IntervalSet.prefix("\U0010ffff").cuts[1] == edge(TIMESTAMP)
    assert IntervalSet.prefix("a\U0010ffff").cuts[1] == before((STRING, "b"))


def test_nothing_lies_between_a_string_and_itself_with_nul() -> None:
    for text in STRINGS:
        assert not where(">", text).intersect(where("<", text + "\0"))
        assert where(">", text) == where(">=", text + "\0")


@pytest.mark.parametrize(
    ("one", "two"),
    [((STRING, "a"), (STRING, "a\0")), ((NUMBER, 2**53), (NUMBER, 2**53 + 1)), ((TIMESTAMP, 0), (TIMESTAMP, 1))],
)
def test_points_without_anything_between_them_are_one_interval(one: SortKey, two: SortKey) -> None:
    both = IntervalSet.points([two, one])
    assert len(both.cuts) == 2
    assert members(both) == {one, two}
    assert both.as_points() is None
    assert both == compare_set("=", one).union(compare_set("=", two))
    assert both == compare_set(">=", one).intersect(compare_set("<=", two))


def are_same(p: IntervalSet, q: IntervalSet) -> bool:
    return p.covers(q) and q.covers(p)


@given(interval_sets(), interval_sets())
def test_the_laws_of_sets_hold(p: IntervalSet, q: IntervalSet) -> None:
    assert p.complement().complement() == p
    assert p.intersect(q) == q.intersect(p)
    assert are_same(p.minus(q).union(p.intersect(q)), p)
    assert are_same(p.union(q).complement(), p.complement().intersect(q.complement()))
    assert are_same(p, q) or p != q


@given(interval_sets(), interval_sets())
def test_no_interval_and_no_gap_is_without_values(p: IntervalSet, q: IntervalSet) -> None:
    for result in (p, p.union(q), p.intersect(q), p.minus(q), p.complement()):
        for low, high in (*result.pairs(), *result.complement().pairs()):
            interval = IntervalSet((low, high))
            assert members(interval, sample(interval))


def test_the_empty_string_is_the_least() -> None:
    assert not where("<", "")
    assert where("<=", "").as_points() == [(STRING, "")]
    assert where(">=", "") == IntervalSet.prefix("")


def test_the_infinities_are_the_ends_of_the_numbers() -> None:
    assert not where("<", -math.inf)
    assert not where(">", math.inf)
    assert where("<=", -math.inf).as_points() == [(NUMBER, -math.inf)]
    assert where(">=", math.inf).as_points() == [(NUMBER, math.inf)]
    assert where(">=", -math.inf) == where("<=", math.inf)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1, math.nextafter(1, 2)),
        (0, 5e-324),
        (-5e-324, 0),
        (2**53, 2**53 + 1),
        (2.0**60, 2**60 + 1),
        (LARGEST, math.inf),
        (-math.inf, -LARGEST),
        (LARGEST - 1, LARGEST),
    ],
)
def test_nothing_lies_between_numbers_that_are_next_to_each_other(low: float, high: float) -> None:
    assert not where(">", low).intersect(where("<", high))
    assert where("<=", low).union(where(">=", high)).covers(where("<=", math.inf))


def test_something_lies_between_three_and_four() -> None:
    assert where(">", 3).overlaps(where("<", 4))


def test_nothing_lies_between_two_nanoseconds() -> None:
    low, high = ((TIMESTAMP, 5), (TIMESTAMP, 6))
    assert not compare_set(">", low).overlaps(compare_set("<", high))
    assert compare_set(">", low).overlaps(compare_set("<", (TIMESTAMP, 7)))


def test_an_order_stays_within_its_type() -> None:
    for value, rank in ((5, NUMBER), ("x", STRING)):
        for op in ("<", "<=", ">", ">="):
            assert all(key[0] == rank for key in members(where(op, value)))


def test_booleans_have_no_order() -> None:
    for op in ("<", "<=", ">", ">="):
        assert not where(op, True)
        assert not where(op, False)


def test_not_equal_is_every_other_value_of_any_type() -> None:
    assert members(where("!=", 1)) == set(KEYS) - {(NUMBER, 1)}
    assert members(where("!=", True)) == set(KEYS) - {(BOOLEAN, True)}


def test_equal_sets_are_equal_objects() -> None:
    assert where("<", 5).union(where(">=", 5)) == where("<=", math.inf)
    assert where(">=", "x").intersect(where("<", "y")) == IntervalSet.prefix("x")
    assert where("=", True).union(where("=", False)) == where("=", True).complement().complement().union(
        where("=", False)
    )
    assert hash(where("=", 5)) == hash(where("=", 5.0))


def test_all_and_nothing_are_complements() -> None:
    assert EMPTY.complement() == ALL
    assert ALL.complement() == EMPTY
    assert ALL.cuts == (BOTTOM, TOP)
    assert not EMPTY
    assert ALL.intersect(where("=", 1)) == where("=", 1).intersect(ALL) == where("=", 1)


def test_both_booleans_are_two_points() -> None:
    both = where("=", True).union(where("=", False))
    assert both.as_points() == [(BOOLEAN, False), (BOOLEAN, True)]
    assert both == IntervalSet((edge(BOOLEAN), edge(NUMBER)))


def test_an_interval_is_no_set_of_points() -> None:
    assert where("<", 5).as_points() is None
    assert where("=", 5).union(where(">", "x")).as_points() is None


def test_a_cut_after_a_value_is_above_the_cut_before_it() -> None:
    for key in KEYS:
        assert before(key) < after(key)
