"""Reads the numbers of JSON in compiled code: eight digits at a time, without a branch for each."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes
from whimbrel.compiled.float_kernels import nearest_float
from whimbrel.compiled.helpers import item, load_word
from whimbrel.compiled.jit import helper, inlined
from whimbrel.ranks.encoding.json_scan_kernels import BAD, byte_at, first_byte, signed

INTEGER, FLOAT, UNREAD, HUGE = 0, 1, 2, 3
"""Kinds of numbers: an int64, a float, a float that Python must read, and an integer that is no int64."""

_MOST_DIGITS = 300
"""Numbers with more digits are left to Python, which has a limit for them."""
_LAST = np.uint64((1 << 63) - 1)
_TEN = np.uint64(10)

_TOPS, _ZEROS = np.uint64(0x8080_8080_8080_8080), np.uint64(0x3030_3030_3030_3030)
_ABOVE_NINE = np.uint64(0x7676_7676_7676_7676)
"""Added to bytes below 128, it sets the top bit of the bytes above 9."""
_POWERS = np.array([10**count for count in range(9)], np.uint64)
_PAIRS = np.uint64(0x0000_00FF_0000_00FF)
_FIRST_FACTORS, _SECOND_FACTORS = np.uint64(1_000_000 << 32 | 100), np.uint64(10_000 << 32 | 1)
_BYTE, _TWO_BYTES, _HALF = np.uint64(8), np.uint64(16), np.uint64(32)


@inlined
def _eight_digits(word: np.uint64) -> np.uint64:
    """The number that eight digits spell, a byte each, the first one lowest: makes pairs, then adds four pairs."""
    pairs = word * _TEN + (word >> _BYTE)
    return ((pairs & _PAIRS) * _FIRST_FACTORS + ((pairs >> _TWO_BYTES) & _PAIRS) * _SECOND_FACTORS) >> _HALF


@inlined
def _read_digits(data: Bytes, at: int, end: int, number: np.uint64) -> tuple[np.uint64, int]:
    """Append the digits at `at` to a number, modulo 2^64; return it and the place after the digits.

    The place may be behind `end` if digits are there: no text ends with a number, so the reader then stops.
    """
    if at <= data.size - 8:
        word = load_word(data, at) ^ _ZEROS
        others = ((word + _ABOVE_NINE) | word) & _TOPS
        if others != np.uint64(0):
            count = first_byte(others)  # with 0 digits the shift below gives garbage, which is not used
            shift = np.uint64(64 - 8 * count & 63)
            return number * _POWERS[count] + _eight_digits(word << shift), at + count
        number = number * _POWERS[8] + _eight_digits(word)
        at += 8
    byte = byte_at(data, at, end)
    while 48 <= byte <= 57:
        number = number * _TEN + np.uint64(byte - 48)
        at += 1
        byte = byte_at(data, at, end)
    return number, at


@inlined
def scan_number(data: Bytes, at: int, end: int) -> tuple[int, int, int, float]:
    """The place after the number that begins at `at`, or BAD; its kind; and its value, as integer or as float."""
    begin = at
    is_negative = item(data, at) == 0x2D
    at += is_negative
    first = at
    digits, at = _read_digits(data, at, end, np.uint64(0))
    byte = byte_at(data, at, end)
    count = at - first
    if count == 0 or (count > 1 and item(data, first) == 48):
        return BAD, UNREAD, 0, 0.0
    if byte != 0x2E and byte | 32 != 0x65:
        if count > 19 or digits > _LAST:
            return (at if count <= _MOST_DIGITS else BAD), HUGE, 0, 0.0
        whole = signed(digits)
        return at, INTEGER, -whole if is_negative else whole, 0.0
    power = 0
    if byte == 0x2E:
        first = at + 1
        digits, at = _read_digits(data, first, end, digits)
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
def _significant(data: Bytes, at: int, end: int) -> int:
    """How many digits the number without a sign at `at` has, zeros at the front and the exponent not counted."""
    count = 0
    while at < end and data[at] | 32 != 0x65:
        count += 48 <= data[at] <= 57 and (count > 0 or data[at] > 48)
        at += 1
    return count
