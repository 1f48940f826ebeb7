"""The loops of the codec: values to ranks, and columns of ranks to events.

Every kernel releases the interpreter lock, so that two threads encode different blocks at once, and is called with
one signature (two for the search): inputs are read-only contiguous arrays, whether they are memory-mapped, lie in an
Arrow buffer or were just computed. Kernels write a rank for every cell, null ones included; `mask_nulls` overwrites
those afterwards, which keeps the inner loops free of a test that most columns do not need.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_FNV_START = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)
_HALF = np.uint64(32)
_TWO_63 = 2.0**63

NANOSECONDS = 1_000_000_000
_LAST_SECOND = 9_223_372_035
"""Seconds around 1970 whose every nanosecond is an int64; outside of them Python's integers take over."""


@njit(nogil=True, cache=True)
def rank_by_table(
    values: np.ndarray, table: np.ndarray, low: int, base: int, out: np.ndarray
) -> None:  # pragma: no cover
    """Ranks of integers whose constants span a range small enough to list: `table[v - low]`."""
    last = table.shape[0] - 1
    for i in range(values.shape[0]):
        value = values[i]
        # The ends of the table are the gaps below and above all constants.
        place = 0 if value <= low else (last if value - low >= last or value - low < 0 else value - low)
        out[i] = base + table[place]


@njit(nogil=True, cache=True)
def rank_by_search(
    values: np.ndarray,
    constants: np.ndarray,
    buckets: np.ndarray,
    origin: float,
    scale: float,
    base: int,
    missing: int,
    out: np.ndarray,
) -> None:  # pragma: no cover
    """Ranks by binary search within the bucket that a value's magnitude names; NaN becomes `missing`."""
    count = constants.shape[0]
    last = buckets.shape[0] - 2
    for i in range(values.shape[0]):
        value = values[i]
        if np.isnan(value):
            out[i] = missing
            continue
        place = (np.float64(value) - origin) * scale
        bucket = 0 if not place > 0 else (last if place >= last else np.int64(place))
        low = np.int64(buckets[bucket])
        length = np.int64(buckets[bucket + 1]) - low
        while length > 0:
            half = length >> 1
            if constants[low + half] < value:
                low += half + 1
                length -= half + 1
            else:
                length = half
        out[i] = base + 2 * low + (low < count and constants[low] == value)


@njit(nogil=True, cache=True)
def rank_cells(
    attrs: np.ndarray,
    cells: np.ndarray,
    kinds: np.ndarray,
    starts: np.ndarray,
    integers: np.ndarray,
    floats: np.ndarray,
    bases: np.ndarray,
    out: np.ndarray,
) -> None:  # pragma: no cover
    """Ranks of the entries of single events: a cell is a rank already, or a number where `~attr` stands for `attr`.

    `integers` and `floats` are two views of the numbers of all attributes; `kinds` says which one is an attribute's.
    """
    for i in range(attrs.shape[0]):
        value = cells[i]
        if attrs[i] >= 0:
            out[i] = np.int32(value)
            continue
        attr = ~attrs[i]
        attrs[i] = attr
        if np.isnan(value):
            out[i] = 0
            continue
        low, high = starts[attr], starts[attr + 1]
        if kinds[attr] == 2:
            while low < high:
                middle = (low + high) >> 1
                if floats[middle] < value:
                    low = middle + 1
                else:
                    high = middle
            equal = low < starts[attr + 1] and floats[low] == value
        else:
            below = np.floor(value)
            whole = np.int64(below) if -_TWO_63 <= below < _TWO_63 else np.int64(0)
            if below >= _TWO_63:
                low = high
            elif below < -_TWO_63:
                high = low
            while low < high:
                middle = (low + high) >> 1
                if integers[middle] < whole:
                    low = middle + 1
                else:
                    high = middle
            equal = low < starts[attr + 1] and integers[low] == whole and -_TWO_63 <= below < _TWO_63
            if equal and below != value:  # the constant is the floor of the value, hence below it
                low, equal = low + 1, False
        out[i] = bases[attr, 1] + 2 * (low - starts[attr]) + equal


