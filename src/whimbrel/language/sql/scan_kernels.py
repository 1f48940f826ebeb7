"""The loops over the bytes of many texts: cutting them into predicates and literals, and telling equal strings apart.

What is unusual in a text (a quoted name, a doubled quote, a positive exponent, a letter outside ASCII that is not in a
string) makes it a row that is left to the parser: the loops know the plain case only.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.helpers import load_word, shared
from whimbrel.compiled.jit import helper, kernel

SPACE, DOUBLE_QUOTE, QUOTE, PLUS, MINUS, POINT, ZERO, NINE = b" \"'+-.09"
LETTER_A, LETTER_D, LETTER_N, UNDERSCORE, BACKTICK, SMALL_E = b"ADN_`e"
_OTHER, _ODD, _STRING, _LETTER, _DIGIT, _POINT = range(6)
_KIND = np.zeros(256, np.uint8)
"""What each byte is; those from `_LETTER` on make words."""
_KIND[128:] = _KIND[[DOUBLE_QUOTE, BACKTICK]] = _ODD
_KIND[QUOTE], _KIND[POINT], _KIND[ZERO : NINE + 1] = _STRING, _POINT, _DIGIT
_KIND[65:91] = _KIND[97:123] = _KIND[UNDERSCORE] = _LETTER
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF, _BYTE = np.uint64(32), np.uint64(8)
_EXACT = 900_719_925_474_098
"""With one digit more, still below 2^53."""
_TENS = 10.0 ** np.arange(23)
"""The powers of ten that are exact: dividing an exact integer by one rounds once, as reading the number should."""
_MOST_CHARACTERS = 64
"""Of a number: with an exponent of two digits, it is far from the smallest that there are."""
_DIGITS = 15
"""Digits before the point, at most: such integers are exact as binary64."""


@helper
def _is_digit(c):  # type: ignore[no-untyped-def]  # pragma: no cover
    return ZERO <= c <= NINE


@helper
def _hash(data, start, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Eight bytes at a time, then the others."""
    h = np.uint64(end - start)
    while start + 8 <= end:
        h = (h ^ load_word(data, start)) * _FACTOR
        h ^= h >> _HALF
        start += 8
    rest = np.uint64(0)
    while start < end:
        rest = (rest << _BYTE) | np.uint64(data[start])
        start += 1
    h = (h ^ rest) * _FACTOR
    return np.int64((h ^ (h >> _HALF)) & np.uint64(0x7FFFFFFF))


@helper
def _code(rest, begin, end, pool, pool_start, table, known):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The number of a predicate among those that are known, which may be the next one; -1 if there is no room."""
    mask = table.size - 1
    slot = _hash(rest, begin, end) & mask
    size = end - begin
    while table[slot] != 0:
        code = table[slot] - 1
        start = pool_start[code]
        if pool_start[code + 1] - start == size and shared(pool, start, rest, begin, size) == size:
            return np.int64(code)
        slot = (slot + 1) & mask
    start = pool_start[known]
    if known + 1 >= pool_start.size or start + size > pool.size:
        return np.int64(-1)
    for i in range(size):
        pool[start + i] = rest[begin + i]
    pool_start[known + 1] = start + size
    table[slot] = known + 1
    return np.int64(known)


@helper
def _number(data, at, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Reads a number that starts with a digit: where it ends, its value, if it is plain, if more digits must be read.

    Plain are those below 2^53, without an exponent or with a negative one of two digits at most.
    """
    start = at
    value = np.int64(0)
    while at < end and _is_digit(data[at]) and at - start <= _DIGITS:
        value = value * 10 + np.int64(data[at] - ZERO)
        at += 1
    plain = at - start <= _DIGITS
    is_long = False
    decimals = 0
    if at < end and data[at] == POINT:
        at += 1
        point = at
        while at < end and _is_digit(data[at]):
            if value <= _EXACT and decimals == at - point:
                value = value * 10 + np.int64(data[at] - ZERO)
                decimals += 1
            at += 1
        plain &= point < at <= start + _MOST_CHARACTERS
        is_long = decimals < at - point or decimals >= _TENS.size
        if at + 2 < end and data[at] | 32 == SMALL_E and data[at + 1] == MINUS and _is_digit(data[at + 2]):
            is_long = True
            at += 3
            at += at < end and _is_digit(data[at])
        decimals *= not is_long
    plain &= at == end or _KIND[data[at]] in (_OTHER, _STRING)
    return at, value / _TENS[decimals], plain, is_long


