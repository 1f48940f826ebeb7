"""The loops over the bytes of many texts: they cut texts into predicates and literals, and number equal strings alike.

The loops know the plain case only. Whatever is unusual in a text (a quoted name, a doubled quote, a positive exponent,
a letter outside ASCII that is not in a string) makes them leave that text to the parser.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.helpers import load_word, shared
from whimbrel.compiled.jit import helper, inlined, kernel

SPACE, DOUBLE_QUOTE, QUOTE, PLUS, MINUS, POINT, ZERO, NINE = b" \"'+-.09"
LETTER_A, LETTER_D, LETTER_N, UNDERSCORE, BACKTICK, SMALL_E = b"ADN_`e"
_OTHER, _ODD, _STRING, _LETTER, _DIGIT, _POINT = range(6)
_KIND = np.zeros(256, np.uint8)
"""The kind of each byte; the kinds from `_LETTER` on make words."""
_KIND[128:] = _KIND[[DOUBLE_QUOTE, BACKTICK]] = _ODD
_KIND[QUOTE], _KIND[POINT], _KIND[ZERO : NINE + 1] = _STRING, _POINT, _DIGIT
_KIND[65:91] = _KIND[97:123] = _KIND[UNDERSCORE] = _LETTER
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF, _BYTE = np.uint64(32), np.uint64(8)
_EXACT = 900_719_925_474_098
"""An integer up to this one stays below 2^53 with one digit more."""
_TENS = 10.0 ** np.arange(23)
"""The powers of ten that are exact: dividing an exact integer by one rounds once, as reading the number should."""
_MOST_CHARACTERS = 64
"""Characters of a plain number; with an exponent of two digits it is far from the smallest float."""
_DIGITS = 15
"""Digits before the point of a plain number; such integers are exact as binary64."""


class TextBytes(NamedTuple):
    """Many texts: text i is `data[offsets[i]:offsets[i + 1]]`, in UTF-8."""

    offsets: np.ndarray
    data: np.ndarray


class SkeletonPool(NamedTuple):
    """The different skeletons that were met: skeleton c is `data[starts[c]:starts[c + 1]]`.

    `table` finds them by hash, with open addressing: an entry is c + 1, and 0 is empty.
    """

    data: np.ndarray
    starts: np.ndarray
    table: np.ndarray


class TextCuts(NamedTuple):
    """What the texts were cut into, text after text.

    `counts` has the number of predicates of each text, 0 for one that is left to the parser. `codes` has the skeleton
    of each predicate, `numbers` each number, `string_begin` and `string_end` the bytes of each string. A number with
    too many digits for the loops is read again: `long_number` is its place in `numbers`, `long_begin` and `long_end`
    its bytes.
    """

    counts: np.ndarray
    codes: np.ndarray
    numbers: np.ndarray
    long_number: np.ndarray
    long_begin: np.ndarray
    long_end: np.ndarray
    string_begin: np.ndarray
    string_end: np.ndarray


class PredicateFacts(NamedTuple):
    """For each skeleton the number of its attribute, or -1 if it is not plain, and how many literals it has."""

    attribute: np.ndarray
    numbers: np.ndarray
    strings: np.ndarray


@helper
def _is_digit(c: int) -> bool:  # pragma: no cover
    return ZERO <= c <= NINE


@helper
def _hash(data: np.ndarray, start: int, end: int) -> np.int64:  # pragma: no cover
    """The hash of some bytes: eight at a time, then the rest."""
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


@inlined
def _code(rest: np.ndarray, begin: int, end: int, pool: SkeletonPool, known: int) -> np.int64:  # pragma: no cover
    """The number of a skeleton in the pool, which becomes the next number if it is new; -1 if the pool is full."""
    mask = pool.table.size - 1
    slot = _hash(rest, begin, end) & mask
    size = end - begin
    while pool.table[slot] != 0:
        code = pool.table[slot] - 1
        start = pool.starts[code]
        if pool.starts[code + 1] - start == size and shared(pool.data, start, rest, begin, size) == size:
            return np.int64(code)
        slot = (slot + 1) & mask
    start = pool.starts[known]
    if known + 1 >= pool.starts.size or start + size > pool.data.size:
        return np.int64(-1)
    for i in range(size):
        pool.data[start + i] = rest[begin + i]
    pool.starts[known + 1] = start + size
    pool.table[slot] = known + 1
    return np.int64(known)


@helper
def _number(data: np.ndarray, at: int, end: int) -> tuple[int, float, bool, bool]:  # pragma: no cover
    """Read a number that starts with a digit. Return its end, its value, whether it is plain, and whether it is long.

    A plain number is below 2^53 and has no exponent, or a negative one of at most two digits. A long one has digits
    that this function does not read: its value must be read again.
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
def _after_string(data: np.ndarray, at: int, end: int) -> tuple[int, bool]:  # pragma: no cover
    """The end of the string that begins here, and whether it has a closing quote without another quote behind it."""
    at += 1
    while at < end and data[at] != QUOTE:
        at += 1
    return at + 1, at < end and not (at + 1 < end and data[at + 1] == QUOTE)


