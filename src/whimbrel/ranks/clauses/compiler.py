"""The compiler: filters, in whatever form they come, to clauses in rank space.

Three sources feed it: columns of literals that share a shape (bulk loads), single filters, and segments that are
merged. Each first gives its constants, then, when the dictionary of ranks is made of all of them, its items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from whimbrel.compiled.jit import kernel
from whimbrel.model.filter import Filter
from whimbrel.ranks.clauses.clauses import NO_RANGE, NO_SET, RANGE, SET, SHARED, VERIFY, Clauses, Item, split
from whimbrel.ranks.constants import Constants
from whimbrel.ranks.dictionary import Dictionary, source_name
from whimbrel.ranks.dictionary_builder import build_dictionary
from whimbrel.ranks.patterns.pattern_trie import build_tries


class Sets:
    """Sets of several rank intervals, equal ones stored once."""

    def __init__(self) -> None:
        self.lows: list[np.ndarray] = []
        self.highs: list[np.ndarray] = []
        self.lengths: list[np.ndarray] = []
        self.count = 0
        self._known: dict[tuple[tuple[int, int], ...], int] = {}

    def add(self, spans: tuple[tuple[int, int], ...]) -> int:
        """The number of one set."""
        known = self._known.get(spans)
        if known is None:
            known = self._known[spans] = self.add_rows(np.array([spans], dtype=np.int32))
        return known

    def add_rows(self, spans: np.ndarray) -> int:
        """Add sets of the same length, spans[i] = its (low, high) pairs; the number of the first."""
        first = self.count
        self.count += len(spans)
        self.lows.append(spans[:, :, 0].ravel())
        self.highs.append(spans[:, :, 1].ravel())
        self.lengths.append(np.full(len(spans), spans.shape[1], dtype=np.int64))
        return first

    def add_ragged(self, start: np.ndarray, low: np.ndarray, high: np.ndarray) -> int:
        """Add sets of any length; the number of the first."""
        first = self.count
        self.count += len(start) - 1
        self.lows.append(low)
        self.highs.append(high)
        self.lengths.append(np.diff(start))
        return first

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """start, low and high of all sets."""
        lengths = np.concatenate([np.zeros(1, np.int64), *self.lengths])
        return np.cumsum(lengths), _concat(self.lows, np.int32), _concat(self.highs, np.int32)


class ClauseItems:
    """The items of some conjunctions, in rank space."""

    def __init__(
        self,
        row: np.ndarray,
        flags: np.ndarray,
        counts: np.ndarray,
        attr: np.ndarray,
        kind: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
    ) -> None:
        self.row, self.flags, self.counts = row, flags, counts
        self.attr, self.kind, self.low, self.high = attr, kind, low, high


class Source(Protocol):
    """Something that has conjunctions to compile."""

    def constants(self, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Number the attributes and give the constants."""

    def parts(self, dictionary: Dictionary, sets: Sets) -> list[ClauseItems]:
        """The items, once ranks exist."""


def compile_clauses(sources: Sequence[Source], always: Sequence[int] | np.ndarray = ()) -> Clauses:
    """The clauses of all sources with one dictionary of ranks."""
    attributes: dict[str, int] = {}
    gathered: list[Constants] = []
    for source in sources:
        source.constants(attributes, gathered)
    named = {attr: name for key, attr in attributes.items() if (name := source_name(key)) is not None}
    derived = {attr: attribute_number(name, attributes, gathered) for attr, name in named.items()}
    names = [named.get(attr, key) for key, attr in attributes.items()]
    dictionary = build_dictionary(names, gathered)
    if derived:
        joined = [(attr, source, gathered[attr].joined) for attr, source in derived.items()]
        tries = build_tries(dictionary.arrays, list(derived))
        dictionary = Dictionary({**dictionary.arrays, **tries}, replace(dictionary.meta, derived=joined))
    sets = Sets()
    parts = [part for source in sources for part in source.parts(dictionary, sets)]
    counts = _concat([part.counts for part in parts], np.int64)
    kind = _concat([part.kind for part in parts], np.uint8)
    low = _concat([part.low for part in parts], np.int32)
    number, set_start, set_low, set_high = distinct_sets(*sets.arrays())
    high = _concat([part.high for part in parts], np.int32)
    names_set = np.flatnonzero(kind & 1)
    own = number[low[names_set]]
    low[names_set] = own
    high[names_set] = set_masks(set_start, set_low, set_high)[own]
    return Clauses(
        attributes=names,
        row=_concat([part.row for part in parts], np.int32),
        flags=_concat([part.flags for part in parts], np.uint8),
        start=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        attr=_concat([part.attr for part in parts], np.int32),
        kind=kind,
        low=low,
        high=high,
        set_start=set_start,
        set_low=set_low,
        set_high=set_high,
        always=np.asarray(always, dtype=np.int32),
        dictionary=dictionary,
    )


