"""The buffers that a JSON reader writes."""

from __future__ import annotations

from typing import NamedTuple

from whimbrel.compiled.array_types import Bytes, Int64Matrix, Int64s
from whimbrel.compiled.views import tuple_of_arrays

READ, LEFT, COUPLED = 0, 1, 2
"""States of an event: read; left to Python; read, with some values in arrays of objects."""
EVENT, OBJECT, NOTES, UNREAD_FLOATS, TEXT_BYTES, IN_OBJECTS = 0, 1, 2, 3, 4, 5
"""Counters: the events and objects so far, the rows of `notes` and of `unread`, the bytes of `texts`, and the values
that are in arrays of objects."""
OTHERS = 1 << 13
"""Places for the other keys of an event, at most three quarters of which are used."""


class JsonState(NamedTuple):
    """The texts that a reader reads, and the buffers that it writes."""

    begins: Int64s  # [e]: where the texts begin, -1 for an event without attributes
    ends: Int64s  # [e]
    offsets: Int64s  # [e + 1]: where the entries of each event begin
    states: Bytes  # [e]: READ or LEFT
    counters: Int64s  # [6]
    seen: Int64s  # [t]: the number of the last object that had the target
    arrays: Bytes  # [t]: whether an array of objects has been the value of the target
    stack: Int64Matrix  # [64 + 2, 5]: for each open object or list its kind, its target, its number if it is an
    # object, the number of the element of an array of objects that it is in, and that element in `Entries.elements`
    stamps: Int64s  # [OTHERS]: the event of the key at this place
    others: Int64s  # [OTHERS]: the hash of a key that leads to no target, and of the object it is in
    texts: Bytes  # strings without their escapes
    notes: Int64Matrix  # [n, 3]: entry, begin and size of the values of SOURCE targets, size -1 if it is no string;
    # begin is negative in `texts`: -1 - place
    unread: Int64Matrix  # [m, 3]: entry, begin and end of floats that Python must read


JSON_STATE = tuple_of_arrays(JsonState, True)
