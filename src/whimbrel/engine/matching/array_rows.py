"""Finds the rows that must hold for one element of an array of objects: they constrain two attributes below it.

The ranks of an event decide every other row, because a single attribute may take its value from any element.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from whimbrel.compiled.array_types import Bools, Int32s, Int64s
from whimbrel.compiled.helpers import lower_bound
from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.decoding import packed_parts
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.shared.packing import ATTR_MASK, ROW_MASK

_LINKED = "\udc00"
"""Stands for the name of an array to keep the rows that compare attributes: no name has a lone surrogate."""


def rows_within(segment: Segment, arrays: Collection[str]) -> np.ndarray:
    """The rows of a segment, sorted, with several attributes below one of the arrays.

    The first call for an array reads all conjunctions; its rows are kept with the segment.
    """
    for name in arrays:
        if name not in segment.rows_within:
            segment.rows_within[name] = _rows_below(segment, name)
    found = [segment.rows_within[name] for name in arrays]
    return found[0] if len(found) == 1 else np.unique(np.concatenate([np.empty(0, np.int32), *found]))


def linked_rows(segment: Segment) -> np.ndarray:
    """The rows of a segment, sorted, that compare two attributes. The first call finds them; the segment keeps them."""
    if _LINKED not in segment.rows_within:
        compares = np.zeros(len(segment.attributes), bool)
        compares[[attr for attr, _, _ in segment.meta.links]] = True
        found = [
            packed[np.add.reduceat(compares[attr & ATTR_MASK], np.cumsum(counts) - counts) > 0] & np.int32(ROW_MASK)
            for packed, counts, attr, _, _ in packed_parts(segment.arrays)
            if len(packed)
        ]
        segment.rows_within[_LINKED] = np.unique(np.concatenate([np.empty(0, np.int32), *found]))
    return segment.rows_within[_LINKED]


@kernel
def is_in(rows: Int32s, sorted_rows: Int32s) -> np.ndarray:
    """Mark the rows that are among `sorted_rows`."""
    mask = np.zeros(rows.size, np.bool_)
    for i in range(rows.size):
        place = lower_bound(sorted_rows, 0, sorted_rows.size, rows[i])
        mask[i] = place < sorted_rows.size and sorted_rows[place] == rows[i]
    return mask


def _rows_below(segment: Segment, name: str) -> np.ndarray:
    below = np.array([other.startswith(f"{name}.") for other in segment.attributes], bool)
    source = np.arange(len(below), dtype=np.int32)
    for derived, (its_source, _) in segment.derived.items():
        source[derived] = its_source
    if np.count_nonzero(below & (source == np.arange(len(below)))) < 2:
        return np.empty(0, np.int32)
    found = [
        _with_several(packed, counts, attr, below, source)
        for packed, counts, attr, _, _ in packed_parts(segment.arrays)
    ]
    return np.unique(np.concatenate([np.empty(0, np.int32), *found]))


@kernel
def _with_several(packed: Int32s, counts: Int64s, attr: Int32s, below: Bools, source: Int32s) -> np.ndarray:
    """The rows of conjunctions with items on two attributes of the mask `below`; a derived one counts as its source.

    The first three arguments are the fields of `Packed`; source[a] is the attribute from which a is derived, or a.
    """
    out = np.empty(packed.size, np.int32)
    n = k = 0
    for c in range(packed.size):
        seen = -1
        several = False
        for i in range(k, k + counts[c]):
            a = source[attr[i] & ATTR_MASK]
            if below[a]:
                several |= seen >= 0 and seen != a
                seen = a
        k += counts[c]
        out[n] = packed[c] & ROW_MASK
        n += several
    return out[:n]
