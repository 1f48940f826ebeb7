"""Reads the tokens of SQL from bytes in compiled code: names, reserved words, numbers, strings, spaces; and numbers
skeletons.

A skeleton is a predicate without its literals. Equal skeletons get equal numbers, in the order in which they come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s
from whimbrel.compiled.float_kernels import LEFT, nearest_float
from whimbrel.compiled.helpers import item, load_word
from whimbrel.compiled.jit import helper, inlined, kernel

DOUBLE_QUOTE, QUOTE, PLUS, MINUS, POINT, ZERO, NINE = b"\"'+-.09"
OPEN, CLOSE, COMMA, LESS, EQUAL, GREATER, BANG, BACKTICK, UNDERSCORE, SPACE = b"(),<=>!`_ "
SMALL_A, SMALL_E, SMALL_Z = b"aez"
ODD, SPACES, STRING, SYMBOL, QUOTED, POINT_KIND, LETTER, DIGIT = range(8)
KIND = np.zeros(256, np.uint8)
"""The kind of each byte; kinds from `LETTER` on make words. So do bytes beyond ASCII: `read_leaf` checks them again."""
KIND[[9, 10, 11, 12, 13, 28, 29, 30, 31, SPACE]] = SPACES
KIND[QUOTE], KIND[POINT], KIND[ZERO : NINE + 1] = STRING, POINT_KIND, DIGIT
KIND[65:91] = KIND[97:123] = KIND[UNDERSCORE] = KIND[128:] = LETTER
KIND[[DOUBLE_QUOTE, BACKTICK]] = QUOTED
KIND[[OPEN, CLOSE, COMMA, LESS, EQUAL, GREATER, BANG, PLUS, MINUS]] = SYMBOL


def _word(text: bytes) -> np.uint64:
    """What `word_key` returns for a word."""
    return np.uint64(int.from_bytes(text.rjust(8, b"\0"), "little"))


AND, OR, NOT, BETWEEN = _word(b"AND"), _word(b"OR"), _word(b"NOT"), _word(b"BETWEEN")
_IN, _IS, _LIKE, _NULL, _TRUE, _FALSE = map(_word, (b"IN", b"IS", b"LIKE", b"NULL", b"TRUE", b"FALSE"))
_CAPITALS = np.uint64(0xDFDFDFDFDFDFDFDF)
"""The mask that makes eight letters of ASCII capitals."""

_FULL = np.uint64(10**18)
"""From this number on one more digit may not fit."""
_LARGEST_EXACT = np.int64(1 << 53)
"""Binary64 holds every integer up to this one."""
_LARGEST = np.int64((1 << 63) - 1)
NO_INTEGER = np.int64(-(1 << 63))
"""Stands for a number that is no integer, or a float of 2^53 or more."""
_LARGEST_EXPONENT = 10_000
"""A larger exponent is read as this one, which makes any number long."""
FIRST_WIDE = 0xC2
"""The lowest byte that begins a character beyond ASCII."""
_BYTE, _TEN, _HALF = np.uint64(8), np.uint64(10), np.uint64(32)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@helper
def _is_digit(c: int) -> bool:
    return ZERO <= c <= NINE


@helper
def is_two(one: int, two: int) -> bool:
    """Whether two adjacent signs are one operator."""
    return (two == EQUAL and one in (LESS, GREATER, BANG, EQUAL)) or (one == LESS and two == GREATER)


@helper
def _read_digits(data: Bytes, at: int, end: int) -> tuple[int, np.int64, bool]:
    """Read digits as an integer. Return their end, its value, and whether it fits."""
    value = np.int64(0)
    fits = True
    while at < end and _is_digit(item(data, at)):
        digit = np.int64(item(data, at) - ZERO)
        fits &= bool(value < _LARGEST // 10 or (value == _LARGEST // 10 and digit <= _LARGEST % 10))
        value = value * 10 + digit if fits else value
        at += 1
    return at, value, fits


@helper
def _is_number_end(data: Bytes, at: int, end: int) -> bool:
    return at == end or (KIND[item(data, at)] < POINT_KIND and item(data, at) < 128)


@helper
def read_number(data: Bytes, at: int, end: int) -> tuple[int, float, np.int64, bool, bool]:
    """Read a number that starts with a digit or a point.

    Return its end, its value, its value as an integer or `NO_INTEGER`, whether it is well formed, and whether it is
    long. A long one has more digits or a larger exponent than this function reads exactly: it must be read again.
    """
    start = at
    at, value, fits = _read_digits(data, at, end)
    digits = at - start
    if digits > 0 and _is_number_end(data, at, end):
        return at, np.float64(value), value if fits else NO_INTEGER, True, not fits
    significant = np.uint64(value)
    power = 0
    good = digits > 0
    if at < end and item(data, at) == POINT:
        at += 1
        point = at
        while at < end and _is_digit(item(data, at)):
            fits &= bool(significant < _FULL)
            significant = significant * _TEN + np.uint64(item(data, at) - ZERO)
            at += 1
        power = point - at
        good |= at > point
    if at < end and item(data, at) | 32 == SMALL_E:
        at += 1
        is_negative = at < end and item(data, at) == MINUS
        at += at < end and item(data, at) in (PLUS, MINUS)
        first = at
        exponent = 0
        while at < end and _is_digit(item(data, at)):
            exponent = min(exponent * 10 + int(item(data, at) - ZERO), _LARGEST_EXPONENT)
            at += 1
        good &= at > first
        power += -exponent if is_negative else exponent
    good &= _is_number_end(data, at, end)
    number = nearest_float(significant, power) if fits else LEFT
    if number < 0:
        return at, 0.0, NO_INTEGER, good, True
    is_whole = np.floor(number) == number and number < _LARGEST_EXACT
    return at, number, np.int64(number) if is_whole else NO_INTEGER, good, False


@inlined
def copy_string(data: Bytes, at: int, end: int, out: Bytes, used: int) -> tuple[int, int]:
    """Copy the string at `at`, with doubled quotes made one; return its end, or -1, and the bytes of `out` used."""
    at += 1
    while at < end:
        if item(data, at) == QUOTE:
            if at + 1 >= end or item(data, at + 1) != QUOTE:
                return at + 1, used
            at += 1
        out[used] = item(data, at)
        used += 1
        at += 1
    return -1, used


@helper
def after_name(data: Bytes, at: int, end: int) -> int:
    """The end of a name, quoted or bare, with the parts behind its dots; -1 if the loops do not know such a name."""
    while True:
        if KIND[item(data, at)] == QUOTED:
            quote = item(data, at)
            at += 1
            while at < end and (item(data, at) != quote or (at + 1 < end and item(data, at + 1) == quote)):
                at += 2 if item(data, at) == quote else 1
            if at >= end:
                return -1
            at += 1
        else:
            while at < end and KIND[item(data, at)] >= LETTER:
                at += 1
        if at == end or item(data, at) != POINT:
            return at
        at += 1
        if at == end or KIND[item(data, at)] not in (LETTER, DIGIT, QUOTED):
            return -1


@helper
def _top_bytes(word: np.uint64, size: int) -> np.uint64:
    """The first `size` bytes of a word that was loaded, 1 to 8, moved to its end; zeros before them."""
    return word << np.uint64(64 - 8 * size)


@helper
def word_key(data: Bytes, start: int, end: int) -> np.uint64:
    """The letters of a word of up to 7 bytes as capitals in one integer; 0 for a longer word."""
    size = end - start
    if size > 7:
        return np.uint64(0)
    if start + 8 <= data.size:
        return _top_bytes(load_word(data, start), size) & _CAPITALS
    word = np.uint64(0)
    for at in range(end - 1, start - 1, -1):
        word = (word << _BYTE) | np.uint64(item(data, at))
    return _top_bytes(word, size) & _CAPITALS


@helper
def is_reserved_word(key: np.uint64) -> bool:
    """Whether a word, not a join, is reserved: it is never a name, so that skeletons have it in capitals."""
    return key in (NOT, BETWEEN, _IN, _IS, _LIKE, _NULL, _TRUE, _FALSE)


class SkeletonPool(NamedTuple):
    """The distinct skeletons so far: skeleton c is `data[starts[c]:starts[c + 1]]`.

    `table` finds them by hash, with open addressing: an entry is c + 1, and 0 is empty.
    """

    data: Bytes
    starts: Int64s
    table: Int32s


@inlined
def skeleton_number(rest: Bytes, size: int, pool: SkeletonPool, known: int) -> np.int64:
    """The number of a skeleton in the pool, which becomes the next number if it is new; -1 if the pool is full.

    Eight bytes are read at a time, so `rest` and the data of the pool have seven bytes more than they use.
    """
    mask = np.uint64(pool.table.size - 1)
    h = np.uint64(size)
    at = 0
    while at + 8 < size:
        h = (h ^ load_word(rest, at)) * _FACTOR
        h ^= h >> _HALF
        at += 8
    last = _top_bytes(load_word(rest, at), size - at)
    h = (h ^ last) * _FACTOR
    slot = np.int64((h ^ (h >> _HALF)) & mask)
    while item(pool.table, slot) != 0:
        code = np.int64(item(pool.table, slot) - 1)
        start = item(pool.starts, code)
        if item(pool.starts, code + 1) - start == size:
            same = 0
            while same < at and load_word(pool.data, start + same) == load_word(rest, same):
                same += 8
            if same == at and _top_bytes(load_word(pool.data, start + at), size - at) == last:
                return code
        slot = np.int64(np.uint64(slot + 1) & mask)
    start = pool.starts[known]
    if known + 1 >= pool.starts.size or start + size + 8 > pool.data.size:
        return np.int64(-1)
    for i in range(size):
        pool.data[start + i] = rest[i]
    pool.starts[known + 1] = start + size
    pool.table[slot] = known + 1
    return np.int64(known)


@helper
def _wide_space(data: Bytes, at: int, end: int) -> int:
    """The number of bytes of the white space beyond ASCII at `at`, as Unicode and Python define it; 0 if none.

    These are U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F and U+3000.
    """
    one = data[at]
    two = data[at + 1] if at + 1 < end else np.uint8(0)
    if one == 0xC2:
        return 2 if two in (0x85, 0xA0) else 0
    three = data[at + 2] if at + 2 < end else np.uint8(0)
    is_space = (one == 0xE1 and two == 0x9A and three == 0x80) or (one == 0xE3 and two == 0x80 and three == 0x80)
    if one == 0xE2:
        is_space = two == 0x80 and (three <= 0x8A or three in (0xA8, 0xA9, 0xAF)) and three >= 0x80
        is_space |= two == 0x81 and three == 0x9F
    return 3 if is_space else 0


@kernel
def with_plain_spaces(offsets: Int64s, data: Bytes) -> np.ndarray:
    """The bytes of texts, with spaces for every byte of white space beyond ASCII that is not quoted."""
    out = data.copy()
    for row in range(offsets.size - 1):
        at, end = offsets[row], offsets[row + 1]
        quote = np.uint8(0)
        while at < end:
            byte = data[at]
            size = 1
            if quote != 0:
                quote = np.uint8(0) if byte == quote else quote
            elif byte in (QUOTE, DOUBLE_QUOTE, BACKTICK):
                quote = byte
            elif byte >= FIRST_WIDE:
                wide = _wide_space(data, at, end)
                for place in range(at, at + wide):
                    out[place] = SPACE
                size = max(1, wide)
            at += size
    return out
