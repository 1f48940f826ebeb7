"""Sets of several rank intervals, which items of clauses refer to by number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whimbrel.compiled.jit import kernel


class IntervalSets:
    """A growing list of sets. A set gets a number; equal sets that were added one by one get the same number."""

    def __init__(self) -> None:
        self._lows: list[np.ndarray] = []
        self._highs: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self.count = 0
        self._known: dict[tuple[tuple[int, int], ...], int] = {}

    def add(self, spans: tuple[tuple[int, int], ...]) -> int:
        """Add one set, unless it is there; return its number."""
        known = self._known.get(spans)
        if known is None:
            low, high = np.array(spans, np.int32).T.copy()
            known = self._known[spans] = self.add_ragged(np.array([0, len(spans)]), low, high)
        return known

    def add_ragged(self, start: np.ndarray, low: np.ndarray, high: np.ndarray) -> int:
        """Add sets of any length: set i has the intervals start[i]:start[i + 1]. Returns the number of the first."""
        first = self.count
        self.count += len(start) - 1
        self._lows.append(low)
        self._highs.append(high)
        self._lengths.append(np.diff(start))
        return first

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`start`, `low` and `high` of all sets."""
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        return np.cumsum(lengths), joined(self._lows, np.int32), joined(self._highs, np.int32)


def distinct_sets(
    start: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Store equal sets once. Returns the new number of each set, and start, low and high of the sets that are left."""
    count = len(start) - 1
    number, first = np.empty(count, np.int32), np.empty(count, np.int32)
    table = np.zeros(1 << max(4, (2 * count).bit_length()), np.int32)
    first = first[: number_sets(start, low, high, table, number, first)]
    return number, *_chosen(first, start, low, high)


def taken_sets(
    numbers: np.ndarray, start: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The sets that are among `numbers`. Returns the new numbers in place of those, and start, low and high."""
    is_used = np.zeros(len(start) - 1, bool)
    is_used[numbers] = True
    if is_used.all():
        return numbers, start, low, high
    return (np.cumsum(is_used) - 1)[numbers], *_chosen(np.flatnonzero(is_used), start, low, high)


def _chosen(
    sets: np.ndarray, start: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lengths = np.diff(start)[sets]
    new_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    at = np.repeat(start[:-1][sets] - new_start[:-1], lengths) + np.arange(new_start[-1])
    return new_start, low[at], high[at]


@kernel
def set_masks(start: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:  # pragma: no cover
    """32 bits for each set, by which a kernel sees that most ranks are outside without reading the set."""
    masks = np.full(start.size - 1, -1, np.int32)
    for s in range(start.size - 1):
        mask = np.uint32(0)
        for i in range(start[s], start[s + 1]):
            if high[i] - low[i] >= 64:
                mask = np.uint32(0xFFFFFFFF)
                break
            for rank in range(low[i], high[i] + 1):
                mask |= np.uint32(1) << np.uint32((rank >> 1) & 31)
        masks[s] = np.int32(mask)
    return masks


@kernel
def number_sets(
    start: np.ndarray, low: np.ndarray, high: np.ndarray, table: np.ndarray, number: np.ndarray, first: np.ndarray
) -> int:  # pragma: no cover
    """Number the sets, equal ones alike; write the first of each number to `first`; return how many numbers there are.

    `table` is a hash table of zeros with at least twice as many places as there are sets.
    """
    known = 0
    for s in range(start.size - 1):
        size = start[s + 1] - start[s]
        h = np.uint64(size)
        for i in range(start[s], start[s + 1]):
            h = (h ^ np.uint64(low[i])) * np.uint64(0x9E3779B97F4A7C15)
            h = (h ^ (h >> np.uint64(29)) ^ np.uint64(high[i])) * np.uint64(0xBF58476D1CE4E5B9)
            h ^= h >> np.uint64(32)
        at = np.int64(h & np.uint64(table.size - 1))
        while table[at] != 0:
            like = start[first[table[at] - 1]]
            same = start[first[table[at] - 1] + 1] - like == size
            for i in range(size):
                if not same:
                    break
                same = low[like + i] == low[start[s] + i] and high[like + i] == high[start[s] + i]
            if same:
                break
            at = (at + 1) & (table.size - 1)
        if table[at] == 0:
            first[known] = s
            known += 1
            table[at] = known
        number[s] = table[at] - 1
    return known


def joined(arrays: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    """One array of all; a single one is not copied."""
    if len(arrays) == 1:
        return arrays[0].astype(dtype, copy=False)
    return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.empty(0, dtype)
