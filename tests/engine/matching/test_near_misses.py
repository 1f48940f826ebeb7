"""Explanations and near misses over the whole index, against the plain ones over all subscriptions."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import events, filters
from whimbrel import Filter, Index
from whimbrel.language.columnar.terms import READY_FROM
from whimbrel.model.event import Event
from whimbrel.model.explain import explain
from whimbrel.model.near_misses import near_misses
from whimbrel.model.subscription import Subscription


def misses(index: Index, event: dict[str, Any], limit: int = 10) -> list[tuple[int | str, int]]:
    return [(miss.id, miss.failed) for miss in index.near_misses(event, limit)]


def check_misses(index: Index, kept: dict[int, Filter], event: dict[str, Any], limit: int) -> None:
    plain = near_misses((Subscription(id, filter) for id, filter in kept.items()), Event(event), limit)
    assert index.near_misses(event, limit) == plain


@given(st.lists(filters, max_size=20), st.lists(events(), min_size=1, max_size=3), st.integers(0, 12), st.data())
def test_near_misses_are_those_of_all_subscriptions(
    given_filters: list[Filter], given_events: list[dict[str, Any]], limit: int, data: st.DataObject
) -> None:
    index = Index()
    kept = dict(enumerate(given_filters))
    half = data.draw(st.integers(0, len(kept)))
    index.add_many(list(kept.items())[:half])
    for id in range(half, len(kept)):
        index.add(id, kept[id])
    for event in given_events:
        check_misses(index, kept, event, limit)
    for id in data.draw(st.lists(st.sampled_from(sorted(kept)), max_size=4, unique=True)) if kept else []:
        kept[id] = data.draw(filters)
        index.replace(id, kept[id])
    for id in data.draw(st.lists(st.sampled_from(sorted(kept)), max_size=4, unique=True)) if kept else []:
        index.remove(id)
        del kept[id]
    index.merge()
    for event in given_events:
        check_misses(index, kept, event, limit)


@given(st.lists(filters, min_size=1, max_size=4), events())
def test_explanations_are_those_of_the_filter(given_filters: list[Filter], event: dict[str, Any]) -> None:
    index = Index()
    index.add_many(enumerate(given_filters))
    for id, filter in enumerate(given_filters):
        found, plain = index.explain(id, event), explain(filter, Event(event))
        assert found == plain and str(found) == str(plain) and found.to_dict() == plain.to_dict()
        assert found.matched == (id in index.match(event))


@pytest.mark.parametrize("limit", [1, 5, 100])
def test_near_misses_among_many(limit: int) -> None:
    rng = random.Random(7)
    kept = {}
    for id in range(1_200):
        parts = [f"x{n} = {rng.randrange(4)}" for n in rng.sample(range(8), rng.randint(1, 6))]
        parts += [f"t LIKE '%{rng.choice('abc')}%'"] * (rng.random() < 0.3)
        parts += [f"x{rng.randrange(8)} < x{rng.randrange(8)}"] * (rng.random() < 0.2)
        kept[id] = Filter.parse(" AND ".join(parts))
    index = Index()
    index.add_many(kept.items())
    for id in rng.sample(range(1_200), 60):
        index.replace(id, kept[id])
    for id in rng.sample(range(1_200), 60):
        index.remove(id)
        del kept[id]
    for _ in range(6):
        event: dict[str, Any] = {f"x{n}": rng.randrange(4) for n in range(8) if rng.random() < 0.7}
        check_misses(index, kept, event | {"t": rng.choice("abcd")}, limit)


def test_a_filter_that_may_fail_more_does_not_hide_a_better_one() -> None:
    index = Index()
    index.add(0, "a = 1 AND b LIKE '%x%' AND c LIKE '%x%'")
    index.add(1, "a = 1 AND b = 'x'")
    assert misses(index, {"a": 2, "b": "y", "c": "y"}, 1) == [(1, 2)]


def test_what_never_matches_takes_no_place_of_a_near_miss() -> None:
    index = Index()
    texts = ["a = 'x' AND a LIKE '%y'", "b = 1", "a = 'x' AND a LIKE '%y' OR b = 1 AND c = 1"] * READY_FROM
    index.add_many(enumerate(texts))
    assert misses(index, {"a": "z"}, limit=2) == [(1, 1), (4, 1)]
    assert misses(index, {"a": "z"}, limit=READY_FROM + 1)[-1] == (2, 2)


def test_two_missing_attributes_that_are_compared_fail_as_one() -> None:
    index = Index()
    index.add(0, "x = 1 AND y = 1")
    index.add(1, "a = b")
    assert misses(index, {}, 1) == [(1, 1)]
    assert misses(index, {}) == [(1, 1), (0, 2)]


def test_constraints_that_hold_one_by_one_but_not_together_fail_once() -> None:
    index = Index()
    index.add("both", "d.x = 1 AND d.y = 2")
    index.add("other", "z = 1")
    event = {"d": [{"x": 1, "y": 1}, {"x": 2, "y": 2}]}
    assert misses(index, event) == [("both", 1), ("other", 1)]
    assert index.near_misses(event)[0].explanation.coupled
    assert misses(index, {"d": [{"x": 1, "y": 2}]}) == [("other", 1)]


def test_what_matches_or_never_can_is_no_near_miss() -> None:
    index = Index()
    for id, text in enumerate(["TRUE", "FALSE", "a = 1 AND a = 2", "a = 1", "a = 2"]):
        index.add(id, text)
    assert misses(index, {"a": 1}) == [(4, 1)]
    assert misses(index, {"a": 1}, 0) == misses(index, {"a": 1}, -1) == []


def test_many_failed_constraints_are_counted() -> None:
    index = Index()
    index.add(0, " AND ".join(f"x{n} = 1" for n in range(400)))
    index.add(1, " AND ".join(f"x{n} = 1" for n in range(300)))
    index.add(2, f"t CONTAINS ALL ({', '.join(map(str, range(2_000)))})")
    assert misses(index, {}) == [(2, 1), (1, 300), (0, 400)]


def test_near_misses_say_the_distance() -> None:
    index = Index()
    index.add("cheap", "category = 'Toy' AND price < 5")
    index.add("dear", "category = 'Toy' AND price > 50")
    first, second = index.near_misses({"category": "Toy", "price": 7})
    assert str(first) == "cheap: 1 failed\n  + category = 'Toy'  [category: 'Toy']\n  - price < 5  [price: 7, off by 2]"
    assert second.to_dict()["subscription"] == "dear"
    assert [c.distance for c in second.explanation.constraints] == [None, 43]
    text = str(index.explain("cheap", {"category": "Toy", "price": 7}))
    assert text.splitlines() == [
        "no match",
        "  + category = 'Toy'  [category: 'Toy']",
        "  - price < 5  [price: 7, off by 2]",
    ]


def test_near_misses_with_as_many_failures_are_in_order_of_addition() -> None:
    index = Index()
    index.add_many((id, "a = 1 AND b = 1") for id in (3, 1, 2))
    index.add(0, "a = 1")
    index.add(4, "a = 1 AND b = 1")
    assert misses(index, {"b": 1}) == [(3, 1), (1, 1), (2, 1), (0, 1), (4, 1)]
    index.replace(1, "a = 2 AND b = 1")
    index.remove(2)
    index.add(2, "a = 3")
    assert misses(index, {"b": 1}) == [(3, 1), (1, 1), (0, 1), (4, 1), (2, 1)]
    assert misses(index, {"b": 1}, 2) == [(3, 1), (1, 1)]
    index.merge()
    assert misses(index, {"b": 1}) == [(3, 1), (1, 1), (0, 1), (4, 1), (2, 1)]


def test_a_near_miss_shows_the_conjunction_that_fails_least() -> None:
    index = Index()
    index.add("or", "(a = 1 AND b = 1 AND c = 1) OR (a = 2 AND b = 2) OR (a = 3 AND t LIKE '%x%')")
    (miss,) = index.near_misses({"a": 1, "b": 2, "c": 0})
    assert miss.failed == 1
    assert [(c.text, c.held) for c in miss.explanation.constraints] == [("a = 2", False), ("b = 2", True)]
    (miss,) = index.near_misses({"a": 1, "b": 0, "c": 1})
    assert [(c.text, c.held) for c in miss.explanation.constraints] == [
        ("a = 1", True),
        ("b = 1", False),
        ("c = 1", True),
    ]
    (miss,) = index.near_misses({"a": 3})
    assert [c.held for c in miss.explanation.constraints] == [True, False]


@pytest.mark.parametrize(
    ("text", "event", "distance"),
    [
        ("p < 5", {"p": 7}, 2),
        ("p BETWEEN 5 AND 9", {"p": 1}, 4),
        ("p BETWEEN 5 AND 9", {"p": [1, 12]}, 3),
        ("p IN (1, 10, 100)", {"p": 13}, 3),
        ("p < 5", {"p": "7"}, None),
        ("p < 5", {}, None),
        ("p = 'x'", {"p": "y"}, None),
        ("p >= TIMESTAMP '2026-01-02'", {"p": "2026-01-01T23:59:59Z"}, 1.0),
        ("p < q", {"p": 7, "q": 5}, 2),
    ],
)
def test_a_near_miss_has_the_distance_to_numbers_and_timestamps(text: str, event: Any, distance: float | None) -> None:
    index = Index(timestamps=["p"] if "TIMESTAMP" in text else [])
    index.add_many([("wanted", text), ("other", "z = 1 AND y = 1")])
    miss = index.near_misses(event, 1)[0]
    assert miss.id == "wanted"
    assert [c.distance for c in miss.explanation.constraints] == [distance]
