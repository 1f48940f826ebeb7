"""Quarantine: candidates by equality, the rest beside them, and what has no equality in columns."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import events, filters
from whimbrel.matchers import make
from whimbrel.matchers.le_subscribe.quarantine import Quarantine
from whimbrel.matchers.shared.option_checks import MatcherOptionError
from whimbrel.model.errors import UnsupportedEvent, UnsupportedFilter
from whimbrel.model.filter import Filter


def quarantine(**options: object) -> Quarantine:
    matcher = make("quarantine", **options)
    assert isinstance(matcher, Quarantine)
    return matcher


def test_other_predicates_are_checked_only_for_candidates() -> None:
    matcher = quarantine(count=True)
    matcher.add_many(enumerate([f"a = {i} AND b < 5 AND c > {i}" for i in range(100)]))
    assert matcher.match({"a": 7, "b": 1, "c": 8}) == [7]
    stats = matcher.stats()
    assert (stats["candidates"], stats["false_candidates"], stats["predicate_evaluations"]) == (1, 0, 2)
    assert matcher.match({"a": 7, "b": 1}) == []
    assert matcher.stats()["false_candidates"] == 1


def test_conjunctions_without_an_equality_are_scanned_by_the_attributes_that_they_test() -> None:
    matcher = quarantine(count=True)
    texts = [f"a < {i}" for i in range(5)] + [f"a < {i} AND b > {i}" for i in range(5)] + ["c != 1", "a IN (1, 2)"]
    matcher.add_many(enumerate(texts))
    assert matcher.match({"a": 2}) == [3, 4, 11]
    stats = matcher.stats()
    assert (stats["groups"], stats["without_equality"], stats["quarantine_scanned"]) == (4, 12, 6)
    assert matcher.match({"a": 2, "b": 4}) == [3, 4, 8, 11]
    assert matcher.match({"a": [2, 9], "b": 4, "c": [1, 2]}) == [3, 4, 8, 10, 11]
    matcher._check()


def test_groups_longer_than_a_cache_line_and_of_many_columns() -> None:
    matcher = quarantine()
    filters = {}
    for number, (a, b, c) in enumerate(product(range(8), repeat=3)):
        filters[number] = Filter.parse(f"a > {a} AND b <= {b} AND c BETWEEN {c} AND {c + 3}")
        matcher.add(number, filters[number])
    for event in ({"a": 4, "b": 4, "c": 4}, {"a": 0, "b": 1, "c": 2}, {"a": 99, "b": -1, "c": 5}):
        assert matcher.match(event) == [number for number, filter in filters.items() if filter.matches(event)]


def test_every_combination_of_listed_values_is_a_candidate_once() -> None:
    matcher = quarantine(count=True)
    matcher.add_many(enumerate([f"a = {i} AND b = {j} AND c > 0" for i, j in product(range(3), repeat=2)]))
    assert matcher.match({"a": [0, 2, 5], "b": [1, 2], "c": [-1, 1]}) == [1, 2, 7, 8]
    assert matcher.stats()["candidates"] == 4


def test_the_papers_quarantine_counts_predicates_and_adds_as_often_as_a_hand_count() -> None:
    matcher = quarantine(quarantined="count", count=True)
    texts = ["a = 1 AND b < 5", "b < 5", "b < 5 AND c > 2", "c > 2 AND d != 1", "b BETWEEN 1 AND 9", "b IN (3, 4)"]
    matcher.add_many(enumerate(texts))
    assert matcher.match({"a": 1, "b": 3, "c": 3, "d": 1}) == [0, 1, 2, 4, 5]
    stats = matcher.stats()
    assert (stats["groups"], stats["without_equality"], stats["quarantine_scanned"]) == (0, 5, 0)
    # b < 5 adds to two, c > 2 to two, both ends of BETWEEN and IN to one each; d != 1 fails.
    assert (stats["candidates"], stats["quarantine_additions"]) == (1, 2 + 2 + 2 + 1)
    assert matcher.match({"b": [0, 10], "c": 1, "d": 2}) == [1]
    matcher._check()


@settings(max_examples=20)
@given(st.lists(filters, max_size=8), st.lists(events(), min_size=1, max_size=4))
def test_counting_and_scanning_agree_with_the_reference(drawn: list[Filter], batch: list[dict[str, Any]]) -> None:
    both = quarantine(quarantined="count"), quarantine()
    kept: dict[int, Filter] = {}
    for id, filter in enumerate(drawn):
        try:
            for matcher in both:
                matcher.add(id, filter)
        except UnsupportedFilter:
            continue
        kept[id] = filter
    for matcher in both:
        matcher.freeze()
        matcher._check()
        for event in batch:
            try:
                found = matcher.match(event)
            except UnsupportedEvent:
                continue
            assert found == [id for id, filter in kept.items() if filter.matches(event)]


def test_another_word_for_the_quarantine_is_refused() -> None:
    with pytest.raises(MatcherOptionError, match="expected quarantined to be one of scan, count"):
        quarantine(quarantined="counting")
