"""Reads the values of JSON objects in compiled code: each becomes a rank, or a number in its cell.

The digits of numbers are read eight at a time, without a branch for each.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes, Floats
from whimbrel.compiled.float_kernels import nearest_float
from whimbrel.compiled.helpers import item, load_word
from whimbrel.compiled.jit import helper, inlined
from whimbrel.compiled.python_objects import bytes_at
from whimbrel.ranks.encoding.json_scan_kernels import (
    BAD,
    byte_at,
    first_byte,
    four_bytes,
    scan_string,
    signed,
    unescape,
)
from whimbrel.ranks.encoding.json_state import NOTES, TEXT_BYTES, UNREAD_FLOATS, JsonState
from whimbrel.ranks.encoding.name_table import EXACT_NUMBER, EXACT_TIME, SOURCE, TIME
from whimbrel.ranks.kernel_arrays import EXACT_FLOAT, FOR_PYTHON, FULL, Numbers, Reading
from whimbrel.ranks.rank_kernels import rank_large, rank_time
from whimbrel.ranks.string_kernels import rank_string
from whimbrel.ranks.timestamps import ODD_TIME, parse_time

_INTEGER, _FLOAT, _UNREAD, _HUGE = 0, 1, 2, 3
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
_TRUE, _FALS, _NULL = (int.from_bytes(text, "little") for text in (b"true", b"fals", b"null"))


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
def _scan_number(data: Bytes, at: int, end: int) -> tuple[int, int, int, float]:
    """The place after the number that begins at `at`, or BAD; its kind; and its value, as integer or as float."""
    begin = at
    is_negative = item(data, at) == 0x2D
    at += is_negative
    first = at
    digits, at = _read_digits(data, at, end, np.uint64(0))
    byte = byte_at(data, at, end)
    count = at - first
    if count == 0 or (count > 1 and item(data, first) == 48):
        return BAD, _UNREAD, 0, 0.0
    if byte != 0x2E and byte | 32 != 0x65:
        if count > 19 or digits > _LAST:
            return (at if count <= _MOST_DIGITS else BAD), _HUGE, 0, 0.0
        whole = signed(digits)
        return at, _INTEGER, -whole if is_negative else whole, 0.0
    power = 0
    if byte == 0x2E:
        first = at + 1
        digits, at = _read_digits(data, first, end, digits)
        byte = byte_at(data, at, end)
        if at == first:
            return BAD, _UNREAD, 0, 0.0
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
            return BAD, _UNREAD, 0, 0.0
        power += -exponent if down else exponent
    if at - begin > _MOST_DIGITS:
        return BAD, _UNREAD, 0, 0.0
    if count > 19 and _significant(data, begin + is_negative, at) > 19:
        return at, _UNREAD, 0, 0.0
    number = nearest_float(digits, power)
    return at, (_FLOAT if number >= 0 else _UNREAD), 0, -number if is_negative else number


@helper
def _significant(data: Bytes, at: int, end: int) -> int:
    """How many digits the number without a sign at `at` has, zeros at the front and the exponent not counted."""
    count = 0
    while at < end and data[at] | 32 != 0x65:
        count += 48 <= data[at] <= 57 and (count > 0 or data[at] > 48)
        at += 1
    return count


@inlined
def read_text(
    data: Bytes, at: int, end: int, attr: int, flags: int, state: JsonState, reading: Reading
) -> tuple[int, int, int, int]:
    """Read the string at `at`; return the place after it, or FOR_PYTHON; its rank; the place and length of its text.

    The length is -1 if patterns do not look at the text.
    """
    stop, escaped = scan_string(data, at, end)
    if stop < 0:
        return FOR_PYTHON, BAD, 0, -1
    if attr < 0 and not flags & TIME:
        return stop + 1, BAD, 0, -1
    begin, length, source, first = at, stop - at, data, at
    if escaped:
        used = state.counters[TEXT_BYTES]
        length = unescape(data, at, stop, state.texts, used)
        if length < 0:
            return FULL, BAD, 0, -1
        begin, source, first = -1 - used, bytes_at(state.texts.ctypes.data, state.texts.size), used
        if flags & SOURCE:
            state.counters[TEXT_BYTES] += length
    if not flags & TIME:
        return stop + 1, rank_string(source, first, length, attr, reading), begin, length
    time = int(parse_time(source, first, first + length))
    if time == ODD_TIME or flags & EXACT_TIME:
        return FOR_PYTHON, BAD, 0, -1
    if attr < 0:
        return stop + 1, BAD, 0, -1
    return stop + 1, rank_time(time, attr, reading), 0, -1


@inlined
def read_number(
    data: Bytes, at: int, end: int, attr: int, flags: int, entry: int, state: JsonState, numbers: Numbers,
    cells: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Read a number; return the place after it, FOR_PYTHON or FULL; and its rank, or BAD if it is in its cell."""
    stop, kind, whole, real = _scan_number(data, at, end)
    if stop < 0:
        return FOR_PYTHON, BAD
    if attr < 0:
        return stop, BAD
    if kind == _HUGE or flags & EXACT_NUMBER:
        return FOR_PYTHON, BAD
    if kind == _INTEGER:
        cells[entry] = float(whole)
        if not -EXACT_FLOAT <= whole <= EXACT_FLOAT:
            rank = rank_large(whole, attr, numbers)
            return stop if rank >= 0 else FOR_PYTHON, rank
        return stop, BAD
    cells[entry] = real
    if kind == _UNREAD:
        left = state.counters[UNREAD_FLOATS]
        if left >= state.unread.shape[0]:
            return FULL, BAD
        state.unread[left, 0], state.unread[left, 1], state.unread[left, 2] = entry, at, stop
        state.counters[UNREAD_FLOATS] += 1
    return stop, BAD


@inlined
def read_word(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read true, false or null; return the place after it, or FOR_PYTHON; and its rank."""
    four = four_bytes(data, at, end)
    if four == _NULL:
        return at + 4, 0
    if four == _TRUE:
        return at + 4, 4
    is_false = four == _FALS and byte_at(data, at + 4, end) == 0x65
    return at + 5 if is_false else FOR_PYTHON, 2


@inlined
def note(state: JsonState, entry: int, begin: int, length: int) -> bool:
    """Note where the text of an entry is; False if there is no place for the note."""
    note = state.counters[NOTES]
    if note >= state.notes.shape[0]:
        return False
    state.notes[note, 0], state.notes[note, 1], state.notes[note, 2] = entry, begin, length
    state.counters[NOTES] += 1
    return True
