"""The engine's index against the reference evaluator, on generated filters and events."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import NAMES, events, filters
from whimbrel import Filter, Index
from whimbrel.engine.access.kernel import SCRATCH_AT
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.live import segment_set as engine
from whimbrel.engine.live.head import EVALUATE_NS
from whimbrel.engine.matching.workspace import Workspace
from whimbrel.matchers.shared.checks import CHECKS, Check
from whimbrel.model.errors import FilterWarning
from whimbrel.model.event import Event
from whimbrel.model.matcher import Matcher

Id = int | str
Pair = tuple[int, Id]
many_filters = st.lists(filters, max_size=12)
many_events = st.lists(events(), min_size=1, max_size=5)

PADDING = [
    Filter.parse(f"{name} IN ({', '.join(str(10**6 + number) for number in range(300))}) AND b != 'pad'")
    for name in NAMES
]
"""Filters that dilute the others: among many constants, an equality is rare enough to be a key of a hash."""


def expected(kept: dict[Any, Filter], event: dict[str, Any]) -> list[Id]:
    return [id for id, filter in kept.items() if filter.matches(event)]


def expected_pairs(kept: dict[Any, Filter], batch: Iterable[dict[str, Any]]) -> list[Pair]:
    return [(row, id) for row, event in enumerate(batch) for id in expected(kept, event)]


def pairs(table: pa.Table) -> list[Pair]:
    rows = table["event"].to_pylist()
    assert rows == sorted(rows)
    return list(zip(rows, table["subscription"].to_pylist(), strict=True))


def block_pairs(index: Index, batch: object, threads: int | None = None) -> list[Pair]:
    """What `match_blocks` gives, named."""
    found: list[Pair] = []
    row = 0
    for offsets, slots in index.match_blocks(batch, threads):
        names = index.ids(slots)
        named = names.tolist() if isinstance(names, np.ndarray) else names.to_pylist()
        assert offsets[0] == 0 and offsets[-1] == len(slots)
        for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            found += [(row, id) for id in named[begin:end]]
            row += 1
    return found


def check_answers(index: Index, kept: dict[Any, Filter], batch: list[dict[str, Any]]) -> None:
    """Assert that every way to match gives what the filters say."""
    check_pairs(index, expected_pairs(kept, batch), batch)
    index._check()


def check_pairs(index: Index, wanted: list[Pair], batch: list[dict[str, Any]]) -> None:
    """Assert that every way to match gives these pairs, which are in order of addition."""
    single = [(row, id) for row, event in enumerate(batch) for id in index.match(event)]
    assert single == wanted
    assert Counter(pairs(index.match_batch(batch, threads=1))) == Counter(wanted)
    assert Counter(block_pairs(index, batch, threads=2)) == Counter(wanted)


MATCHER: Matcher = Index()
"""The index has the role of a matcher."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check) -> None:
    check(Index)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance_without_a_head(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HEAD_SIZE", 1)
    check(Index)


@given(many_filters, many_events)
def test_the_head_matches_what_the_filters_match(
    given_filters: list[Filter], given_events: list[dict[str, Any]]
) -> None:
    index = Index()
    kept = dict(enumerate(given_filters))
    for id, filter in kept.items():
        index.add(id, filter)
    for event in given_events:
        assert index.match(event) == expected(kept, event)


@given(many_filters, many_events)
def test_a_segment_matches_what_the_filters_match(
    given_filters: list[Filter], given_events: list[dict[str, Any]]
) -> None:
    index = Index()
    kept = dict(enumerate(given_filters))
    index.add_many(kept.items())
    check_answers(index, kept, given_events)


@given(many_filters, many_events)
def test_filters_among_many_others_match_the_same(
    given_filters: list[Filter], given_events: list[dict[str, Any]]
) -> None:
    index = Index()
    kept = dict(enumerate([*given_filters, *PADDING]))
    index.add_many(kept.items())
    check_answers(index, kept, given_events)


@given(st.lists(many_filters, min_size=2, max_size=4), many_events, st.booleans(), st.data())
def test_merging_changes_nothing(
    batches: list[list[Filter]], given_events: list[dict[str, Any]], padded: bool, data: st.DataObject
) -> None:
    index = Index()
    kept: dict[int, Filter] = {}
    for batch in [*batches, PADDING] if padded else batches:
        added = {len(kept) + i: filter for i, filter in enumerate(batch)}
        index.add_many(added.items())
        kept |= added
    for id in data.draw(st.lists(st.sampled_from(sorted(kept)), unique=True, max_size=20)) if kept else []:
        index.remove(id)
        del kept[id]
    check_answers(index, kept, given_events)
    index.merge()
    assert len(index._subscriptions.segments.snapshot.segments) == (padded or any(batches))
    check_answers(index, kept, given_events)
    index.merge()
    check_answers(index, kept, given_events)


@given(many_filters, many_events, many_events, st.booleans())
def test_a_sample_changes_plans_but_not_answers(
    given_filters: list[Filter], sample: list[dict[str, Any]], given_events: list[dict[str, Any]], padded: bool
) -> None:
    index = Index()
    kept = dict(enumerate([*given_filters, *PADDING] if padded else given_filters))
    index.add_many(kept.items())
    index.analyze(sample * 40)
    check_answers(index, kept, given_events)
    index.analyze([])
    check_answers(index, kept, given_events)


def _any_value(rng: random.Random) -> Any:
    return rng.choice([rng.randrange(60), rng.randrange(600) / 10, f"s{rng.randrange(60)}", rng.random() < 0.5])


def _literal(value: object) -> str:
    return repr(value) if not isinstance(value, bool) else str(value).upper()


def _some_predicate(rng: random.Random, name: str) -> str:
    number, other = sorted((rng.randrange(60), rng.randrange(60)))
    values = sorted({_literal(_any_value(rng)) for _ in range(rng.randrange(1, 5))})
    return rng.choice(
        [
            *(f"{name} = {_literal(_any_value(rng))}",) * 5,
            *(f"{name} > {number}", f"{name} <= {number}", f"{name} >= 's{number}'", f"{name} < 's{number}'"),
            f"{name} BETWEEN {number} AND {other}",
            f"{name} IN ({', '.join(values)})",
            f"{name} NOT IN ({', '.join(values)})",
            f"{name} CONTAINS ALL ({', '.join(values[:2])})",
            f"{name} != {number}",
            f"{name} LIKE 's{number % 10}%'",
            f"{name} IS NULL",
            f"{name} < other",
        ]
    )


WORKLOADS = {
    "few attributes": (4, 1, 3),
    "many attributes": (300, 1, 4),
    "long conjunctions": (30, 5, 10),
    "one attribute": (1, 1, 2),
}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_thousands_of_filters_match_what_they_say(workload: str) -> None:
    attributes, fewest, most = WORKLOADS[workload]
    rng = random.Random(workload)
    names = [f"x{number}" for number in range(attributes)]

    def text() -> str:
        chosen = rng.sample(names, min(attributes, rng.randint(fewest, most)))
        conjunction = " AND ".join(_some_predicate(rng, name) for name in chosen)
        return f"{conjunction} OR {_some_predicate(rng, rng.choice(names))}" if rng.random() < 0.1 else conjunction

    def event() -> dict[str, Any]:
        chosen = [name for name in names if rng.random() < min(0.8, 40 / attributes)]
        out: dict[str, Any] = {name: _any_value(rng) for name in chosen}
        for name in chosen[:2]:
            if rng.random() < 0.3:
                out[name] = [_any_value(rng) for _ in range(rng.randrange(4))]
        return out | {"other": rng.randrange(60)}

    kept = [Filter.parse(text()) for _ in range(1_500)]
    batch = [event() for _ in range(12)]
    wanted = [
        (row, id) for row, event in enumerate(map(Event, batch)) for id in range(1_500) if kept[id].matches(event)
    ]
    index = Index()
    index.add_many(enumerate(kept[:700]))
    for id in range(700, 800):
        index.add(id, kept[id])
    index.add_many(enumerate(kept[800:], 800))
    removed = set(rng.sample(range(1_500), 50))
    for id in removed:
        index.remove(id)
    wanted = [pair for pair in wanted if pair[1] not in removed]
    check_pairs(index, wanted, batch)
    index.merge()
    check_pairs(index, wanted, batch)
    index.analyze(batch)
    check_pairs(index, wanted, batch)
    index._check()


def test_every_kind_of_key_is_used() -> None:
    index = Index()
    texts = [f"a = {n}" for n in range(500)] + [f"b > {n}" for n in range(500)]
    texts += [f"a != {n} AND b != {n + 3} AND c != 1" for n in range(500)]
    texts += [f"rare{n} IS NOT NULL AND b != 1" for n in range(500)]
    draw = random.Random(1)
    texts += [" AND ".join(f"few{i} = {draw.randrange(3)}" for i in draw.sample(range(12), 6)) for _ in range(2_000)]
    index.add_many(enumerate(texts))
    few = [{f"few{i}": draw.randrange(3) for i in range(12)} for _ in range(200)]
    index.analyze([{"a": n, "b": n, "c": n % 5} | few[n] for n in range(200)])
    keys = index.stats()["keys"]
    assert isinstance(keys, dict) and all(keys.values()), keys
    for id in (5, 505, 1005, 1505, 2005):
        plan = index.plan(id)
        assert plan["subscription"] == id and len(plan["conjunctions"]) == 1  # type: ignore[arg-type]


def test_a_plan_says_what_share_of_the_sample_reaches_a_subscription() -> None:
    index = Index()
    index.add_many(
        [*((n, f"a = {n} AND b > 3") for n in range(1_000)), *((n, f"b > {n}") for n in range(1_000, 1_500))]
    )
    index.add(9_999, "TRUE")
    guessed: Any = index.plan(7)
    assert guessed["conjunctions"][0]["key"] == "hash" and guessed["conjunctions"][0]["attributes"] == ["a"]
    assert guessed["conjunctions"][0]["share"] == pytest.approx(1 / 2_000, rel=0.2)
    index.analyze([{"a": n % 100, "b": 10 * n} for n in range(200)])
    seen: Any = [index.plan(id) for id in (7, 500, 1_250, 9_999)]
    assert [plan["conjunctions"][0]["key"] for plan in seen] == ["hash", "hash", "sorted", "always"]
    assert [plan["conjunctions"][0]["share"] for plan in seen] == [0.01, 0.0, 74 / 200, 1.0]
    assert [plan["cost_ns"] > 0 for plan in seen] == [True, False, True, True]
    assert seen[0]["cost_ns"] > guessed["cost_ns"]


def test_stats_say_how_many_candidates_and_probes_an_event_had() -> None:
    index = Index()
    index.add_many((n, f"a = {n % 1_000} AND b = {n}") for n in range(5_000))
    assert index.stats()["candidates_per_event"] == index.stats()["probes_per_event"] == 0
    events = [{"a": n, "b": n} for n in range(500)]
    found = len(index.match_batch(events))
    after: Any = index.stats()
    assert found == 500 and after["events"] == 500
    assert 1 <= after["candidates_per_event"] <= 10 and 1 <= after["probes_per_event"] <= 10


def test_additions_after_a_removal_are_found() -> None:
    """A death is kept by slot: there must be room for slots that come after it."""
    index = Index()
    index.add(0, "a = 1")
    index.remove(0)
    for id in range(1, 1_500):
        index.add(id, "a = 1")
    assert index.match({"a": 1}) == list(range(1, 1_500))
    index.add_many((id, "a = 1") for id in range(1_500, 5_000))
    assert index.match({"a": 1}) == list(range(1, 5_000))
    index._check()


def test_an_in_filed_under_each_member_is_reported_once_after_a_merge() -> None:
    """Decoded, it is one conjunction per member, of which an event with several values may match several."""
    index = Index()
    index.add_many((id, f"a = {id}") for id in range(1_000))
    index.add_many([(1_002, "a IN (1, 2, 3)"), (1_003, "a IN (1, 2, 3) AND b < 9")])
    index.merge()
    index.analyze([{"a": [1, 2], "b": 1}] * 100)
    event = {"a": [1, 2, 3], "b": 5}
    assert index.match(event) == [1, 2, 3, 1_002, 1_003]
    assert sorted(pairs(index.match_batch([event]))) == [(0, id) for id in (1, 2, 3, 1_002, 1_003)]


def test_buffers_are_never_taken_for_those_of_another_segment() -> None:
    """A segment may lie where a dead one lay: buffers fitted to that one would be too small."""
    parts = []
    for count in (1, 1_000):
        index = Index()
        index.add_many((id, f"x{id} = 1 AND y{id} < 2") for id in range(count))
        parts.append(
            (
                index._subscriptions.segments.snapshot.segments[0].arrays,
                index._subscriptions.segments.snapshot.segments[0].meta,
            )
        )
    workspace = Workspace()
    for _ in range(20):
        segment = Segment(*parts[0])
        workspace.words(segment, 5_000)
        place = id(segment)
        del segment
        segment = Segment(*parts[1])
        assert workspace.words(segment, 5_000).block[SCRATCH_AT + 1] > 2_000
        if id(segment) == place:
            return


def test_replaced_filters_keep_their_place() -> None:
    index = Index()
    for id in "abcd":
        index.add(id, "x = 1")
    for id in "ab":
        index.replace(id, "x = 2")
        index.replace(id, "x = 1")
    index.merge()
    index.replace("a", "x > 0")
    assert index.match({"x": 1}) == list(index) == ["a", "b", "c", "d"]
    index.remove("a")
    index.add("a", "x = 1")
    assert index.match({"x": 1}) == list(index) == ["b", "c", "d", "a"]


def test_filters_that_need_verifying_match_columns_that_cannot_be_taken_from() -> None:
    index = Index()
    index.add(1, "a LIKE '%x%'")
    texts = pa.array(["axb", "y", None, "x"])
    for column in (texts.cast(pa.string_view()), pa.compute.run_end_encode(texts)):
        assert pairs(index.match_batch(pa.table({"a": column}))) == [(0, 1), (3, 1)]


def test_the_head_is_checked_until_that_has_cost_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HEAD_NS", 60 * EVALUATE_NS)
    index = Index()
    for id in range(10):
        index.add(id, f"x >= {id}")
    for x in (0, 1, 2, 3, 2, 1, 0):  # 10 filters each
        assert index.segments == 0
        assert index.match({"x": x}) == list(range(x + 1))
    assert index.match({"x": 3}) == [0, 1, 2, 3]
    assert index.segments == 1
    index.add(10, "x = 77")
    index.add(11, "x > 2")
    for _ in range(200):
        assert index.match({"x": 3}) == [0, 1, 2, 3, 11]
    assert index.segments == 1  # ranks decide
    for _ in range(62):
        assert index.match({"x": 78}) == [*range(10), 11]
    assert index.segments == 2  # 77 and 78 have one rank


def test_a_filter_that_is_hardly_meant_warns_on_request() -> None:
    index = Index()
    with pytest.warns(FilterWarning, match="did you mean 'Toy'"):
        index.add("toys", 'category = "Toy"', warn=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.add("silent", 'category = "Toy"')
        index.add("good", "category = 'Toy'", warn=True)
    assert list(index) == ["toys", "silent", "good"]
