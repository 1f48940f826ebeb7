"""The kernels for strings: hash tables, ranks and order.

Strings are UTF-8 bytes with offsets, as in Arrow and in a segment. The hash table of an attribute's strings uses open
addressing with linear probing. The hash is FNV-1a, its 64 bits folded in half: one multiplication per byte, which is
quick because constants are short. For single events, attributes with few strings have a second table, which holds the
strings of up to seven bytes themselves: one comparison finds a string.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s, Uint64s
from whimbrel.compiled.helpers import Integer, are_equal, item, load_word, shared
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.ranks.kernel_arrays import Reading

_FNV_START = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)
_HALF = np.uint64(32)
_FACTOR = np.uint64(0xD6E8_FEB8_6659_FD93)
_LAST_BYTE = np.uint64(56)
_STRINGS = 2
"""The column of `Reading.bases` for strings."""
SHORT = 7
"""Bytes, at most, of a string that fits a word together with its length."""
SHORT_TABLE_STRINGS = 1 << 12
"""Attributes with more strings have no table of short ones: it would not stay in the cache."""
_AHEAD = 64
"""Strings that are hashed before the first of them is looked up, so that their memory accesses overlap."""


@helper
def _hash(data: Bytes, start: int, end: int) -> np.int64:
    """The hash of the bytes from `start` to `end`, 31 bits."""
    h = _FNV_START
    for at in range(start, end):
        h = (h ^ np.uint64(data[at])) * _FNV_PRIME
    return np.int64((h ^ (h >> _HALF)) & np.uint64(0x7FFFFFFF))


@kernel
def fill_hash_table(offsets: Int64s, data: Bytes, table: Int32s) -> None:
    """Fill the hash table of strings. An entry is the index + 1 of a string, or 0."""
    mask = table.shape[0] - 1
    for index in range(offsets.size - 1):
        slot = _hash(data, offsets[index], offsets[index + 1]) & mask
        while table[slot] != 0:
            slot = (slot + 1) & mask
        table[slot] = index + 1


@kernel
def rank_strings(
    offsets: Int64s, data: Bytes, table: Int32s, first: int, count: int, known_offsets: Int64s,
    known: Bytes, base: int, ordered: int, out: Int32s,
) -> None:  # fmt: skip
    """Write the ranks of strings: by a hash lookup, and for unknown strings of an ordered attribute by binary search.

    The attribute has `count` known strings, at least one, from known string `first` on. `ordered` says whether some
    filter compares them by order; if not, an unknown string gets the rank of the gap above all.
    """
    mask = table.shape[0] - 1
    slots = np.empty(_AHEAD, np.int64)
    entries = np.empty(_AHEAD, np.int64)
    starts = np.empty(_AHEAD, np.int64)
    rows = np.empty(_AHEAD, np.int64)
    empty = np.int64(-1)  # the rank of the empty string, once it is known; null cells are empty too
    for block in range(0, offsets.shape[0] - 1, _AHEAD):
        size = 0
        for row in range(block, min(block + _AHEAD, offsets.shape[0] - 1)):
            rows[size] = row
            size += int(offsets[row + 1] > offsets[row] or empty < 0)
            out[row] = empty
        for i in range(size):
            slots[i] = _hash(data, offsets[rows[i]], offsets[rows[i] + 1]) & mask
        for i in range(size):
            entries[i] = table[slots[i]]
        for i in range(size):
            starts[i] = known_offsets[first + entries[i] - (entries[i] > 0)]
        for i in range(size):
            start = offsets[rows[i]]
            length = offsets[rows[i] + 1] - start
            slot, entry, at = slots[i], entries[i], starts[i]
            while entry != 0:
                if known_offsets[first + entry] - at == length and are_equal(known, at, data, start, length):
                    break
                slot = (slot + 1) & mask
                entry = np.int64(table[slot])
                at = known_offsets[first + entry - (entry > 0)]
            rank = base + 2 * count  # the gap above all constants, which no equality admits
            if entry != 0:
                rank = base + 2 * entry - 1
            elif ordered:
                rank = base + 2 * _gap(data, start, length, first, count, known_offsets, known)
            out[rows[i]] = rank
            if length == 0:
                empty = np.int64(rank)


@inlined
def short_word(word: np.uint64, length: int) -> np.uint64:
    """A string of at most SHORT bytes as a word: its bytes, then zeros, and its length in the last byte.

    The first `length` bytes of the given word are the string.
    """
    return word & ((np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)) | (np.uint64(length) << _LAST_BYTE)


@inlined
def load_short(data: Bytes, at: int, length: int) -> np.uint64:
    """The word of the short string data[at:at + length]; it may be at the very end of the data."""
    if at + 8 <= data.size:
        return short_word(load_word(data, at), length)
    word = np.uint64(length) << _LAST_BYTE
    for i in range(length):
        word |= np.uint64(item(data, at + i)) << np.uint64(8 * i)
    return word


@inlined
def mixed(word: np.uint64) -> np.uint64:
    """Mix the bits of a word, as a hash. Different words have different hashes."""
    word *= _FACTOR
    return word ^ (word >> _HALF)


@kernel
def fill_short_table(offsets: Int64s, data: Bytes, first: int, count: int, table: Int64s) -> None:
    """Fill the table of the short ones of `count` strings: pairs of the word of a string and its index + 1, or 0."""
    mask = table.size // 2 - 1
    for index in range(count):
        at: int = offsets[first + index]
        length = offsets[first + index + 1] - at
        if length <= SHORT:
            word = load_short(data, at, length)
            slot = np.int64(mixed(word)) & mask
            while table[2 * slot + 1] != 0:
                slot = (slot + 1) & mask
            table[2 * slot], table[2 * slot + 1] = np.int64(word), index + 1


def short_tables(start: np.ndarray, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tables of short strings of all attributes, and where each begins.

    Attribute a has the strings from start[a] to start[a + 1].
    """
    counts = np.diff(start)
    sizes = np.zeros(len(start), np.int64)
    for attr in np.flatnonzero((counts > 0) & (counts <= SHORT_TABLE_STRINGS)).tolist():
        sizes[attr + 1] = 2 << int(2 * counts[attr] - 1).bit_length()
    first = np.cumsum(sizes)
    table = np.zeros(int(first[-1]), np.int64)
    for attr in np.flatnonzero(sizes[1:]).tolist():
        own = table[first[attr] : first[attr + 1]]
        fill_short_table(offsets, data, int(start[attr]), int(counts[attr]), own)
    return first, table


