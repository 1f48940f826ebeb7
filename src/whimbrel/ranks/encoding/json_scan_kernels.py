"""Scans the strings of JSON in compiled code: finds their ends, checks UTF-8, and replaces escapes.

Strings are scanned eight bytes at a time. A reader that meets something wrong, or something for Python, returns BAD and
no more: `model.json_text` finds what is wrong and where.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes
from whimbrel.compiled.helpers import item, load_word
from whimbrel.compiled.intrinsics import trailing_zeros
from whimbrel.compiled.jit import helper, inlined

BAD = -1
"""In place of a position or a size: the text is wrong, or Python must read it."""

QUOTE, BACKSLASH = 0x22, 0x5C

_ONES, _TOPS = np.uint64(0x0101_0101_0101_0101), np.uint64(0x8080_8080_8080_8080)
_QUOTES, _BACKSLASHES, _SPACES = _ONES * np.uint64(QUOTE), _ONES * np.uint64(BACKSLASH), _ONES * np.uint64(0x20)

_ESCAPED = np.full(256, BAD, np.int16)
"""The code point of each character that may follow a backslash, except `u`; BAD for others."""
_ESCAPED[[QUOTE, BACKSLASH, 0x2F]] = [QUOTE, BACKSLASH, 0x2F]
_ESCAPED[list(b"bfnrt")] = [8, 12, 10, 13, 9]


@inlined
def quotes_in(word: np.uint64) -> np.uint64:
    """A bit in every byte that is a quote; bits above the lowest one may be wrong."""
    unlike = word ^ _QUOTES
    return (unlike - _ONES) & ~unlike & _TOPS


@inlined
def byte_at(data: Bytes, at: int, end: int) -> int:
    """The byte at a place, 0 at the end."""
    byte: int = item(data, at) if at < end else 0
    return byte


@inlined
def signed(word: np.uint64) -> int:
    """The word as int64."""
    return int(np.int64(word))


@inlined
def first_byte(bits: np.uint64) -> int:
    """The number of the byte that has the lowest bit."""
    return signed(trailing_zeros(bits)) >> 3


@inlined
def four_bytes(data: Bytes, at: int, end: int) -> int:
    """The four bytes at a place as a number, the first one lowest; those at the end and behind it are 0."""
    four = 0
    for i in range(4):
        four |= byte_at(data, at + i, end) << (8 * i)
    return four


@helper
def _hex(data: Bytes, at: int, end: int) -> int:
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
def read_escape(data: Bytes, at: int, end: int) -> tuple[int, int]:
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
    return int(_ESCAPED[letter]), at + 2


@inlined
def _character_size(four: int) -> int:
    """The size of the character of two to four bytes at the beginning of four bytes; 0 if it is not UTF-8.

    The bits that tell its size are compared at once; then values that fewer bytes hold, surrogates, and values above
    the last code point are ruled out.
    """
    if four & 0xC0E0 == 0x80C0:
        return 2 if four & 0x1E else 0
    if four & 0xC0C0F0 == 0x8080E0:
        rest = four & 0x200F
        return 3 if rest != 0 and rest != 0x200D else 0  # noqa: PLR1714 - compiles faster
    if four & 0xC0C0C0F8 == 0x808080F0:
        rest = four & 0x3007
        return 4 if rest != 0 and (rest & 7 < 4 or rest == 4) else 0
    return 0


@inlined
def _skip_characters(data: Bytes, at: int, end: int) -> int:
    """The place after the characters of two to four bytes that follow each other from `at` on; BAD if some is wrong."""
    limit = data.size - 8
    while at < end and item(data, at) >= 0x80:
        four = four_bytes(data, at, end) if at > limit else signed(load_word(data, at)) & 0xFFFF_FFFF
        size = _character_size(four)
        if size == 0:
            return BAD
        at += size
    return at


@inlined
def odd_bytes(word: np.uint64) -> np.uint64:
    """A bit in every byte that is a backslash, below the space or beyond ASCII; bits above the lowest may be wrong."""
    unlike = word ^ _BACKSLASHES
    return ((unlike - _ONES) & ~unlike & _TOPS) | ((word - _SPACES) & ~word & _TOPS) | (word & _TOPS)


@inlined
def scan_string(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """The place of the quote that ends the string which begins at `at`, or BAD; and whether it has escapes."""
    escaped = False
    limit = data.size - 8
    while at < end:
        if at <= limit:
            word = load_word(data, at)
            found = quotes_in(word) | odd_bytes(word)
            if found == np.uint64(0):
                at += 8
                continue
            at += first_byte(found)
            if at >= end:
                break
        byte = int(item(data, at))
        if byte == QUOTE:
            return at, escaped
        if byte >= 0x80:
            at = _skip_characters(data, at, end)
            if at < 0:
                return BAD, escaped
        elif byte == BACKSLASH:
            escaped = True
            if _ESCAPED[byte_at(data, at + 1, end)] >= 0:
                at += 2
                continue
            code, at = read_escape(data, at, end)
            if code < 0:
                return BAD, escaped
        elif byte < 0x20:
            return BAD, escaped
        else:
            at += 1
    return BAD, escaped


@helper
def unescape(data: Bytes, at: int, end: int, out: Bytes, first: int) -> int:
    """Write a string that `scan_string` has seen to `out`, from `first` on, without escapes. Return its size or BAD."""
    n = first
    if first + (end - at) > out.size:  # an escape is never shorter than its character
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
