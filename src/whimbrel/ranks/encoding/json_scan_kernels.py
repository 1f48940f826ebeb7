"""The pieces of JSON that compiled code reads: strings, escapes and numbers.

Strings are scanned eight bytes at a time. A reader that meets something wrong, or something it leaves to Python, says
so and no more: what is wrong and where is found by `model.json_text`.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.helpers import load_word
from whimbrel.compiled.intrinsics import trailing_zeros
from whimbrel.compiled.jit import helper, inlined
from whimbrel.ranks.encoding.float_kernels import nearest_float

BAD = -1
"""In place of a position or a size: the text is wrong, or Python must read it."""

QUOTE, BACKSLASH = 0x22, 0x5C
INTEGER, FLOAT, UNREAD, HUGE = 0, 1, 2, 3
"""Kinds of numbers: an int64, a float, a float that Python must read, and an integer that is no int64."""

_ONES, _TOPS = np.uint64(0x0101_0101_0101_0101), np.uint64(0x8080_8080_8080_8080)
_QUOTES, _BACKSLASHES, _SPACES = _ONES * np.uint64(QUOTE), _ONES * np.uint64(BACKSLASH), _ONES * np.uint64(0x20)

_MOST_DIGITS = 300
"""Numbers with more digits are left to Python, which has a limit for them."""
_LAST = np.uint64((1 << 63) - 1)
_TEN = np.uint64(10)


@inlined
def quotes_in(word: np.uint64) -> np.uint64:  # pragma: no cover
    """A bit in every byte that is a quote; bits above the lowest one may be wrong."""
    unlike = word ^ _QUOTES
    return (unlike - _ONES) & ~unlike & _TOPS


@inlined
def byte_at(data: np.ndarray, at: int, end: int) -> int:  # pragma: no cover
    """The byte at a place, 0 at the end."""
    byte: int = data[at] if at < end else 0
    return byte


@inlined
def signed(word: np.uint64) -> int:  # pragma: no cover
    """The word as int64."""
    return int(np.int64(word))


@inlined
def first_byte(bits: np.uint64) -> int:  # pragma: no cover
    """The number of the byte that has the lowest bit."""
    return signed(trailing_zeros(bits)) >> 3


@helper
def skip_character(data: np.ndarray, at: int, end: int) -> int:  # pragma: no cover
    """The place after the character of two to four bytes that begins at `at`, or BAD if that is not UTF-8."""
    first: int = data[at]
    size = 2 + (first >= 0xE0) + (first >= 0xF0)
    if first < 0xC2 or first > 0xF4 or at + size > end:
        return BAD
    second: int = data[at + 1]
    low, high = 0x80, 0xBF
    if first == 0xE0:
        low = 0xA0
    elif first == 0xED:  # beyond are surrogates
        high = 0x9F
    elif first == 0xF0:
        low = 0x90
    elif first == 0xF4:
        high = 0x8F
    if second < low or second > high:
        return BAD
    for i in range(at + 2, at + size):
        if data[i] & 0xC0 != 0x80:
            return BAD
    return at + size


@helper
def _hex(data: np.ndarray, at: int, end: int) -> int:  # pragma: no cover
    """The number that four hexadecimal digits spell, or BAD."""
    if at + 4 > end:
        return BAD
    number = 0
    for i in range(at, at + 4):
        digit = int(data[i])
        if 48 <= digit <= 57:
            digit -= 48
        elif 97 <= digit | 32 <= 102:
            digit = (digit | 32) - 87
        else:
            return BAD
        number = number * 16 + digit
    return number


@helper
def read_escape(data: np.ndarray, at: int, end: int) -> tuple[int, int]:  # pragma: no cover
    """The code point of the escape that begins at the backslash `at`, and the place after it; BAD if it is wrong."""
    letter = byte_at(data, at + 1, end)
    if letter == 0x75:
        code = _hex(data, at + 2, end)
        if 0xD800 <= code < 0xDC00 and byte_at(data, at + 6, end) == BACKSLASH and byte_at(data, at + 7, end) == 0x75:
            low = _hex(data, at + 8, end)
            if 0xDC00 <= low < 0xE000:
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), at + 12
        if 0xD800 <= code < 0xE000:
            return BAD, at
        return code, at + 6
    code = BAD
    if letter in (QUOTE, BACKSLASH, 0x2F):
        code = letter
    elif letter == 0x62:
        code = 8
    elif letter == 0x66:
        code = 12
    elif letter == 0x6E:
        code = 10
    elif letter == 0x72:
        code = 13
    elif letter == 0x74:
        code = 9
    return code, at + 2


@inlined
def scan_string(data: np.ndarray, at: int, end: int) -> tuple[int, bool]:  # pragma: no cover
    """The place of the quote that ends the string which begins at `at`, or BAD; and whether it has escapes."""
    escaped = False
    limit = data.size - 8
    while at < end:
        if at <= limit:
            word = load_word(data, at)
            unlike = word ^ _BACKSLASHES
            found = quotes_in(word) | ((unlike - _ONES) & ~unlike & _TOPS)
            found |= ((word - _SPACES) & ~word & _TOPS) | (word & _TOPS)
            if found == np.uint64(0):
                at += 8
                continue
            at += first_byte(found)
            if at >= end:
                break
        byte = int(data[at])
        if byte == QUOTE:
            return at, escaped
        if byte >= 0x80:
            at = skip_character(data, at, end)
            if at < 0:
                return BAD, escaped
        elif byte == BACKSLASH:
            escaped = True
            code, at = read_escape(data, at, end)
            if code < 0:
                return BAD, escaped
        elif byte < 0x20:
            return BAD, escaped
        else:
            at += 1
    return BAD, escaped


@helper
def unescape(data: np.ndarray, at: int, end: int, out: np.ndarray, first: int) -> int:  # pragma: no cover
    """Write a string that `scan_string` has seen to `out`, from `first` on, without escapes. Return its size or BAD."""
    n = first
    if first + (end - at) > out.size:  # no escape is shorter than what it stands for
        return BAD
    while at < end:
        if data[at] != BACKSLASH:
            out[n] = data[at]
            n += 1
            at += 1
            continue
        code, at = read_escape(data, at, end)
        if code < 0x80:
            out[n] = code
            n += 1
            continue
        if code < 0x800:
            out[n] = 0xC0 | code >> 6
        else:
            if code < 0x10000:
                out[n] = 0xE0 | code >> 12
            else:
                out[n] = 0xF0 | code >> 18
                n += 1
                out[n] = 0x80 | (code >> 12 & 0x3F)
            n += 1
            out[n] = 0x80 | (code >> 6 & 0x3F)
        out[n + 1] = 0x80 | (code & 0x3F)
        n += 2
    return n - first


@inlined
def scan_number(data: np.ndarray, at: int, end: int) -> tuple[int, int, int, float]:  # pragma: no cover
    """The place after the number that begins at `at`, or BAD; its kind; and its value, as integer or as float."""
    begin = at
    is_negative = data[at] == 0x2D
    at += is_negative
    digits = np.uint64(0)
    first = at
    byte = byte_at(data, at, end)
    while 48 <= byte <= 57:
        digits = digits * _TEN + np.uint64(byte - 48)
        at += 1
        byte = byte_at(data, at, end)
    count = at - first
    if count == 0 or (count > 1 and data[first] == 48):
        return BAD, UNREAD, 0, 0.0
    if byte != 0x2E and byte | 32 != 0x65:
        if count > 19 or digits > _LAST:
            return (at if count <= _MOST_DIGITS else BAD), HUGE, 0, 0.0
        whole = signed(digits)
        return at, INTEGER, -whole if is_negative else whole, 0.0
    power = 0
    if byte == 0x2E:
        at += 1
        first = at
        byte = byte_at(data, at, end)
        while 48 <= byte <= 57:
            digits = digits * _TEN + np.uint64(byte - 48)
            at += 1
            byte = byte_at(data, at, end)
        if at == first:
            return BAD, UNREAD, 0, 0.0
        power = first - at
        count += at - first
    if byte | 32 == 0x65:
        at += 1
        byte = byte_at(data, at, end)
        down = byte == 0x2D
        if down or byte == 0x2B:
            at += 1
            byte = byte_at(data, at, end)
        first = at
        exponent = 0
        while 48 <= byte <= 57:
            exponent = min(exponent * 10 + byte - 48, 99_999)
            at += 1
            byte = byte_at(data, at, end)
        if at == first:
            return BAD, UNREAD, 0, 0.0
        power += -exponent if down else exponent
    if at - begin > _MOST_DIGITS:
        return BAD, UNREAD, 0, 0.0
    if count > 19 and _significant(data, begin + is_negative, at) > 19:
        return at, UNREAD, 0, 0.0
    number = nearest_float(digits, power)
    return at, (FLOAT if number >= 0 else UNREAD), 0, -number if is_negative else number


@helper
def _significant(data: np.ndarray, at: int, end: int) -> int:  # pragma: no cover
    """How many digits the number without a sign at `at` has, zeros at the front and the exponent not counted."""
    count = 0
    while at < end and data[at] | 32 != 0x65:
        count += 48 <= data[at] <= 57 and (count > 0 or data[at] > 48)
        at += 1
    return count