@inlined
def _find_short(word: np.uint64, table: Int64s, begin: int, end: int) -> int:
    """The index + 1 of a short string in the table of an attribute, table[begin:end]; 0 if it is not there."""
    mask = (end - begin) // 2 - 1
    slot = np.int64(mixed(word)) & mask
    while True:
        found: int = item(table, begin + 2 * slot + 1)
        if found == 0 or item(table, begin + 2 * slot) == np.int64(word):
            return found
        slot = (slot + 1) & mask


@inlined
def _find_string(data: Bytes, at: int, length: int, attr: Integer, reading: Reading) -> int:
    """The index + 1 of a string among the constants of an attribute; 0 if it is none of them."""
    begin, end = item(reading.short_first, attr), item(reading.short_first, attr + 1)
    if length <= SHORT and begin < end:
        return _find_short(load_short(data, at, length), reading.short, begin, end)
    begin, end = item(reading.table_first, attr), item(reading.table_first, attr + 1)
    if begin == end or length > item(reading.longest, attr):
        return 0
    mask, first = end - begin - 1, item(reading.first, attr)
    slot = _hash(data, at, at + length) & mask
    while True:
        found = np.int64(item(reading.table, begin + slot))
        if found == 0:
            return 0
        start: int = item(reading.offsets, first + found - 1)
        size = item(reading.offsets, first + found) - start
        if size == length and are_equal(reading.data, start, data, at, length):
            return int(found)
        slot = (slot + 1) & mask


@inlined
def rank_string(data: Bytes, at: int, length: int, attr: Integer, reading: Reading) -> int:
    """The rank of one string, as `rank_strings` gives it."""
    found = _find_string(data, at, length, attr, reading)
    first, last = item(reading.first, attr), item(reading.first, attr + 1)
    above: int = 2 * found - 1
    if found == 0 and last > first and item(reading.ordered, attr):
        above = 2 * _gap(data, at, length, first, last - first, reading.offsets, reading.data)
    elif found == 0:
        above = 2 * (last - first)
    return above + int(item(reading.bases, 5 * attr + _STRINGS))


@helper
def _gap(data: Bytes, start: int, length: int, first: int, count: int, known_offsets: Int64s, known: Bytes) -> int:
    """The number of known strings below a string that is none of them."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        at = known_offsets[first + middle]
        size = known_offsets[first + middle + 1] - at
        common = min(size, length)
        same = shared(known, at, data, start, common)
        if size < length if same == common else known[at + same] < data[start + same]:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def string_words(offsets: Int64s, data: Bytes, rows: Int64s, depth: int, out: Uint64s) -> None:
    """Write seven bytes of each string, from `depth` on, as a number that sorts as they do.

    The lowest byte is the number of bytes that are there, or 8 if more follow. So a string sorts before the same string
    followed by zero bytes, and equal words with less than 8 mean equal strings.
    """
    for i in range(rows.shape[0]):
        start = offsets[rows[i]] + depth
        rest = offsets[rows[i] + 1] - start
        word = np.uint64(0)
        for j in range(7):
            word <<= np.uint64(8)
            if j < rest:
                word |= np.uint64(data[start + j])
        out[i] = (word << np.uint64(8)) | np.uint64(min(max(rest, 0), 8))
