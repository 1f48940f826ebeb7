"""Reads the parts of regular expressions in compiled code: characters, sets, signs of repetition, groups.

An atom is written into a program as positions (`regex_programs`), each with the byte or set of bytes that it consumes.
The start and the end of a text are consumed like bytes, by ^ and $. A character beyond ASCII is consumed by a position
for its first byte and one for the bytes that follow: texts are valid UTF-8.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes, Uint64s
from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.intrinsics import trailing_zeros
from whimbrel.compiled.jit import helper, inlined

POSITIONS = 64
START_SYMBOL, END_SYMBOL, SYMBOLS = 256, 257, 258
"""The start and the end of a text, behind the 256 bytes."""
SHORTEST, FIRST, LAST, MASKS = 0, 1, 2, 3
"""Words of a program: 1 if every text has a match; the positions that begin and end a match; then for each symbol the
positions that consume it; then for each position the positions that may follow it."""
FOLLOW = MASKS + SYMBOLS

_MOST_REPEATED = 32
OPEN, CLOSE, BAR, _BRACKET, _BRACKET_END, _BRACE, _BRACE_END, _BACKSLASH = b"()|[]{}\\"
_STAR, _PLUS, _QUESTION, _HAT, _DOLLAR, _DOT, _MINUS, _COMMA, _COLON, _LESS, _GREATER, _P = b"*+?^$.-,:<>P"
_FLAGS, _BOUNDARIES = tuple(b"ims"), tuple(b"bB")
UNKNOWN = -1
NONE, ONE, ALL = np.uint64(0), np.uint64(1), np.uint64((1 << 64) - 1)


def _words(codes: bytes) -> np.ndarray:
    """A set of ASCII as two words."""
    words = np.zeros(2, np.uint64)
    for code in codes:
        words[code >> 6] |= np.uint64(1 << (code & 63))
    return words


_DIGITS = bytes(range(48, 58))
_LETTERS = bytes([*range(65, 91), *range(97, 123)])
_CLASSES = np.zeros((128, 2), np.uint64)
"""The members of a class, by its small letter."""
_CLASSES[ord("d")], _CLASSES[ord("s")] = _words(_DIGITS), _words(b"\t\n\f\r ")
_CLASSES[ord("w")] = _words(_DIGITS + _LETTERS + b"_")
_SIGNS = np.full(128, UNKNOWN, np.int64)
"""The character that a sign behind a backslash means: itself, or a control character; UNKNOWN for other letters."""
_OTHERS = [code for code in range(1, 128) if code not in _DIGITS + _LETTERS]
_SIGNS[_OTHERS] = _OTHERS
_SIGNS[list(b"ntrfva")] = [10, 9, 13, 12, 11, 7]
_IS_WORD = np.zeros(256, np.bool_)
_IS_WORD[list(_DIGITS + _LETTERS + b"_")] = True


@inlined
def _add_set(program: Uint64s, own: np.uint64, low: np.uint64, high: np.uint64) -> None:
    """Let a position consume a set of ASCII."""
    while low != NONE:
        program[MASKS + np.int64(trailing_zeros(low))] |= own
        low &= low - ONE
    while high != NONE:
        program[MASKS + 64 + np.int64(trailing_zeros(high))] |= own
        high &= high - ONE


@helper
def _read_member(data: Bytes, at: Integer, end: Integer) -> tuple[Integer, Integer]:
    """The end of a member of a set, and its code, or 128 and the letter of a class."""
    if at >= end or data[at] > 127 or data[at] == 0:
        return UNKNOWN, 0
    if data[at] == _BACKSLASH:
        at += 1
        if at >= end or data[at] > 127:
            return UNKNOWN, 0
        code = np.int64(data[at])
        if _CLASSES[code, 0] | _CLASSES[code, 1] != NONE:
            return at + 1, 128 + code
        return (at + 1 if _SIGNS[code] >= 0 else UNKNOWN), _SIGNS[code]
    if data[at] == _BRACKET and at + 1 < end and data[at + 1] == _COLON:
        return UNKNOWN, 0
    return at + 1, np.int64(data[at])


@helper
def _read_set(data: Bytes, at: Integer, end: Integer) -> tuple[Integer, np.uint64, np.uint64, bool]:
    """The end of a set in brackets, its members in ASCII, and whether it has all characters beyond."""
    low, high = NONE, NONE
    is_negated = bool(at < end and data[at] == _HAT)
    at += is_negated
    is_first = True
    while is_first or at >= end or data[at] != _BRACKET_END:
        is_first = False
        at, code = _read_member(data, at, end)
        if at == UNKNOWN:
            return at, low, high, False
        if code >= 128:
            low |= _CLASSES[code - 128, 0]
            high |= _CLASSES[code - 128, 1]
            continue
        last = code
        if at + 1 < end and data[at] == _MINUS and data[at + 1] != _BRACKET_END:
            at, last = _read_member(data, at + 1, end)
            if at == UNKNOWN or last >= 128 or last < code:
                return UNKNOWN, low, high, False
        for member in range(code, last + 1):
            bit = ONE << np.uint64(member & 63)
            low |= bit if member < 64 else NONE
            high |= NONE if member < 64 else bit
    if is_negated:
        low, high = ~low, ~high
    return at + 1, low, high, is_negated


@helper
def _read_escape(data: Bytes, at: Integer, end: Integer) -> tuple[Integer, Integer, np.uint64, np.uint64, bool]:
    """Read what follows a backslash; return its end, and its symbol, or UNKNOWN and a set as `_read_set` does."""
    letter = np.int64(data[at]) if at < end else np.int64(0)
    at += 1
    if letter > 127:
        return UNKNOWN, UNKNOWN, NONE, NONE, False
    if letter in (65, 122):  # A, z
        return at, START_SYMBOL if letter == 65 else END_SYMBOL, NONE, NONE, False
    small = letter | 32
    low, high = _CLASSES[small, 0], _CLASSES[small, 1]
    if low | high != NONE and _IS_WORD[letter]:
        return (at, UNKNOWN, low, high, False) if letter == small else (at, UNKNOWN, ~low, ~high, True)
    return (at if _SIGNS[letter] >= 0 else UNKNOWN), _SIGNS[letter], NONE, NONE, False


@helper
def _read_character(
    data: Bytes, at: Integer, end: Integer, program: Uint64s, count: Integer
) -> tuple[Integer, Integer, np.uint64, np.uint64]:
    """Read a character beyond ASCII, with a position for each of its bytes; return what `read_atom` does."""
    own = last = ONE << np.uint64(count)
    first = at
    at += 1
    while at < end and data[at] & 0xC0 == 0x80:
        at += 1
    if count + at - first > POSITIONS:
        return UNKNOWN, count, own, own
    for place in range(first, at):
        last = ONE << np.uint64(count)
        if place > first:
            program[FOLLOW + count - 1] = last
        program[MASKS + np.int64(data[place])] |= last
        count += 1
    return at, count, own, last


@helper
def read_atom(
    data: Bytes, at: Integer, end: Integer, program: Uint64s, count: Integer
) -> tuple[Integer, Integer, np.uint64, np.uint64]:
    """Read an atom, neither a group nor a sign of repetition, into a program that has `count` positions.

    Returns its end, the new number of positions, and its first and last ones. The end is `UNKNOWN` if it has no
    positions, or too many.
    """
    byte = np.int64(data[at])
    if byte >= 0xC0:
        return _read_character(data, at, end, program, count)
    low, high, is_beyond = NONE, NONE, False
    symbol: Integer = byte
    at += 1
    own = ONE << np.uint64(count)
    if byte in (_HAT, _DOLLAR):
        symbol = START_SYMBOL if byte == _HAT else END_SYMBOL
    elif byte == _DOT:
        low, high, is_beyond = ~(ONE << np.uint64(10)), ALL, True
    elif byte == _BRACKET:
        at, low, high, is_beyond = _read_set(data, at, end)
        symbol = UNKNOWN
    elif byte == _BACKSLASH:
        at, symbol, low, high, is_beyond = _read_escape(data, at, end)
    elif byte in (_STAR, _PLUS, _QUESTION, _BRACE, _BRACE_END, _BRACKET_END, 0):
        return UNKNOWN, count, own, own
    if at == UNKNOWN or count + (3 if is_beyond else 1) > POSITIONS:
        return UNKNOWN, count, own, own
    if symbol >= 0 and not is_beyond:
        program[MASKS + symbol] |= own
        return at, count + 1, own, own
    _add_set(program, own, low, high)
    if not is_beyond:
        return at, count + 1, own, own
    lead, more = own << ONE, own << np.uint64(2)
    for code in range(0xC0, 0x100):
        program[MASKS + code] |= lead
    for code in range(0x80, 0xC0):
        program[MASKS + code] |= more
    program[FOLLOW + count + 1] = program[FOLLOW + count + 2] = more
    return at, count + 3, own | lead, own | lead | more


@helper
def read_again(data: Bytes, at: Integer, end: Integer) -> tuple[Integer, Integer, Integer]:
    """The end of a sign of repetition, and how often it repeats: at least, and at most or -1.

    The end is `at` if there is no such sign, and `UNKNOWN` if it is wrong or too large.
    """
    if at >= end or data[at] not in (_STAR, _PLUS, _QUESTION, _BRACE):
        return at, 1, 1
    sign = data[at]
    at += 1
    least, most = np.int64(sign == _PLUS), np.int64(1 if sign == _QUESTION else -1)
    if sign == _BRACE:
        first = at
        while at < end and 48 <= data[at] <= 57 and at < first + 3:
            least = least * 10 + np.int64(data[at]) - 48
            at += 1
        most = least
        if at == first or at >= end:
            return UNKNOWN, 0, 0
        if data[at] == _COMMA:
            at += 1
            begin = at
            most = np.int64(0)
            while at < end and 48 <= data[at] <= 57 and at < begin + 3:
                most = most * 10 + np.int64(data[at]) - 48
                at += 1
            most = most if at > begin else np.int64(-1)
        if at >= end or data[at] != _BRACE_END or least > _MOST_REPEATED or most > _MOST_REPEATED:
            return UNKNOWN, 0, 0
        if most == 0 or (most > 0 and most < least):
            return UNKNOWN, 0, 0
        at += 1
    if at < end and data[at] == _QUESTION:
        at += 1
    return (at if at >= end or data[at] not in (_STAR, _PLUS, _QUESTION, _BRACE) else UNKNOWN), least, most


@helper
def after_opening(data: Bytes, at: Integer, end: Integer) -> tuple[Integer, bool]:
    """Where the inside of a group begins, or `UNKNOWN`, and whether the group has a name."""
    at += 1
    if at >= end or data[at] != _QUESTION:
        return at, False
    at += 1
    if at < end and data[at] == _COLON:
        return at + 1, False
    at += at < end and data[at] == _P
    first = at + 1
    if at >= end or data[at] != _LESS:
        return UNKNOWN, False
    at += 1
    while at < end and _IS_WORD[data[at]]:
        at += 1
    return (at + 1 if at > first and at < end and data[at] == _GREATER else UNKNOWN), True


@helper
def after_unread(data: Bytes, at: Integer, end: Integer) -> Integer:
    """The end of a construct that RE2 accepts and programs lack: flags such as (?i) or (?ims), and word boundaries.

    Returns `at` if there is none, or if it is repeated.
    """
    after: Integer = at + 2
    if after > end:
        return at
    is_known = data[at] == _BACKSLASH and data[at + 1] in _BOUNDARIES
    if data[at] == OPEN and data[at + 1] == _QUESTION:
        while after < end and data[after] in _FLAGS and after < at + 5:
            after += 1
        is_known = at + 2 < after < end and data[after] == CLOSE
        after += 1
    return after if is_known and read_again(data, after, end)[0] == after else at
