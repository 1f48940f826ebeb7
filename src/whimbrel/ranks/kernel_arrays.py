"""Named tuples of the arrays from which kernels read single events and rank their values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.views import tuple_of_arrays

NO_NUMBERS, INTEGERS, FLOATS, EXACT = 0, 1, 2, 3
"""How the numbers of an attribute are kept: not at all, as int64, as float64, as Python numbers."""
EXACT_FLOAT = 1 << 53
"""Up to here every integer is a binary64."""


class Numbers(NamedTuple):
    """The numbers of all attributes, for the ranks of single events."""

    kinds: np.ndarray  # uint8[A]: INTEGERS and so on
    starts: np.ndarray
    integers: np.ndarray
    floats: np.ndarray
    bases: np.ndarray
    first: np.ndarray  # int64[A + 1]: the buckets of an attribute, none if its numbers are few
    buckets: np.ndarray  # int32: how many numbers lie below each bucket
    scale: np.ndarray  # float64[A, 2]: where buckets begin, and how many there are per unit
    table_first: np.ndarray  # int64[A + 1]: the table of an attribute, none unless its numbers are dense integers
    table: np.ndarray  # int32: ranks, less the base, of the integers from one below the lowest number on


class Reading(NamedTuple):
    """What reading a dict needs: the strings of all attributes, and what Python objects are."""

    kinds: np.ndarray  # int64: `python_objects.KINDS`
    bases: np.ndarray  # int32[A, 5]: where the ranks of each type begin
    first: np.ndarray  # int64[A + 1]: the strings of an attribute
    offsets: np.ndarray  # int64: where the bytes of a string begin
    data: np.ndarray  # uint8
    table_first: np.ndarray  # int64[A + 1]: the hash table of an attribute
    table: np.ndarray  # int32
    ordered: np.ndarray  # uint8[A]: whether the order of strings matters
    longest: np.ndarray  # int32[A]: the bytes of the longest string
    short_first: np.ndarray  # int64[A + 1]: the table of short strings of an attribute, none if its strings are many
    short: np.ndarray  # int64: see `string_kernels.fill_short_table`
    time_first: np.ndarray  # int64[A + 1]: the timestamps of an attribute
    times: np.ndarray  # int64


class Entries(NamedTuple):
    """A single event, before its numbers have ranks."""

    attrs: np.ndarray  # int32[n]
    cells: np.ndarray  # float64[n]
    bits: np.ndarray  # int64[n]: the same memory as `cells`, read as integers
    elements: np.ndarray  # int32[n]: the element of an array of objects in which the value lies (see ARRAY_BITS)
    items: np.ndarray  # int64[m]: results (see RESULTS), then what is known of a dict while it is read
    text_entries: np.ndarray  # int64[t]: the entry of each text from which an attribute is derived
    text_ends: np.ndarray  # int64[t + 1]: where the bytes of a text end; those of the first begin at 0
    text_data: np.ndarray  # uint8


NUMBERS = tuple_of_arrays(
    Numbers,
    False,
    {
        "uint8": "kinds",
        "int64": "starts integers first table_first",
        "float64": "floats",
        "int32[,]": "bases",
        "float64[,]": "scale",
    },
)
READING = tuple_of_arrays(
    Reading,
    False,
    {
        "uint8": "data ordered",
        "int64": "kinds first offsets table_first short_first short time_first times",
        "int32[,]": "bases",
    },
)
ENTRIES = tuple_of_arrays(
    Entries, True, {"uint8": "text_data", "int64": "bits items text_entries text_ends", "float64": "cells"}
)
ARRAY_BITS = 10
"""Bits of the number of an array in `elements`; the number of the element, from 1, is above them. The whole is 0
outside of arrays, -1 in an array that lies in an element of another, and ascends among the entries of an attribute."""
FOR_PYTHON, FULL = -1, -2
"""What a reader returns in place of a number of entries: Python must read the event; some buffer is full."""
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
"""Where each begins among the words of a kernel that reads events; what else it needs follows from END_AT on."""
END_AT = READING_AT + READING.words
