"""Signatures: conjunctions over attributes of few values as bits, against the filters themselves."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from whimbrel import Filter, Index
from whimbrel.lab.workloads import gryphon

VALUES = ("'a'", "'b'", "'c'", "1", "2", "2.5", "TRUE")
PYTHON = ("a", "b", "c", "d", 1, 2, 2.5, 3, True, False, None)


def _condition(draw: random.Random, name: str) -> str:
    ways = [f"{name} = {draw.choice(VALUES)}"] * 8 + [
        f"{name} IN ({', '.join(draw.sample(VALUES, draw.randrange(1, 4)))})",
        f"{name} != {draw.choice(VALUES)}",
        f"{name} > {draw.choice(('1', '2', chr(39) + 'a' + chr(39)))}",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
        f"NOT {name} = {draw.choice(VALUES)}",
        f"{name} LIKE '%a'",
    ]
    return draw.choice(ways)


def _filters(draw: random.Random, count: int) -> list[str]:
    filters = []
    for n in range(count):
        names = [name for at, name in enumerate("stuvwxyz") if draw.random() < 0.95 - 0.09 * at]
        text = " AND ".join(_condition(draw, name) for name in names or "s")
        filters.append(text if n % 50 else f"({text}) OR z = 'b'")
    return filters


def _events(draw: random.Random, count: int) -> list[dict[str, object]]:
    events: list[dict[str, object]] = [{}, {"other": 1}]
    for _ in range(count):
        event: dict[str, object] = {}
        for name in "stuvwxyz":
            if draw.random() < 0.9:
                event[name] = draw.choice(PYTHON)
            if draw.random() < 0.03:
                event[name] = [draw.choice(PYTHON[:-1]) for _ in range(draw.randrange(4))]
        events.append(event)
    return events


@pytest.mark.parametrize("seed", range(3))
def test_signatures_give_what_the_filters_say(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    filters = _filters(draw, 4_000)
    index = Index()
    index.add_many(enumerate(filters))
    index.merge()
    assert index.stats()["keys"]["signature"] > 2_000  # type: ignore[index]
    parsed = [Filter.parse(text) for text in filters]
    events = _events(draw, 60)
    expected = [[n for n, one in enumerate(parsed) if one.matches(event)] for event in events]
    assert sum(map(len, expected)) > 500
    assert [index.match(event) for event in events] == expected
    index.save(tmp_path / "index")
    reopened = Index.open(tmp_path / "index")
    assert [reopened.match(event) for event in events] == expected
    reopened.add(-1, "s = 'a'")  # a merge reads signatures back into conjunctions
    reopened.merge()
    assert [[n for n in reopened.match(event) if n != -1] for event in events] == expected


def test_blocks_of_events_and_single_ones_agree() -> None:
    workload = gryphon(3_000, events=500)
    index = Index()
    index.add_many(zip(*workload.subscriptions.to_pydict().values(), strict=True))
    index.merge()
    assert index.stats()["keys"]["signature"] > 0  # type: ignore[index]
    found = index.match_batch(workload.events)
    pairs = list(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))
    rows = pa.Table.to_pylist(workload.events)
    assert sorted(pairs) == sorted((row, id) for row, event in enumerate(rows) for id in index.match(event))
    assert len(pairs) > 10_000


def test_the_plan_tells_of_signatures() -> None:
    index = Index()
    index.add_many(zip(*gryphon(3_000, events=1).subscriptions.to_pydict().values(), strict=True))
    index.merge()
    segment = index._subscriptions.segments.snapshot.segments[0]
    slot = int(segment.arrays["signature_slot"][0])
    told = index.plan(index._subscriptions.ids.name(slot))["conjunctions"]
    assert told[0]["key"] == "signature" and told[0]["checks"] == 0  # type: ignore[index]
    assert 0 < told[0]["share"] <= 1  # type: ignore[index]
