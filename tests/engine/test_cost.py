"""What a filter would cost: selective ones less than broad ones, and asking changes nothing."""

from __future__ import annotations

import pytest

from whimbrel import Index
from whimbrel.model.errors import FilterError, UnknownDialect


def filled() -> Index:
    index = Index()
    index.add_many((id, f"a = {id} AND b < {id % 50}") for id in range(3_000))
    return index


def test_an_equality_costs_less_than_a_range_and_that_less_than_what_no_key_decides() -> None:
    index = filled()
    equality, range, pattern = (index.cost(text) for text in ("a = 5", "a > 5", "a RLIKE '(?i)x.*y'"))
    assert equality.nanoseconds < range.nanoseconds < pattern.nanoseconds
    assert [one.key for one in (*equality.conjunctions, *range.conjunctions)] == ["hash", "sorted"]
    assert equality.verifications == 0 < pattern.verifications


def test_an_empty_index_gives_a_guess() -> None:
    costs = [Index().cost(text).nanoseconds for text in ("a = 5", "a > 5", "a LIKE '%x%y%'")]
    assert costs == sorted(costs) and costs[0] > 0


def test_a_sample_says_how_many_events_reach_a_filter() -> None:
    index = filled()
    index.analyze([{"a": number, "b": 1} for number in range(100)])
    cost = index.cost("a = 5")
    assert cost.candidates == pytest.approx(0.01) and cost.verifications == 0
    assert [one.attributes for one in cost.conjunctions] == [("a",)]
    assert index.cost("a = 5 OR a = 6").candidates == pytest.approx(0.02)
    compared = index.cost("a < b")
    assert compared.verifications == 0 and compared.candidates == pytest.approx(0.01, abs=0.01)


def test_filters_that_no_event_or_every_event_matches_have_a_cost() -> None:
    index = filled()
    assert index.cost("a = 1 AND a = 2").nanoseconds == 0
    assert [one.key for one in index.cost("TRUE").conjunctions] == ["always"]


def test_asking_changes_nothing() -> None:
    index = filled()
    index.add(-1, "c = 1")
    before = index.stats()
    index.cost("c = 1 AND d LIKE 'x%'")
    assert index.stats() == before and index.attributes() == {"a", "b", "c"} and len(index) == 3_001


def test_a_bad_filter_is_refused_as_it_is_by_add() -> None:
    with pytest.raises(FilterError):
        Index().cost("a =")
    with pytest.raises(UnknownDialect):
        Index().cost("a = 1", dialect="none")
