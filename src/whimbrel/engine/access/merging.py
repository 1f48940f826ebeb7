"""Segments back to clauses, so that they can be merged: the source of the compiler that reads other segments.

Everything a conjunction says is in the arrays: the hash key gives back its equalities, a run its range, and the other
items are stored as they are. Only ranks must be translated from the old dictionary to the new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.hash.layout import REFERENCES
from whimbrel.engine.access.hash.table import table_entries
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.shared.packing import ATTR_MASK, KIND_SHIFT, SHARED_BIT, SLOT_MASK, VERIFY_BIT
from whimbrel.engine.access.shared.records import COUNT, HEAD, record_starts
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP
from whimbrel.ranks.clauses.clauses import SHARED, VERIFY
from whimbrel.ranks.clauses.compiler import ClauseItems, attribute_number
from whimbrel.ranks.clauses.interval_sets import IntervalSets
from whimbrel.ranks.constants import Constants
from whimbrel.ranks.dictionary import Dictionary, derived_key


@dataclass(slots=True)
class Decoded:
    """The conjunctions of a segment in its own ranks and attributes."""

    slot: np.ndarray
    flags: np.ndarray
    counts: np.ndarray
    attr: np.ndarray
    kind: np.ndarray
    low: np.ndarray
    high: np.ndarray


def decode(segment: Segment, is_dead: Callable[[np.ndarray], np.ndarray | None] | None = None) -> Decoded:
    """All conjunctions whose slot is not dead; `is_dead` masks an array of slots."""
    parts = packed_parts(segment)
    packed = np.concatenate([part[0] for part in parts])
    counts = np.concatenate([part[1] for part in parts])
    attr, low, high = (np.concatenate([part[i] for part in parts]) for i in (2, 3, 4))
    slot = packed & np.int32(SLOT_MASK)
    dead = None if is_dead is None else is_dead(slot)
    if dead is not None and dead.any():
        keep = ~dead
        items = np.repeat(keep, counts)
        slot, packed, counts = slot[keep], packed[keep], counts[keep]
        attr, low, high = attr[items], low[items], high[items]
    flags = ((packed & VERIFY_BIT) != 0) * np.uint8(VERIFY) | ((packed & SHARED_BIT) != 0) * np.uint8(SHARED)
    kind = (attr >> KIND_SHIFT).astype(np.uint8)
    attr &= np.int32(ATTR_MASK)
    return Decoded(slot, flags, counts, attr, kind, low, high)


def packed_parts(segment: Segment) -> list[tuple[np.ndarray, ...]]:
    """By kind of key: slots with their flags, items per slot, and of each item attribute with kind, low and high."""
    return [_hash_part(segment), _sorted_part(segment), _bits_part(segment)]


def _hash_part(segment: Segment) -> tuple[np.ndarray, ...]:
    a = segment.arrays
    order = np.argsort(a["hash_base"], kind="stable")
    records = a["hash_records"]
    starts = record_starts(records)
    sizes = records[starts[:-1]].astype(np.int64)
    entries = (records[starts[:-1] + 1] & COUNT).astype(np.int64)
    key = np.full(len(sizes), -1, np.int64)  # other groups have all their items
    _spread(*table_entries(a["hash_table"]), starts, key)
    schema = np.zeros_like(key)
    width = np.zeros_like(key)
    own = key >= 0
    schema[own] = order[np.searchsorted(a["hash_base"][order], key[own], "right") - 1]
    width[own] = np.where(a["hash_present"] != 0, 0, (a["hash_attrs"] >= 0).sum(axis=1))[schema[own]]
    counts = np.repeat(width + sizes, entries)
    slot = np.empty(len(counts), np.int32)
    attr, low, high = (np.empty(int(counts.sum()), np.int32) for _ in range(3))
    _join(
        schema, key, width, a["hash_base"], a["hash_attrs"], a["hash_radix"], records, starts, slot, attr, low, high,
    )  # fmt: skip
    return slot, counts, attr, low, high


@kernel
def _spread(keys, runs, starts, key):  # type: ignore[no-untyped-def]
    for i in range(keys.size):
        if runs[i] & REFERENCES == 0:
            first = np.searchsorted(starts, runs[i] >> 32)
            for g in range(first, first + (runs[i] & (REFERENCES - 1))):
                key[g] = keys[i]


@kernel
def _join(schema, key, width, base, attrs, radix, records, starts, slot, attr, low, high):  # type: ignore[no-untyped-def]
    at = entry = 0
    for g in range(schema.size):
        s = schema[g]
        items = starts[g] + HEAD
        slots = items + 3 * records[starts[g]]
        for t in range(slots, starts[g + 1]):
            slot[entry] = records[t]
            entry += 1
            rest = key[g] - base[s] if width[g] else 0
            for i in range(width[g]):
                rank = rest // radix[s, i]
                rest -= rank * radix[s, i]
                attr[at], low[at], high[at] = attrs[s, i], rank, rank
                at += 1
            for k in range(items, slots, 3):
                attr[at], low[at], high[at] = records[k], records[k + 1], records[k + 2]
                at += 1


def _sorted_part(segment: Segment) -> tuple[np.ndarray, ...]:
    a = segment.arrays
    sizes = np.diff(a["sorted_start"])
    group_attr = np.repeat(np.arange(len(segment.attributes), dtype=np.int32), np.diff(a["sorted_first"]))
    attr = np.repeat(group_attr, sizes)
    upper = np.repeat(a["sorted_upper"] != 0, sizes)
    fixed = np.repeat(a["sorted_fixed"], sizes)
    low, high = np.where(upper, fixed, a["sorted_bound"]), np.where(upper, a["sorted_bound"], fixed)
    second = np.repeat(a["sorted_second"], sizes)
    both = np.stack([attr, second], axis=1).ravel()
    kept = both >= 0
    lows = np.stack([low, a["sorted_low"]], axis=1).ravel()[kept]
    highs = np.stack([high, a["sorted_high"]], axis=1).ravel()[kept]
    counts = 1 + (second >= 0).astype(np.int64)
    return a["sorted_slot"], counts, both[kept].astype(np.int32), lows.astype(np.int32), highs.astype(np.int32)


def _bits_part(segment: Segment) -> tuple[np.ndarray, ...]:
    a = segment.arrays
    packed = a["bits_items"][:, 0]
    attr = a["bits_attrs"][packed & ATTR_MASK] | (packed & ~np.int32(ATTR_MASK)) if len(packed) else packed
    counts = np.diff(a["bits_place"][:, 0]).astype(np.int64)
    return a["bits_slot"], counts, attr.astype(np.int32), a["bits_items"][:, 1], a["bits_items"][:, 2]


class SegmentSource:
    """The conjunctions of a segment that are still alive."""

    def __init__(self, segment: Segment, is_dead: Callable[[np.ndarray], np.ndarray | None] | None = None) -> None:
        self._segment = segment
        self._decoded = decode(segment, is_dead)
        always = segment.arrays["always"]
        dead = None if is_dead is None else is_dead(always)
        self.always = always if dead is None else always[~dead]
        self._numbers: list[int] = []

    def constants(self, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Number the attributes and give the constants."""
        a = self._segment.arrays
        strings = string_column(a)
        derived = self._segment.derived
        for attr, name in enumerate(self._segment.attributes):
            key = derived_key(name) if attr in derived else name
            number = attribute_number(key, attributes, gathered)
            self._numbers.append(number)
            into = gathered[number]
            into.joined = into.joined or (attr in derived and derived[attr][1])
            numbers, texts, times = _constants_of(self._segment, attr, strings)
            if isinstance(numbers, list):
                into.numbers += numbers
            else:
                into.arrays.append(numbers)
            into.strings.append(texts)
            into.ordered = into.ordered or bool(a["ordered_strings"][attr])
            into.times.append(times)

    def parts(self, dictionary: Dictionary, sets: IntervalSets) -> list[ClauseItems]:
        """The items in the new ranks."""
        a, d = self._segment.arrays, self._decoded
        lows, highs, start = self._rank_maps(dictionary)
        old = d.attr.astype(np.int64)
        is_set = (d.kind & 1) == 1
        low = np.where(is_set, 0, lows[start[old] + np.where(is_set, 0, d.low)])
        high = np.where(is_set, 0, highs[start[old] + np.where(is_set, 0, d.high)])
        # A set is named by the items of one attribute only, unless equal ones were stored once: translate per use.
        used, inverse = np.unique(old[is_set] << 32 | d.low[is_set], return_inverse=True)
        set_attr, number = used >> 32, used & 0xFFFFFFFF
        lengths = np.diff(a["set_start"])[number].astype(np.int64)
        begin = np.repeat(a["set_start"][:-1][number].astype(np.int64), lengths)
        at = begin + np.arange(len(begin)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        shift = np.repeat(start[set_attr], lengths)
        first = sets.add_ragged(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
            lows[shift + a["set_low"][at]],
            highs[shift + a["set_high"][at]],
        )
        low[is_set] = first + inverse
        attr = np.array(self._numbers, np.int32)[old] if len(old) else old.astype(np.int32)
        return [ClauseItems(d.slot, d.flags, d.counts, attr, d.kind, low.astype(np.int32), high.astype(np.int32))]

    def _rank_maps(self, dictionary: Dictionary) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Old rank to new, as the first rank of an interval and as its last: gaps widen as constants come between."""
        lows, highs, start = [], [], [0]
        strings = string_column(self._segment.arrays)
        for attr, number in enumerate(self._numbers):
            low, high = self._rank_map(attr, number, dictionary, strings)
            lows.append(low)
            highs.append(high)
            start.append(start[-1] + len(low))
        empty = [np.zeros(1, np.int32)]
        return np.concatenate(lows or empty), np.concatenate(highs or empty), np.array(start, np.int64)

    def _rank_map(
        self, attr: int, number: int, dictionary: Dictionary, strings: pa.Array
    ) -> tuple[np.ndarray, np.ndarray]:
        numbers, texts, times = _constants_of(self._segment, attr, strings)
        blocks = [
            np.array([2, 4], np.int32),
            dictionary.ranks_of(number, NUMBER, numbers),
            dictionary.ranks_of(number, STRING, texts),
            dictionary.ranks_of(number, TIMESTAMP, times),
        ]
        low, high = [np.zeros(1, np.int32)], [np.zeros(1, np.int32)]  # null stays null
        for type, constants in enumerate(blocks):
            first, last = dictionary.base(number, type), dictionary.base(number, type + 1) - 1
            lows = np.empty(2 * len(constants) + 1, np.int32)
            highs = np.empty_like(lows)
            lows[1::2] = highs[1::2] = constants
            lows[0], lows[2::2] = first, constants + 1
            highs[-1], highs[:-1:2] = last, constants - 1
            low.append(lows)
            high.append(highs)
        return np.concatenate(low), np.concatenate(high)


def _constants_of(
    segment: Segment, attr: int, strings: pa.Array
) -> tuple[np.ndarray | list[int | float], pa.Array, np.ndarray | list[int]]:
    """The numbers, strings and timestamps of one attribute."""
    lookup = segment.dictionary.lookup(attr)
    texts = strings.slice(lookup.string_first, lookup.string_count)
    return lookup.number_constants, texts, lookup.time_constants


def string_column(arrays: object) -> pa.Array:
    """The strings of all attributes of a segment as one Arrow array, without copying."""
    offsets, data = arrays["string_offset"], arrays["string_bytes"]  # type: ignore[index]
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