@njit(nogil=True, cache=True, inline="always")
def _hash(data, start, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    h = _FNV_START
    for at in range(start, end):
        h = (h ^ np.uint64(data[at])) * _FNV_PRIME
    return np.int64((h ^ (h >> _HALF)) & np.uint64(0x7FFFFFFF))


@njit(nogil=True, cache=True)
def fill_hash_table(
    offsets: np.ndarray, data: np.ndarray, first: int, count: int, table: np.ndarray
) -> None:  # pragma: no cover
    """Open addressing with linear probing: an entry is the string's index + 1, 0 is empty."""
    mask = table.shape[0] - 1
    for index in range(count):
        slot = _hash(data, offsets[first + index], offsets[first + index + 1]) & mask
        while table[slot] != 0:
            slot = (slot + 1) & mask
        table[slot] = index + 1


@njit(nogil=True, cache=True)
def rank_strings(
    offsets: np.ndarray,
    data: np.ndarray,
    table: np.ndarray,
    first: int,
    count: int,
    known_offsets: np.ndarray,
    known: np.ndarray,
    base: int,
    ordered: int,
    out: np.ndarray,
) -> None:  # pragma: no cover
    """Ranks of UTF-8 strings: a hash lookup, then, only if the attribute is ordered, a search for the gap."""
    mask = table.shape[0] - 1
    for i in range(offsets.shape[0] - 1):
        start, end = offsets[i], offsets[i + 1]
        length = end - start
        rank = base
        found = False
        if count > 0:
            slot = _hash(data, start, end) & mask
            while table[slot] != 0:
                index = np.int64(table[slot]) - 1
                at = known_offsets[first + index]
                if known_offsets[first + index + 1] - at == length:
                    same = 0
                    while same < length and known[at + same] == data[start + same]:
                        same += 1
                    if same == length:
                        rank = base + 2 * index + 1
                        found = True
                        break
                slot = (slot + 1) & mask
        if ordered and not found:
            low, high = 0, count
            while low < high:
                middle = (low + high) >> 1
                at = known_offsets[first + middle]
                size = known_offsets[first + middle + 1] - at
                shared = min(size, length)
                same = 0
                while same < shared and known[at + same] == data[start + same]:
                    same += 1
                below = size < length if same == shared else known[at + same] < data[start + same]
                if below:
                    low = middle + 1
                else:
                    high = middle
            rank = base + 2 * low
        out[i] = rank


@njit(nogil=True, cache=True)
def mask_nulls(bitmap: np.ndarray, offset: int, missing: int, out: np.ndarray) -> None:  # pragma: no cover
    """Writes `missing` where the validity bitmap has a zero."""
    for i in range(out.shape[0]):
        bit = offset + i
        if not (bitmap[bit >> 3] >> (bit & 7)) & 1:
            out[i] = missing


@njit(nogil=True, cache=True)
def string_words(
    offsets: np.ndarray, data: np.ndarray, rows: np.ndarray, depth: int, out: np.ndarray
) -> None:  # pragma: no cover
    """Seven bytes of each string from `depth` on as a number that sorts like them.

    The lowest byte counts the bytes that are there (8: more follow), so that a string sorts before itself with
    zero bytes after it, and equal words with less than 8 are equal strings.
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


@njit(nogil=True, cache=True)
def pack(
    cells: np.ndarray,
    rows: int,
    attrs: np.ndarray,
    list_attrs: np.ndarray,
    list_places: np.ndarray,
    list_starts: np.ndarray,
    list_ends: np.ndarray,
    list_ranks: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # pragma: no cover
    """Columns of ranks, sorted by attribute, as the entries of each event: offsets, attributes, ranks.

    `cells[c, row]` is the rank of a flat column, negative where it is missing. List column k has the ranks
    `list_ranks[list_starts[k, row]:list_ends[k, row]]` and comes before flat column `list_places[k]`.
    """
    columns, lists = attrs.shape[0], list_attrs.shape[0]
    offsets = np.zeros(rows + 1, np.int64)
    for column in range(columns):
        line = cells[column]
        for row in range(rows):
            offsets[row + 1] += line[row] >= 0
    for k in range(lists):
        for row in range(rows):
            offsets[row + 1] += list_ends[k, row] - list_starts[k, row]
    for row in range(rows):
        offsets[row + 1] += offsets[row]
    out_attrs = np.empty(offsets[rows] + 1, np.int32)  # one more: a missing cell is written and then overwritten
    out_ranks = np.empty(offsets[rows] + 1, np.int32)
    at = 0
    for row in range(rows):
        column = 0
        for k in range(lists + 1):
            until = list_places[k] if k < lists else columns
            while column < until:
                rank = cells[column, row]
                out_attrs[at] = attrs[column]
                out_ranks[at] = rank
                at += rank >= 0
                column += 1
            if k < lists:
                for member in range(list_starts[k, row], list_ends[k, row]):
                    out_attrs[at] = list_attrs[k]
                    out_ranks[at] = list_ranks[member]
                    at += 1
    return offsets, out_attrs[:at], out_ranks[:at]


@njit(nogil=True, cache=True, inline="always")
def _digits(data, at, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The number that `count` ASCII digits spell, negative if one is not a digit."""
    number = 0
    for i in range(count):
        digit = np.int64(data[at + i]) - 48
        if digit < 0 or digit > 9:
            return -1
        number = number * 10 + digit
    return number


@njit(nogil=True, cache=True)
def parse_times(offsets: np.ndarray, data: np.ndarray, out: np.ndarray, odd: np.ndarray) -> None:  # pragma: no cover
    """Nanoseconds of the texts `2026-01-31` and `2026-01-31T12:00:00[.123456789][Z]`; all others are marked odd."""
    for i in range(offsets.shape[0] - 1):
        start, end = offsets[i], offsets[i + 1]
        size = end - start
        odd[i] = 1
        out[i] = 0
        if size != 10 and size < 19:
            continue
        year, month, day = _digits(data, start, 4), _digits(data, start + 5, 2), _digits(data, start + 8, 2)
        if data[start + 4] != 45 or data[start + 7] != 45 or year < 1 or month < 1 or month > 12 or day < 1:
            continue
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        if day > (28 + leap if month == 2 else 30 + ((month + (month >> 3)) & 1)):
            continue
        # Days of the civil calendar, with years that begin in March (H. Hinnant, chrono-compatible algorithms).
        shifted = year - (month <= 2)
        era = shifted // 400
        of_era = shifted - era * 400
        of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
        seconds = (era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468) * 86_400
        fraction = 0
        if size > 10:
            hour, minute, second = (
                _digits(data, start + 11, 2),
                _digits(data, start + 14, 2),
                _digits(data, start + 17, 2),
            )
            if (data[start + 10] != 84 and data[start + 10] != 32) or data[start + 13] != 58 or data[start + 16] != 58:
                continue
            if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
                continue
            seconds += hour * 3600 + minute * 60 + second
            if data[end - 1] == 90:
                end -= 1
            width = end - start - 20
            if width >= 0:
                fraction = _digits(data, start + 20, width) if data[start + 19] == 46 and 0 < width <= 9 else -1
                if fraction < 0:
                    continue
                for _ in range(9 - width):
                    fraction *= 10
        if -_LAST_SECOND < seconds < _LAST_SECOND:
            out[i] = seconds * NANOSECONDS + fraction
            odd[i] = 0