@helper
def _is_cut(rest: np.ndarray, begin: int, size: int, data: np.ndarray, at: int, end: int) -> bool:  # pragma: no cover
    """Whether to cut here: ` AND ` was just written, and not between two literals, where BETWEEN may have it."""
    if size - begin < 5 or rest[size - 5] != SPACE:
        return False
    if rest[size - 4] != LETTER_A or rest[size - 3] != LETTER_N or rest[size - 2] != LETTER_D:
        return False
    if size - begin == 5 or rest[size - 6] != QUOTE or at == end:
        return True
    signed = data[at] in (MINUS, PLUS) and at + 1 < end
    return not (data[at] == QUOTE or _is_digit(data[at + 1] if signed else data[at]))


@kernel
def cut_texts(
    texts: TextBytes, whole: bool, most_bytes: int, most_predicates: int, pool: SkeletonPool, cuts: TextCuts
) -> tuple[int, int, int, int, int]:  # pragma: no cover
    """Cut the literals out of every text, and cut the rest at AND outside of BETWEEN, unless it is to stay `whole`.

    Writes to `pool` and `cuts`. A text with more than `most_bytes` or `most_predicates` is left to the parser. Returns
    how many predicates, numbers, long numbers, strings and skeletons there are.
    """
    data = texts.data
    known = predicate = number = long = string = 0
    rest = np.empty(most_bytes + 2, np.uint8)
    for row in range(texts.offsets.size - 1):
        at, end = texts.offsets[row], texts.offsets[row + 1]
        good = end - at <= most_bytes
        first_predicate, first_number, first_long, first_string = predicate, number, long, string
        size = begin = 0
        literal_end = at - 1
        while good and at < end:
            kind = _KIND[data[at]]
            if kind == _STRING:
                cuts.string_begin[string] = at + 1
                good = literal_end != at
                at, is_string = _after_string(data, at, end)
                good &= is_string
                cuts.string_end[string] = at - 1
                string += 1
                rest[size] = rest[size + 1] = QUOTE
                size += 2
                literal_end = at
            elif kind == _DIGIT:
                good = literal_end != at
                cuts.long_begin[long] = at
                at, value, is_number, is_long = _number(data, at, end)
                good &= is_number
                cuts.long_number[long] = number
                cuts.long_end[long] = at
                long += is_long
                cuts.numbers[number] = value
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
                rest[size] = data[at]
                size += 1
                at += 1
                if rest[size - 1] == SPACE and not whole and _is_cut(rest, begin, size, data, at, end):
                    code = _code(rest, begin, size - 5, pool, known)
                    good = code >= 0 and predicate - first_predicate < most_predicates
                    known += code == known
                    cuts.codes[predicate] = code
                    predicate += 1
                    begin = size
            else:
                good = False
        if good:
            code = _code(rest, begin, size, pool, known)
            good = code >= 0 and predicate - first_predicate < most_predicates
            known += code == known
            cuts.codes[predicate] = code
            predicate += 1
        cuts.counts[row] = predicate - first_predicate if good else 0
        if not good:
            predicate, number, long, string = first_predicate, first_number, first_long, first_string
    return predicate, number, long, string, known


@kernel
def keep_plain(cuts: TextCuts, facts: PredicateFacts) -> tuple[int, int, int]:  # pragma: no cover
    """Leave texts that have a predicate that is not plain, or two on one attribute, to the parser; close the gaps.

    Writes 0 as the count of such a text. Returns how many predicates, numbers and strings stay.
    """
    seen = np.full(facts.attribute.size, -1, np.int64)
    predicate = number = string = 0  # read
    predicates_kept = numbers_kept = strings_kept = 0
    for row in range(cuts.counts.size):
        count = cuts.counts[row]
        good = True
        its_numbers = its_strings = 0
        for i in range(predicate, predicate + count):
            code = cuts.codes[i]
            attr = facts.attribute[code]
            if attr < 0 or seen[attr] == row:
                good = False
            else:
                seen[attr] = row
            its_numbers += facts.numbers[code]
            its_strings += facts.strings[code]
        if good:
            for i in range(count):
                cuts.codes[predicates_kept + i] = cuts.codes[predicate + i]
            for i in range(its_numbers):
                cuts.numbers[numbers_kept + i] = cuts.numbers[number + i]
            for i in range(its_strings):
                cuts.string_begin[strings_kept + i] = cuts.string_begin[string + i]
                cuts.string_end[strings_kept + i] = cuts.string_end[string + i]
            predicates_kept += count
            numbers_kept += its_numbers
            strings_kept += its_strings
        else:
            cuts.counts[row] = 0
        predicate += count
        number += its_numbers
        string += its_strings
    return predicates_kept, numbers_kept, strings_kept


@kernel
def number_strings(
    data: np.ndarray, begin: np.ndarray, end: np.ndarray, table: np.ndarray, codes: np.ndarray, first: np.ndarray
) -> int:  # pragma: no cover
    """Number strings, equal ones alike, and return how many different ones there are.

    Writes the number of each string to `codes`, and the first string of each number to `first`. The table is all zeros
    and at least twice as large as the number of strings.
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
def copy_spans(
    data: np.ndarray, begin: np.ndarray, end: np.ndarray, offsets: np.ndarray, out: np.ndarray
) -> None:  # pragma: no cover
    """Copy span i of the bytes to `out[offsets[i]:]`."""
    for i in range(begin.size):
        for j in range(end[i] - begin[i]):
            out[offsets[i] + j] = data[begin[i] + j]
