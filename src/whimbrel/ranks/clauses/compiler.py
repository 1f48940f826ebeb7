"""Compiles filters to clauses.

There are three kinds of sources: terms with columns of literals (bulk loads), single filters, and segments that are
merged. Every source first gives its constants; then the dictionary is built from all of them, and every source gives
its items in ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from msgspec.structs import replace

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.model.filter import Filter
from whimbrel.ranks.clauses.clauses import (
    ALL_ALTERNATIVES,
    ALTERNATIVES,
    NO_RANGE,
    NO_SET,
    RANGE,
    SET,
    SHARED,
    VERIFY,
    Clauses,
    ValueItem,
    split,
)
from whimbrel.ranks.dictionary import Dictionary, source_names
from whimbrel.ranks.dictionary_builder import Constants, build_dictionary
from whimbrel.ranks.patterns.pattern_trie import build_tries


class ClauseItems(NamedTuple):
    """Conjunctions of one source in rank space: m conjunctions with k items. See `Clauses` for the arrays."""

    row: Int32s  # [m]: the subscription
    flags: Bytes  # [m]
    counts: Int64s  # [m]: items of each conjunction
    attr: Int32s  # [k]
    kind: Bytes  # [k]
    low: Int32s  # [k]
    high: Int32s  # [k]


class Source(Protocol):
    """Something that has conjunctions to compile, such as filters or a segment."""

    @property
    def always(self) -> np.ndarray:
        """The rows that every event matches, once `parts` was called."""

    def constants(self, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Number the attributes, and add the constants of each to the gathered ones."""

    def parts(self, dictionary: Dictionary, sets: IntervalSets) -> list[ClauseItems]:
        """The conjunctions in rank space; sets of several intervals are added to `sets`."""


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


def compile_clauses(sources: Sequence[Source]) -> Clauses:
    """The clauses of all sources, with one dictionary."""
    attributes: dict[str, int] = {}
    gathered: list[Constants] = []
    for source in sources:
        source.constants(attributes, gathered)
    named = {attr: names for key, attr in attributes.items() if (names := source_names(key))}
    sources_of = {attr: [attribute_number(name, attributes, gathered) for name in its] for attr, its in named.items()}
    names = [named[attr][0] if attr in named else key for key, attr in attributes.items()]
    dictionary = build_dictionary(names, gathered)
    if named:
        derived = [(attr, its[0], gathered[attr].joined) for attr, its in sources_of.items() if len(its) == 1]
        links = [(attr, its[0], its[1]) for attr, its in sources_of.items() if len(its) == 2]
        tries = build_tries(dictionary.arrays, [attr for attr, _, _ in derived]) if derived else {}
        meta = replace(dictionary.meta, derived=derived, links=links)
        dictionary = Dictionary({**dictionary.arrays, **tries}, meta)
    sets = IntervalSets()
    parts = [part for source in sources for part in source.parts(dictionary, sets)]
    counts = joined([part.counts for part in parts], np.int64)
    kind = joined([part.kind for part in parts], np.uint8)
    low = joined([part.low for part in parts], np.int32)
    number, set_start, set_low, set_high = distinct_sets(*sets.arrays())
    high = joined([part.high for part in parts], np.int32)
    names_set = np.flatnonzero(kind & 1)
    own = number[low[names_set]]
    low[names_set] = own
    high[names_set] = set_masks(set_start, set_low, set_high)[own]
    return Clauses(
        attributes=names,
        row=joined([part.row for part in parts], np.int32),
        flags=joined([part.flags for part in parts], np.uint8),
        start=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        attr=joined([part.attr for part in parts], np.int32),
        kind=kind,
        low=low,
        high=high,
        set_start=set_start,
        set_low=set_low,
        set_high=set_high,
        always=joined([source.always for source in sources], np.int32),
        dictionary=dictionary,
    )


def attribute_number(name: str, attributes: dict[str, int], gathered: list[Constants]) -> int:
    """The number of an attribute; a new attribute gets the next number."""
    number = attributes.setdefault(name, len(attributes))
    if number == len(gathered):
        gathered.append(Constants())
    return number


class FilterSource:
    """Single filters, one for each row; rows of filters that are always true are in `always`."""

    def __init__(self, rows: Sequence[int], filters: Sequence[Filter]) -> None:
        self._conjunctions: list[tuple[int, int, list[ValueItem]]] = []
        is_always = [filter.is_always_true() for filter in filters]
        self.always = np.array([row for row, true in zip(rows, is_always, strict=True) if true], np.int32)
        for row, filter, true in zip(rows, filters, is_always, strict=True):
            if not true:
                self._add(row, filter)

    def _add(self, row: int, filter: Filter) -> None:
        most = min(ALTERNATIVES, max(1, ALL_ALTERNATIVES // max(1, len(filter.conjunctions))))
        splits = (split(conjunction, most) for conjunction in filter.conjunctions)
        alternatives = [(items, verify) for found, verify in splits for items in found]
        shared = SHARED if len(alternatives) > 1 else 0
        for items, verify in alternatives:
            self._conjunctions.append((row, shared | (VERIFY if verify else 0), items))

    def constants(self, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Number the attributes, and add the constants of each to the gathered ones."""
        for _, _, items in self._conjunctions:
            for item in items:
                constants = gathered[attribute_number(item.attribute, attributes, gathered)]
                constants.add(item.values)
                constants.joined = constants.joined or item.is_joined

    def parts(self, dictionary: Dictionary, sets: IntervalSets) -> list[ClauseItems]:
        """The conjunctions in rank space; sets of several intervals are added to `sets`."""
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


def _item_ranks(dictionary: Dictionary, item: ValueItem, sets: IntervalSets) -> tuple[int, int, int, int]:
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


def distinct_sets(
    start: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Store equal sets once; return the new number of each set, and start, low and high of the distinct sets."""
    count = len(start) - 1
    number, first = np.empty(count, np.int32), np.empty(count, np.int32)
    table = np.zeros(1 << max(4, (2 * count).bit_length()), np.int32)
    first = first[: number_sets(start, low, high, table, number, first)]
    return number, *_chosen(first, start, low, high)


def taken_sets(
    numbers: np.ndarray, start: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Keep only the sets in `numbers`; return their new numbers, in place of the old ones, and start, low and high."""
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
def set_masks(start: Int64s, low: Int32s, high: Int32s) -> np.ndarray:
    """A mask of 32 bits for each set, by which a kernel rules out most ranks without reading the set."""
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
def number_sets(start: Int64s, low: Int32s, high: Int32s, table: Int32s, number: Int32s, first: Int32s) -> int:
    """Number the sets, equal ones alike; write the first set of each number to `first`; return how many numbers.

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
    """Concatenate arrays; a single one is not copied."""
    if len(arrays) == 1:
        return arrays[0].astype(dtype, copy=False)
    return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.empty(0, dtype)
