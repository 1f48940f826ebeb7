"""References: conjunctions under several hash keys, with two ranges in 16 bits beside each."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from whimbrel import Index
from whimbrel.engine.planner.references import COARSE, coarse_shifts

FILTERS = 60_000


def _bounds() -> list[tuple[int, int, int, int]]:
    draw = random.Random(5)
    return [
        (draw.randrange(40), draw.randrange(40), start := draw.randrange(10_000_000), start + draw.randrange(300_000))
        for _ in range(FILTERS)
    ]


def _index(bounds: list[tuple[int, int, int, int]]) -> Index:
    index = Index()
    index.add_many(
        (n, f"kind IN ({one}, {two}) AND price BETWEEN {low} AND {high} AND size <= {low % 1_000}")
        for n, (one, two, low, high) in enumerate(bounds)
    )
    index.merge()
    return index


def test_shifts_leave_sixteen_bits() -> None:
    shift = coarse_shifts(np.array([0, 1, 2, 65_536, 65_537, 1 << 20, (1 << 31) - 1]))
    assert shift.tolist() == [0, 0, 0, 0, 1, 4, 15]
    assert COARSE >= ((1 << 31) - 2) >> 15


def test_attributes_with_more_ranks_than_a_reference_has_room_for() -> None:
    bounds = _bounds()
    index = _index(bounds)
    segment = index._parts.snapshot.segments[0]
    assert segment.arrays["hash_shift"].max() > 0, "some ranks must be shortened"
    assert len(segment.arrays["hash_refs"]) > 0
    kinds, lows, highs = (np.array([bound[i] for bound in bounds]) for i in (1, 2, 3))
    ones = np.array([bound[0] for bound in bounds])
    draw = random.Random(6)
    events = []
    for _ in range(150):  # at the bounds themselves, just beside them, and anywhere
        price = draw.choice([draw.choice(bounds)[2], draw.choice(bounds)[3] + 1, draw.randrange(10_000_000)])
        events.append({"kind": draw.randrange(40), "price": price, "size": draw.randrange(1_000)})
    expected = [
        np.flatnonzero(
            ((ones == e["kind"]) | (kinds == e["kind"]))
            & (lows <= e["price"]) & (e["price"] <= highs) & (e["size"] <= lows % 1_000)
        ).tolist()
        for e in events
    ]  # fmt: skip
    assert sum(map(len, expected)) > 1_000
    assert [index.match(event) for event in events] == expected
    found = index.match_batch(pa.Table.from_pylist(events))
    pairs = sorted((row, n) for row, ids in enumerate(expected) for n in ids)
    assert sorted(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True)) == pairs


def test_several_values_where_references_have_ranges() -> None:
    bounds = _bounds()[:5_000]
    index = _index(bounds)
    low, high = bounds[7][2:]
    event = {"kind": [bounds[7][0], 99], "price": [-1, (low + high) // 2], "size": [0, 5_000]}
    expected = [
        n
        for n, (one, two, low, high) in enumerate(bounds)
        if bounds[7][0] in (one, two) and low <= event["price"][1] <= high
    ]
    assert 7 in expected and index.match(event) == expected