@helper
def _after_string(data, at, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Where the string that begins here ends, and whether it does, and with no other quote behind it."""
    at += 1
    while at < end and data[at] != QUOTE:
        at += 1
    return at + 1, at < end and not (at + 1 < end and data[at + 1] == QUOTE)


@helper
def _is_cut(rest, begin, size, data, at, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Whether ` AND ` was just written, and not between two literals, where it is, or may be, that of BETWEEN."""
    if size - begin < 5 or rest[size - 5] != SPACE:
        return False
    if rest[size - 4] != LETTER_A or rest[size - 3] != LETTER_N or rest[size - 2] != LETTER_D:
        return False
    if size - begin == 5 or rest[size - 6] != QUOTE or at == end:
        return True
    signed = data[at] in (MINUS, PLUS) and at + 1 < end
    return not (data[at] == QUOTE or _is_digit(data[at + 1] if signed else data[at]))


@kernel
def cut_texts(  # type: ignore[no-untyped-def]  # pragma: no cover
    offsets, data, whole, most_bytes, most_pieces, pool, pool_start, table,
    counts, codes, numbers, long_number, long_begin, long_end, string_begin, string_end,
):  # fmt: skip
    """Cuts the literals out of every text, and cuts it at AND, outside of BETWEEN, unless it is to stay whole.

    Per row the number of predicates, 0 for one that is left; of all rows, one after the other, the number of each
    predicate (its text with a mark for each literal is in `pool`), the numbers, those of them that must be read with
    more digits, and where strings begin and end. Returns how many there are of each, and of different predicates.
    """
    known = pieces = number = long = string = 0
    rest = np.empty(most_bytes + 2, np.uint8)
    for row in range(offsets.size - 1):
        at, end = offsets[row], offsets[row + 1]
        good = end - at <= most_bytes
        first_piece, first_number, first_long, first_string = pieces, number, long, string
        size = begin = 0
        literal_end = np.int64(-1)
        while good and at < end:
            kind = _KIND[data[at]]
            if kind == _STRING:
                string_begin[string] = at + 1
                good = literal_end != at
                at, is_string = _after_string(data, at, end)
                good &= is_string
                string_end[string] = at - 1
                string += 1
                rest[size] = rest[size + 1] = QUOTE
                size += 2
                literal_end = at
            elif kind == _DIGIT:
                good = literal_end != at
                long_begin[long] = at
                at, value, is_number, is_long = _number(data, at, end)
                good &= is_number
                long_number[long] = number
                long_end[long] = at
                long += is_long
                numbers[number] = value
                number += 1
                rest[size] = QUOTE
                size += 1
                literal_end = at
            elif kind == _LETTER:
                while at < end and _KIND[data[at]] >= _LETTER:
                    rest[size] = data[at]
                    size += 1
                    at += 1
            elif kind == _OTHER:
                c = data[at]
                rest[size] = c
                size += 1
                at += 1
                if c == SPACE and not whole and _is_cut(rest, begin, size, data, at, end):
                    code = _code(rest, begin, size - 5, pool, pool_start, table, known)
                    good = code >= 0 and pieces - first_piece < most_pieces
                    known += code == known
                    codes[pieces] = code
                    pieces += 1
                    begin = size
            else:
                good = False
        if good:
            code = _code(rest, begin, size, pool, pool_start, table, known)
            good = code >= 0 and pieces - first_piece < most_pieces
            known += code == known
            codes[pieces] = code
            pieces += 1
        if good:
            counts[row] = pieces - first_piece
        else:
            counts[row] = 0
            pieces, number, long, string = first_piece, first_number, first_long, first_string
    return pieces, number, long, string, known


@kernel
def keep_plain(  # type: ignore[no-untyped-def]  # pragma: no cover
    counts, codes, numbers, string_begin, string_end, attribute, number_count, string_count, attributes
):
    """Leaves the rows that have a predicate without an attribute, or two with the same: the others move up.

    Writes 0 as the count of a row that is left. Returns how many predicates, numbers and strings stay.
    """
    seen = np.full(attributes, -1, np.int64)
    piece = number = string = 0  # read
    pieces_kept = numbers_kept = strings_kept = 0
    for row in range(counts.size):
        good = True
        its_numbers = its_strings = 0
        for i in range(piece, piece + counts[row]):
            code = codes[i]
            attr = attribute[code]
            if attr < 0 or seen[attr] == row:
                good = False
            else:
                seen[attr] = row
            its_numbers += number_count[code]
            its_strings += string_count[code]
        if good:
            for i in range(counts[row]):
                codes[pieces_kept + i] = codes[piece + i]
            for i in range(its_numbers):
                numbers[numbers_kept + i] = numbers[number + i]
            for i in range(its_strings):
                string_begin[strings_kept + i] = string_begin[string + i]
                string_end[strings_kept + i] = string_end[string + i]
            pieces_kept += counts[row]
            numbers_kept += its_numbers
            strings_kept += its_strings
        piece += counts[row]
        number += its_numbers
        string += its_strings
        if not good:
            counts[row] = 0
    return pieces_kept, numbers_kept, strings_kept


@kernel
def number_strings(data, begin, end, table, codes, first):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Numbers strings, equal ones alike; `first` is where each of the different ones occurs first. How many there are.

    The table, all zeros, has at least twice as many places as there are strings.
    """
    mask = table.size - 1
    known = 0
    for i in range(begin.size):
        slot = _hash(data, begin[i], end[i]) & mask
        size = end[i] - begin[i]
        code = np.int64(-1)
        while table[slot] != 0:
            other = first[table[slot] - 1]
            if end[other] - begin[other] == size and shared(data, begin[other], data, begin[i], size) == size:
                code = np.int64(table[slot] - 1)
                break
            slot = (slot + 1) & mask
        if code < 0:
            first[known] = i
            code = np.int64(known)
            known += 1
            table[slot] = known
        codes[i] = code
    return known


@kernel
def copy_spans(data, begin, end, offsets, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Copies spans of bytes to where the offsets say."""
    for i in range(begin.size):
        for j in range(end[i] - begin[i]):
            out[offsets[i] + j] = data[begin[i] + j]
