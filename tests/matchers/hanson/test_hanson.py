"""Hanson's algorithm: which predicate is chosen, what is counted, and one answer in both forms."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import events, filters
from whimbrel.matchers import make
from whimbrel.matchers.hanson.hanson import Hanson
from whimbrel.model.errors import UnsupportedFilter
from whimbrel.model.filter import Filter


def filled(texts: list[str], **options: object) -> Hanson:
    matcher = make("hanson", **options)
    assert isinstance(matcher, Hanson)
    for id, text in enumerate(texts):
        matcher.add(id, text)
    matcher._check()
    return matcher


@settings(max_examples=25)
@given(st.lists(filters, max_size=10), st.lists(events(), min_size=1, max_size=4), st.data())
def test_the_trees_and_their_frozen_form_give_the_same_answers(
    pool: list[Filter], found: list[dict[str, object]], data: st.DataObject
) -> None:
    matcher = filled([])
    kept: dict[int, Filter] = {}
    for id, filter in enumerate(pool):
        try:
            matcher.add(id, filter)
        except UnsupportedFilter:
            continue
        kept[id] = filter
    for id in data.draw(st.lists(st.sampled_from(sorted(kept)), unique=True)) if kept else []:
        matcher.remove(id)
        del kept[id]
    for event in found:
        expected = [id for id, filter in kept.items() if filter.matches(event)]
        matcher._thaw()
        assert matcher.match(event) == expected
        matcher.freeze()
        assert matcher.match(event) == expected


def test_a_removed_constant_at_the_root_hides_no_other_in_the_frozen_form() -> None:
    matcher = filled(["a = 'b'", "a = 'c'", "a = 'd'"])
    matcher.remove(1)
    matcher.freeze()
    assert [matcher.match({"a": value}) for value in "bcd"] == [[0], [], [2]]


def test_the_equality_with_the_most_constants_is_chosen() -> None:
    texts = [f"kind = {i % 2} AND name = 'n{i}' AND price > {i}" for i in range(60)]
    matcher = filled(texts)
    assert [matcher._access[number] for number in range(20, 60)] == ["name"] * 40
    assert matcher.match({"kind": 1, "name": "n41", "price": 50}) == [41]


def test_without_an_equality_the_narrowest_range_is_chosen() -> None:
    bounds = [f"a > {i} AND b < {i}" for i in (0, 1000)]
    matcher = filled([*bounds, "a BETWEEN 0 AND 900 AND b BETWEEN 10 AND 20"])
    assert matcher._access[2] == "b"


def test_a_sample_of_events_decides_by_frequency() -> None:
    sample = [{"common": 1, "rare": i, "price": 50} for i in range(100)]
    matcher = filled(["common = 1 AND price < 10", "common = 1 AND rare = 7", "common = 1"], sample=sample)
    assert matcher._access == {0: "price", 1: "rare", 2: "common"}


def test_work_is_counted_alike_in_both_forms() -> None:
    matcher = filled([f"a BETWEEN {i} AND {i + 10} AND b = {i % 3}" for i in range(50)])
    event = {"a": 20, "b": 1}
    found, counts = [], []
    for freeze in (matcher._thaw, matcher.freeze):
        freeze()
        before = matcher._counters.copy()
        found.append(matcher.match(event))
        counts.append((matcher._counters - before).tolist())
    assert found[0] == found[1] and counts[0] == counts[1]
    stats = matcher.stats()
    assert stats["false_candidates"] == stats["candidates"] - 2 * len(found[0])  # type: ignore[operator]
    assert int(stats["predicate_evaluations"]) <= int(stats["candidates"])


def test_a_candidate_that_several_values_find_is_reported_once() -> None:
    matcher = filled(["a < 10", "a < 10 AND b > 3", "a != 4"])
    for prepare in (matcher._thaw, matcher.freeze):
        prepare()
        assert matcher.match({"a": [1, 2, 3], "b": [1, 5]}) == [0, 1, 2]
        assert matcher.match({"a": [4]}) == [0]
        assert matcher.match({"a": [4, "x", None]}) == [0, 2]


def test_invariants_hold_under_random_adds_and_removes() -> None:
    rng = random.Random(11)
    matcher = filled([])
    held: dict[int, Filter] = {}
    for step in range(500):
        if held and rng.random() < 0.45:
            id = rng.choice(list(held))
            matcher.remove(id)
            del held[id]
        else:
            terms = [f"{name} {rng.choice(['=', '<', '>=', '!='])} {rng.randint(0, 30)}" for name in "abc"]
            held[step] = Filter.parse(" AND ".join(rng.sample(terms, rng.randint(1, 3))))
            matcher.add(step, held[step])
        if step % 25 == 0:
            matcher._check()
        event = {name: rng.randint(0, 30) for name in rng.sample("abc", 2)}
        assert matcher.match(event) == [id for id, filter in held.items() if filter.matches(event)]


def test_work_is_not_counted_when_counting_is_off() -> None:
    matcher = filled(["a = 1"], count=False)
    assert matcher.match({"a": 1}) == [0]
    assert not matcher.stats().keys() & {"candidates", "nodes_visited"}


def test_a_range_that_reaches_into_another_type() -> None:
    matcher = filled(["k > 5 AND k < 9", "(k > 5 OR k < 'x') AND j = 1"])
    assert matcher.match({"k": "a", "j": 1}) == [1]
    assert matcher.match({"k": 7, "j": 1}) == [0, 1]
    matcher._check()
