"""References: conjunctions under several hash keys, with three ranges in 16 bits beside each."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from whimbrel import Filter, Index
from whimbrel.engine.access.hash.layout import COARSE, NUMBER, coarse_shifts

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
    segment = index._subscriptions.segments.snapshot.segments[0]
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


def _targets(index: Index) -> np.ndarray:
    return np.asarray(index._subscriptions.segments.snapshot.segments[0].arrays["hash_targets"][:, 0])


def _a_filter(draw: random.Random, names: list[str]) -> str:
    """An IN or a narrow range, for keys, with up to four conditions more."""
    chosen = draw.sample(names, draw.randint(1, 5))
    texts = [draw.choice([f"{chosen[0]} IN ({draw.randrange(9)}, {draw.randrange(9)})", f"{chosen[0]} = 3"])]
    for name in chosen[1:]:
        low = draw.randrange(900)
        ranges = [f"{name} BETWEEN {low} AND {low + 90}", f"{name} <= {low}", f"{name} >= {low}"]
        texts.append(draw.choice([*ranges, f"{name} IN ({low}, {low + 2}, {low + 50})", f"{name} != {low}"]))
    return " AND ".join(texts)


def _a_value(draw: random.Random) -> object:
    share = draw.random()
    number = draw.randrange(9) if draw.random() < 0.5 else draw.randrange(1_000)
    if share < 0.8:
        return number
    return [number, draw.randrange(1_000)] if share < 0.95 else None


def _check(texts: list[str], names: list[str], draw: random.Random) -> Index:
    """An index of the filters, which gives what they say for drawn events."""
    index = Index()
    index.add_many(list(enumerate(texts)))
    index.merge()
    filters = [Filter.parse(text) for text in texts]
    events = [{name: _a_value(draw) for name in names if draw.random() < 0.7} for _ in range(60)]
    expected = [[n for n, one in enumerate(filters) if one.matches(event)] for event in events]
    assert sum(map(len, expected)) > 500
    assert [index.match(event) for event in events] == expected
    return index


def test_references_that_decide_and_those_that_do_not() -> None:
    draw = random.Random(11)
    names = [f"a{n}" for n in range(9)]
    texts = [_a_filter(draw, names) for _ in range(3_000)]
    index = _check(texts, names, draw)
    targets = _targets(index)
    assert (targets < 0).any() and (targets >= 0).any()
    decided = ~targets[targets < 0]
    for slot in decided[:20].tolist():
        plan = index.plan(slot)["conjunctions"][0]
        assert plan["key"] == "hash" and plan["keys"] == np.count_nonzero(decided == slot)


def test_a_slot_of_several_conjunctions_comes_once() -> None:
    draw = random.Random(12)
    names = [f"a{n}" for n in range(6)]
    texts = [f"({_a_filter(draw, names)}) OR ({_a_filter(draw, names)})" for _ in range(1_500)]
    _check(texts, names, draw)


@pytest.mark.soak
def test_more_attributes_than_references_have_numbers() -> None:
    draw = random.Random(13)
    names = [f"a{n}" for n in range(12)]
    rare = [f"r{n}" for n in range(NUMBER + 50)]
    texts = [f"{name} IN (1, 2) AND {draw.choice(names)} <= {draw.randrange(900)}" for name in rare]
    texts += [_a_filter(draw, [*names, draw.choice(rare)]) for _ in range(2_000)]
    index = _check(texts, [*names, *draw.sample(rare, 200)], draw)
    numbers = index._subscriptions.segments.snapshot.segments[0].arrays["hash_numbers"]
    assert np.count_nonzero(numbers == NUMBER + 1) == len(numbers) - NUMBER > 0
