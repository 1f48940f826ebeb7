"""Chunks: how conjunctions are put into them, and what they give, against the filters themselves."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from whimbrel import Filter, Index
from whimbrel.engine.access import segment as segments
from whimbrel.engine.access.bitmap.chunks import CHUNK, tiled
from whimbrel.engine.access.registry import KINDS
from whimbrel.engine.access.shared.plan import Plan, Weights, item_shares
from whimbrel.engine.matching import workspace
from whimbrel.lab.workloads import ranges
from whimbrel.ranks.clauses.clauses import Clauses

NAMES = ("a", "b", "c", "d", "e", "f")
ENDS = (-(1 << 63), (1 << 63) - 1, 0, -0.0, 1e308, float("-inf"))


@pytest.fixture
def all_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(clauses: Clauses, weights: Weights) -> Plan:
        made = Plan(clauses, weights, item_shares(clauses, weights), KINDS)
        made.take("bitmap", made.open)
        return made

    monkeypatch.setattr(segments, "make_plan", plan)


def _condition(draw: random.Random, name: str) -> str:
    low, high = sorted((round(draw.uniform(0, 100), 2), round(draw.uniform(0, 100), 2)))
    few = [str(draw.randrange(6)) for _ in range(draw.randrange(1, 5))]
    ways = [f"{name} BETWEEN {low} AND {high}"] * 12 + [
        f"{name} <= {high}",
        f"{name} > {low}",
        f"{name} = {few[0]}",
        f"{name} IN ({', '.join(few)})",
        f"{name} != {few[0]}",
        f"{name} NOT BETWEEN {low} AND {high}",
        f"({name} < {low} OR {name} > {high})",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
        f"({name} IS NULL OR {name} > {low})",
        f"{name} >= 'm'",
        f"{name} LIKE '%x'",
    ]
    return draw.choice(ways)


def _filters(draw: random.Random, count: int) -> list[str]:
    filters = []
    for n in range(count):
        names = draw.sample(NAMES, draw.randrange(1, len(NAMES) + 1))
        text = " AND ".join(_condition(draw, name) for name in names)
        filters.append(text if n % 40 else f"({text}) OR {_condition(draw, 'g')}")
    return filters


def _value(draw: random.Random) -> object:
    usual = [round(draw.uniform(-1, 101), 2)] * 8 + [draw.randrange(7), "m", "ax", None, True, draw.choice(ENDS)]
    return draw.choice(usual)


def _events(draw: random.Random, count: int) -> list[dict[str, object]]:
    events: list[dict[str, object]] = [{}, {"other": 1}]
    for _ in range(count):
        event = {name: _value(draw) for name in (*NAMES, "g") if draw.random() < 0.93}
        if draw.random() < 0.2:
            event[draw.choice(NAMES)] = [_value(draw) for _ in range(draw.randrange(4))]
        events.append(event)
    return events


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 12))])
@pytest.mark.usefixtures("all_in_chunks")
def test_chunks_give_what_the_filters_say(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    filters = _filters(draw, 1_200)
    index = Index()
    index.add_many(enumerate(filters))
    assert index.stats()["keys"]["bitmap"] == index.stats()["conjunctions"]  # type: ignore[index]
    events = _events(draw, 40)
    parsed = [Filter.parse(text) for text in filters]
    wanted = [[number for number, one in enumerate(parsed) if one.matches(event)] for event in events]
    assert sum(map(len, wanted)) > 500
    index.save(tmp_path)
    for one in (index, Index.open(tmp_path)):
        assert [one.match(event) for event in events] == wanted
        found = one.match_batch(events, threads=1)
        pairs = sorted(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))
        assert pairs == [(row, number) for row, numbers in enumerate(wanted) for number in numbers]


@pytest.mark.usefixtures("all_in_chunks")
def test_a_chunk_that_every_event_matches_is_given_whole() -> None:
    index = Index()
    index.add_many((number, "a >= 0 AND b >= 0") for number in range(3 * CHUNK + 1))
    blocks = index.match_blocks(pa.table({"a": [1] * 70, "b": [*range(69), -1]}), 1)
    assert sum(len(slots) for _, slots in blocks) == 69 * (3 * CHUNK + 1)
    assert index.match({"a": 0, "b": 0}) == list(range(3 * CHUNK + 1))


@pytest.mark.usefixtures("all_in_chunks")
def test_once_buffers_are_large_enough_no_block_is_matched_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index()
    index.add_many((number, "a >= 0 AND b >= 0") for number in range(3 * CHUNK))
    events = pa.table({"a": [1] * 3_000, "b": [2] * 3_000})
    found: list[int] = []
    match = workspace.match

    def counted(words: np.ndarray, first: int, count: int, is_single: bool) -> int:
        found.append(match(words, first, count, is_single))
        return found[-1]

    monkeypatch.setattr(workspace, "entry_for", lambda *_: counted)
    assert sum(len(slots) for _, slots in index.match_blocks(events, 1)) == 3_000 * 3 * CHUNK
    assert min(found) < 0  # the first buffers were too small
    found.clear()
    assert sum(len(slots) for _, slots in index.match_blocks(events, 1)) == 3_000 * 3 * CHUNK
    assert min(found) > 0


def _plan(draw: np.random.Generator, count: int, attributes: int, ranks: int) -> Plan:
    lengths = draw.integers(0, 5, count)
    start = np.concatenate([[0], np.cumsum(lengths)])
    attr = draw.integers(0, attributes, start[-1]).astype(np.int32)
    low = draw.integers(0, ranks, len(attr)).astype(np.int32)
    high = np.minimum(ranks - 1, low + draw.integers(0, ranks, len(attr))).astype(np.int32)
    kind = np.where(draw.random(len(attr)) < 0.1, 2, 0).astype(np.uint8)
    none, slot = np.empty(0, np.int32), np.arange(count, dtype=np.int32)
    flags, names = np.zeros(count, np.uint8), [str(number) for number in range(attributes)]
    clauses = Clauses(names, slot, flags, start, attr, kind, low, high, np.zeros(1, np.int64), none, none, none)
    total = np.full(attributes, ranks, np.int64)
    weights = Weights(np.ones(attributes), total, np.zeros(attributes + 1, np.int64), np.empty(0, np.float32))
    return Plan(clauses, weights, np.ones(len(attr), np.float32), KINDS)


@pytest.mark.parametrize(
    ("count", "attributes", "ranks"),
    [
        (0, 1, 5),
        (1, 1, 5),
        (CHUNK, 1, 5),
        (CHUNK + 1, 2, 3),
        (5_000, 3, 1_000),
        (20_000, 200, 50),
        (30_000, 6, 1 << 20),
    ],
)
def test_every_conjunction_is_in_one_chunk_of_at_most_512(count: int, attributes: int, ranks: int) -> None:
    plan = _plan(np.random.default_rng(count), count, attributes, ranks)
    mine = np.arange(count)
    ordered, first = tiled(plan, mine)
    assert sorted(ordered.tolist()) == mine.tolist()
    assert first[0] == 0 and first[-1] == count
    sizes = np.diff(first)
    assert (sizes > 0).all() and (sizes <= CHUNK).all()
    assert len(sizes) <= 2 * -(-count // CHUNK)  # few are small


def test_most_chunks_are_skipped() -> None:
    workload = ranges(60_000, 12, 3, 0.05, events=200)
    index = Index()
    index.add_many(workload.subscriptions)
    index.match_batch(workload.events, threads=1)
    stats = index.stats()
    assert stats["keys"]["bitmap"] == 60_000, stats["keys"]  # type: ignore[index]
    assert stats["chunks_per_event"] < 25  # type: ignore[operator]
