"""Named tuples of the arrays from which kernels read single events and rank their values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, FloatMatrix, Floats, Int32Matrix, Int32s, Int64s
from whimbrel.compiled.views import tuple_of_arrays

NO_NUMBERS, INTEGERS, FLOATS, EXACT = 0, 1, 2, 3
"""How the numbers of an attribute are kept: not at all, as int64, as float64, as Python numbers."""
EXACT_FLOAT = 1 << 53
"""Binary64 holds every integer up to this one."""


class Numbers(NamedTuple):
    """The numbers of all attributes, for the ranks of single events."""

    kinds: Bytes  # [A]: INTEGERS and so on
    starts: Int64s
    integers: Int64s
    floats: Floats
    bases: Int32Matrix
    first: Int64s  # [A + 1]: the buckets of an attribute, none if its numbers are few
    buckets: Int32s  # how many numbers lie below each bucket
    scale: FloatMatrix  # [A, 2]: where buckets begin, and how many there are per unit
    table_first: Int64s  # [A + 1]: the table of an attribute, none unless its numbers are dense integers
    table: Int32s  # ranks, less the base, of the integers from one below the lowest number on


class Reading(NamedTuple):
    """The strings and timestamps of all attributes, and the types of Python objects, for kernels that read events."""

    kinds: Int64s  # `python_objects.KINDS`
    bases: Int32Matrix  # [A, 5]: where the ranks of each type begin
    first: Int64s  # [A + 1]: the strings of an attribute
    offsets: Int64s  # where the bytes of a string begin
    data: Bytes
    table_first: Int64s  # [A + 1]: the hash table of an attribute
    table: Int32s
    ordered: Bytes  # [A]: whether the order of strings matters
    longest: Int32s  # [A]: the bytes of the longest string
    short_first: Int64s  # [A + 1]: the table of short strings of an attribute, none if its strings are many
    short: Int64s  # see `string_kernels.fill_short_table`
    time_first: Int64s  # [A + 1]: the timestamps of an attribute
    times: Int64s


class Entries(NamedTuple):
    """A single event, before its numbers have ranks."""

    attrs: Int32s  # [n]
    cells: Floats  # [n]
    bits: Int64s  # [n]: the same memory as `cells`, read as integers
    elements: Int32s  # [n]: the element of an array of objects in which the value lies (see ARRAY_BITS)
    items: Int64s  # [m]: results (see RESULTS), then the queue of items of a dict that is being read
    text_entries: Int64s  # [t]: the entry of each text from which an attribute is derived
    text_ends: Int64s  # [t + 1]: where the bytes of a text end; those of the first begin at 0
    text_data: Bytes


NUMBERS = tuple_of_arrays(Numbers, False)
READING = tuple_of_arrays(Reading, False)
ENTRIES = tuple_of_arrays(Entries, True)
ARRAY_BITS = 10
"""The lowest bits of `elements` number the array; the bits above number the element, from 1. The whole is 0 outside
arrays, -1 in an array inside an element of another, and ascends among the entries of an attribute."""
FOR_PYTHON, FULL = -1, -2
"""Returned in place of a number of entries: Python must read the event; some buffer is full."""
IN_ARRAYS, HAS_TEXTS = 1 << 40, 1 << 41
"""Added to a number of entries: values are in arrays of objects; there are texts from which attributes are derived."""
ARRAYS, TEXTS = 0, 1
"""Results in `Entries.items`: the bits of names (`name_table`) that are arrays of objects, and the number of texts."""
RESULTS = 4
"""Words of `Entries.items` that are for results."""


def make_entries(size: int, items: int, texts: int = 64) -> Entries:
    """Memory for `size` entries, for the items of one object, and for `texts` texts of 32 bytes."""
    cells = np.empty(size, np.float64)
    return Entries(
        np.empty(size, np.int32),
        cells,
        cells.view(np.int64),
        np.zeros(size, np.int32),
        np.zeros(items, np.int64),
        np.empty(texts, np.int64),
        np.zeros(texts + 1, np.int64),
        np.empty(32 * texts, np.uint8),
    )


ENTRIES_AT = 0
NUMBERS_AT = ENTRIES_AT + ENTRIES.words
READING_AT = NUMBERS_AT + NUMBERS.words
"""Where each tuple begins among the words of a kernel that reads events; END_AT is the end of the last one."""
END_AT = READING_AT + READING.words
