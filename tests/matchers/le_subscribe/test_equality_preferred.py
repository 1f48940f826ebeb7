"""Clusters by equality schema, and counting of everything else."""

from __future__ import annotations

from itertools import product

import pytest

from whimbrel.matchers import make
from whimbrel.matchers.le_subscribe.equality_preferred import EqualityPreferred
from whimbrel.matchers.le_subscribe.predicate_clusters import LAST_STAMP
from whimbrel.model.filter import Filter


def preferred(**options: object) -> EqualityPreferred:
    matcher = make("equality_preferred", **options)
    assert isinstance(matcher, EqualityPreferred)
    return matcher


def test_conjunctions_lie_in_the_cluster_of_their_schema() -> None:
    matcher = preferred(count=True)
    texts = ["a = 1 AND b = 2", "a = 1 AND b = 2 AND c < 5", "a = 1 AND b = 3", "a = 1", "c < 5", "c < 5 AND d > 1"]
    matcher.add_many(enumerate(texts))
    assert matcher.match({"a": 1, "b": 2, "c": 4}) == [0, 1, 3, 4]
    stats = matcher.stats()
    assert (stats["key_shapes"], stats["buckets"], stats["without_equality"]) == (2, 3, 2)
    assert (stats["candidates"], stats["false_candidates"], stats["additions"]) == (3, 0, 3)
    assert matcher.match({"a": 1, "b": 2, "c": 7}) == [0, 3]
    assert matcher.stats()["false_candidates"] == 1


def test_only_key_shapes_inside_the_event_are_looked_up() -> None:
    matcher = preferred(count=True)
    matcher.add_many(enumerate(["a = 1", "b = 1", "a = 1 AND b = 1"]))
    assert matcher.match({"a": 1}) == [0]
    assert matcher.stats()["probes"] == 2  # one schema, and the attribute's equality table
    assert matcher.match({"c": 1}) == []


@pytest.mark.parametrize("count", [3, 40])
def test_every_combination_of_listed_values_is_looked_up(count: int) -> None:
    matcher = preferred()
    filters = {(a, b): Filter.parse(f"a = {a} AND b = {b} AND c < {a}") for a, b in product(range(count), range(3))}
    for (a, b), filter in filters.items():
        matcher.add(f"{a}-{b}", filter)
    for event in ({"a": [1, 2, 77], "b": [0, 2], "c": [1, 9]}, {"a": list(range(30)), "b": [1, 2, 3], "c": 0}):
        assert matcher.match(event) == [f"{a}-{b}" for (a, b), f in filters.items() if f.matches(event)]


def test_more_attributes_than_bits_of_a_mask() -> None:
    matcher = preferred()
    matcher.add_many(enumerate([f"x{i} = 1 AND y > {i}" for i in range(130)]))
    assert matcher.match({"x5": 1, "y": 50}) == [5]
    assert matcher.match({"x69": 1, "y": 500}) == [69]


def test_counts_start_anew_when_the_stamps_run_out() -> None:
    matcher = preferred()
    matcher.add("x", "a = 1 AND b > 1")
    matcher.add("y", "b > 1 AND c > 1")
    event = {"a": 1, "b": [2, 3], "c": 2}
    assert matcher.match(event) == ["x", "y"]
    matcher._counts.stamp = LAST_STAMP - 4
    matcher._counts.arrays.hits[:] = LAST_STAMP
    matcher._counts.arrays.seen[:] = LAST_STAMP
    for _ in range(3):
        assert matcher.match(event) == ["x", "y"]
        assert matcher.match({"a": 1, "c": 2}) == []
    matcher._check()
