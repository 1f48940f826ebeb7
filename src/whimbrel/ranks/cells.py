"""Cells: the values of a single event as floats, so that one array holds all of them, whatever their types.

The cell of a number is the number. The cell of a value whose rank is known already, such as a text, is a NaN that
carries the rank in its bits. A NaN of an event becomes null first, so no event can pass off a NaN as a rank.
"""

from __future__ import annotations

import struct

RANK = 0x7FF8_0001_0000_0000
"""The bits of a NaN that carries a rank; the rank is added in the lower half."""
DROPPED_BITS = 0x7FF8_0002_0000_0000


def boxed(rank: int) -> float:
    """The cell that carries a rank.

    >>> rank_of(boxed(7)), boxed(7) == boxed(7)
    (7, False)
    """
    cell: float = _FLOAT.unpack(_BITS.pack(RANK | rank))[0]
    return cell


def rank_of(cell: float) -> int:
    """The rank that a cell carries."""
    bits: int = _BITS.unpack(_FLOAT.pack(cell))[0]
    return bits & 0xFFFF_FFFF


_FLOAT, _BITS = struct.Struct("=d"), struct.Struct("=Q")
NULL, FALSE, TRUE = (boxed(rank) for rank in (0, 2, 4))
DROPPED: float = _FLOAT.unpack(_BITS.pack(DROPPED_BITS))[0]
"""The cell of an entry that is to be left out."""
