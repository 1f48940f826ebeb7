"""What must hold of rows and ordered lists, asserted entry by entry: for tests."""

from __future__ import annotations

from whimbrel.spaces.layout import (
    AT,
    CUT,
    DEAD,
    DIMENSION,
    HIGH,
    LENGTH,
    OTHER,
    PEER,
    PEER_HIGH,
    PEER_LOW,
    REAL,
    SLOT_SHIFT,
    TAG,
    TAIL_USED,
    VALID,
    WHOLE,
    Ends,
    Index,
)


def check_lists(index: Index, slots: int, free: set[int]) -> None:
    """Assert that the lists hold one live entry for each cell of each row, in order, and nothing else."""
    rows = index.rows
    expected_lows, expected_highs = [], []
    for slot in range(slots):
        at, length, real = (int(rows.heads[slot, column]) for column in (AT, LENGTH, REAL))
        assert (slot in free) == (rows.heads[slot, VALID] == 0) == (length == 0)
        for cell, (d, low, high) in enumerate(rows.cells[at : at + length].tolist()):
            peer, *ends = rows.cells[at + (cell + 1) % real if cell < real else at].tolist()
            whole = bool(real == 1 or (real == 2 and cell < real))
            expected_lows.append((d, low, slot, high, whole, peer, *ends))
            if high != HIGH:
                expected_highs.append((d, high, slot, low, whole, peer, *ends))
    tail = [_entry(row, row[DIMENSION]) for row in index.tail[: rows.counts[TAIL_USED]].tolist() if not row[TAG] & DEAD]
    lows = tail + _entries(index.lows) + _entries(index.run_lows)
    highs = [(d, high, slot, low, *rest) for d, low, slot, high, *rest in tail if high != HIGH]
    highs += _entries(index.highs) + _entries(index.run_highs)
    assert sorted(lows) == sorted(expected_lows)
    assert sorted(highs) == sorted(expected_highs)


def _entries(ends: Ends) -> list[tuple[int, ...]]:
    """The live entries of a list, checked to be in order."""
    found = []
    for d in range(ends.start.shape[1] - 1):
        rows = ends.entries[ends.start[0, d] : ends.start[0, d + 1]].tolist()
        keys = [(row[CUT], row[TAG] >> SLOT_SHIFT) for row in rows]
        assert keys == sorted(set(keys))
        found += [_entry(row, d) for row in rows if not row[TAG] & DEAD]
    return found


def _entry(row: list[int], dimension: int) -> tuple[int, ...]:
    tag = row[TAG]
    content = (bool(tag & WHOLE), tag & PEER, row[PEER_LOW], row[PEER_HIGH])
    return dimension, row[CUT], tag >> SLOT_SHIFT, row[OTHER], *content
