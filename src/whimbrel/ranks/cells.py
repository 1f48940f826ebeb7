"""Cells: the values of single events as floats, so that one array holds those of an event, whatever their types.

A number is itself. A rank that is known already, of a text say, is a NaN that carries it. Numbers of events that are
NaN never come here as they are, so nobody can pass off a NaN of his own as a rank.
"""

from __future__ import annotations

import struct

RANK = 0x7FF8_0001_0000_0000
"""The bits of a NaN that carries a rank, which the lower half is."""
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
"""The cell of an entry that is none."""