def distinct_sets(
    start: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Stores equal sets once: the new number of each set, and start, low and high of those that are left."""
    count = len(start) - 1
    number, first = np.empty(count, np.int32), np.empty(count, np.int32)
    table = np.zeros(1 << max(4, (2 * count).bit_length()), np.int32)
    first = first[: number_sets(start, low, high, table, number, first)]
    lengths = np.diff(start)[first]
    new_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    at = np.repeat(start[:-1][first] - new_start[:-1], lengths) + np.arange(new_start[-1])
    return number, new_start, low[at], high[at]


@kernel
def set_masks(start, low, high):  # type: ignore[no-untyped-def]
    """Per set 32 bits, by which most ranks are seen to be outside without reading the set: see `kernels.holds`."""
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
def number_sets(start, low, high, table, number, first):  # type: ignore[no-untyped-def]
    """Numbers sets, equal ones alike; `first` is the first of each of the different ones. How many these are.

    The table, all zeros, has at least twice as many places as there are sets.
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


def attribute_number(name: str, attributes: dict[str, int], gathered: list[Constants]) -> int:
    """The number of an attribute, new ones next."""
    number = attributes.setdefault(name, len(attributes))
    if number == len(gathered):
        gathered.append(Constants())
    return number


class FilterSource:
    """Single filters, one subscription each."""

    def __init__(self, rows: Sequence[int], filters: Sequence[Filter]) -> None:
        self._conjunctions: list[tuple[int, int, list[Item]]] = []
        self.always: list[int] = []
        for row, filter in zip(rows, filters, strict=True):
            self._add(row, filter)

    def _add(self, row: int, filter: Filter) -> None:
        if filter.is_always_true():
            self.always.append(row)
            return
        alternatives = [(items, verify) for c in filter.conjunctions for ways, verify in [split(c)] for items in ways]
        shared = SHARED if len(alternatives) > 1 else 0
        for items, verify in alternatives:
            self._conjunctions.append((row, shared | (VERIFY if verify else 0), items))

    def constants(self, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Number the attributes and give the constants."""
        for _, _, items in self._conjunctions:
            for item in items:
                constants = gathered[attribute_number(item.attribute, attributes, gathered)]
                constants.add(item.values)
                constants.joined = constants.joined or item.is_joined

    def parts(self, dictionary: Dictionary, sets: Sets) -> list[ClauseItems]:
        """The items, once ranks exist."""
        if not self._conjunctions:
            return []
        flat = [_item_ranks(dictionary, item, sets) for _, _, items in self._conjunctions for item in items]
        columns = np.array(flat, dtype=np.int32).reshape(-1, 4)
        return [
            ClauseItems(
                np.array([row for row, _, _ in self._conjunctions], dtype=np.int32),
                np.array([flags for _, flags, _ in self._conjunctions], dtype=np.uint8),
                np.array([len(items) for _, _, items in self._conjunctions], dtype=np.int64),
                columns[:, 0].copy(),
                columns[:, 1].astype(np.uint8),
                columns[:, 2].copy(),
                columns[:, 3].copy(),
            )
        ]


def _item_ranks(dictionary: Dictionary, item: Item, sets: Sets) -> tuple[int, int, int, int]:
    attr = dictionary.attributes[item.attribute]
    spans = dictionary.spans(attr, item.values)
    if item.null:
        if spans and spans[0][0] == 1:
            spans[0] = (0, spans[0][1])
        else:
            spans.insert(0, (0, 0))
    if len(spans) == 1:
        return attr, NO_RANGE if item.negated else RANGE, *spans[0]
    return attr, NO_SET if item.negated else SET, sets.add(tuple(spans)), 0


def _concat(arrays: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    if len(arrays) == 1:
        return arrays[0].astype(dtype, copy=False)
    return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.empty(0, dtype)
