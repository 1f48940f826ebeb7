"""Reads segments back as clauses, for merges: a source of the clause compiler.

`decode` of each access key returns its conjunctions, in the ranks of the segment. They are translated to the ranks of
the new dictionary.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from whimbrel.engine.access.registry import KEYS
from whimbrel.engine.access.shared.arrays import Arrays
from whimbrel.engine.access.shared.key import Packed
from whimbrel.engine.access.shared.packing import ATTR_MASK, KIND_SHIFT, ROW_MASK, SHARED_BIT, VERIFY_BIT
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP
from whimbrel.ranks.clauses.clauses import SHARED, VERIFY
from whimbrel.ranks.clauses.compiler import ClauseItems, IntervalSets, attribute_number
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.dictionary_builder import Constants

IsDead = Callable[[np.ndarray], np.ndarray | None]
"""Marks the dead ones of an array of rows; None if there are none."""


def packed_parts(arrays: Arrays) -> list[Packed]:
    """The conjunctions of a segment, key by key."""
    return [key.decode(arrays) for key in KEYS]


def _decode(arrays: Arrays, is_dead: IsDead) -> ClauseItems:
    """All conjunctions whose row is not dead, in the ranks and attributes of the segment."""
    packed, counts, attr, low, high = (np.concatenate(part) for part in zip(*packed_parts(arrays), strict=True))
    row = packed & np.int32(ROW_MASK)
    dead = is_dead(row)
    if dead is not None and dead.any():
        keep = ~dead
        items = np.repeat(keep, counts)
        row, packed, counts = row[keep], packed[keep], counts[keep]
        attr, low, high = attr[items], low[items], high[items]
    flags = ((packed & VERIFY_BIT) != 0) * np.uint8(VERIFY) | ((packed & SHARED_BIT) != 0) * np.uint8(SHARED)
    kind = (attr >> KIND_SHIFT).astype(np.uint8)
    attr &= np.int32(ATTR_MASK)
    return ClauseItems(row, flags, counts, attr, kind, low, high)


class SegmentSource:
    """The living conjunctions of a segment. It reads nothing but the arrays of the segment's dictionary."""

    def __init__(self, dictionary: Dictionary, is_dead: IsDead) -> None:
        self._dictionary = dictionary
        self._decoded = _decode(dictionary.arrays, is_dead)
        always = dictionary.arrays["always"]
        dead = is_dead(always)
        self.always = always if dead is None else always[~dead]
        self._numbers: list[int] = []

    def constants(self, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Number the attributes, and add the constants of each to the gathered ones."""
        a = self._dictionary.arrays
        strings = _string_column(a)
        joined = {attr for attr, _, is_joined in self._dictionary.meta.derived if is_joined}
        for attr in range(len(self._dictionary.names)):
            number = attribute_number(self._dictionary.key_of(attr), attributes, gathered)
            self._numbers.append(number)
            into = gathered[number]
            into.joined = into.joined or attr in joined
            numbers, texts, times = _constants_of(self._dictionary, attr, strings)
            if isinstance(numbers, list):
                into.numbers += numbers
            else:
                into.arrays.append(numbers)
            into.strings.append(texts)
            into.ordered = into.ordered or bool(a["ordered_strings"][attr])
            into.times.append(times)

    def parts(self, dictionary: Dictionary, sets: IntervalSets) -> list[ClauseItems]:
        """The conjunctions in the ranks of the new dictionary; sets of several intervals are added to `sets`."""
        a, d = self._dictionary.arrays, self._decoded
        lows, highs, start = self._rank_maps(dictionary)
        old = d.attr.astype(np.int64)
        is_set = (d.kind & 1) == 1
        low = np.where(is_set, 0, lows[start[old] + np.where(is_set, 0, d.low)])
        high = np.where(is_set, 0, highs[start[old] + np.where(is_set, 0, d.high)])
        # Equal sets are stored once, so items of several attributes may share one: translate per use.
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
        return [ClauseItems(d.row, d.flags, d.counts, attr, d.kind, low.astype(np.int32), high.astype(np.int32))]

    def _rank_maps(self, dictionary: Dictionary) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Map each old rank to its new ranks as first and as last rank of an interval; and where each attribute begins.

        The two differ for a gap between constants: it widens if new constants lie in it.
        """
        lows, highs, start = [], [], [0]
        strings = _string_column(self._dictionary.arrays)
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
        numbers, texts, times = _constants_of(self._dictionary, attr, strings)
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
    dictionary: Dictionary, attr: int, strings: pa.Array
) -> tuple[np.ndarray | list[int | float], pa.Array, np.ndarray | list[int]]:
    """The numbers, strings and timestamps of one attribute."""
    lookup = dictionary.lookup(attr)
    texts = strings.slice(lookup.string_first, lookup.string_count)
    return lookup.number_constants, texts, lookup.time_constants


def _string_column(arrays: Arrays) -> pa.Array:
    """The strings of all attributes of a segment as one Arrow array, without copying."""
    offsets, data = arrays["string_offset"], arrays["string_bytes"]
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
