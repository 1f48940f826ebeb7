"""The kernels that decide whole patterns: LIKE with any wildcards, and regular expressions by their programs."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int64Matrix, Uint64s
from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.intrinsics import trailing_zeros
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.compiled.regex_atoms import END_SYMBOL, FIRST, FOLLOW, LAST, MASKS, SHORTEST, START_SYMBOL

BEGIN, LENGTH, RULE_RANK, PROGRAM = 0, 1, 2, 3
"""Columns of a rule: where its LIKE pattern begins, and its length; its rank; where its program begins, or -1."""
_PERCENT, _UNDERSCORE, _BACKSLASH = b"%_\\"
_NONE, _ONE = np.uint64(0), np.uint64(1)


@inlined
def _after_character(text: Bytes, at: Integer, end: int) -> Integer:
    """Where the next character begins."""
    at += 1
    while at < end and text[at] & 0xC0 == 0x80:
        at += 1
    return at


@helper
def is_like(pattern: Bytes, p: int, pattern_end: int, text: Bytes, start: int, end: int) -> bool:
    """Whether text[start:end] matches the LIKE pattern[p:pattern_end], escape \\. Goes back to the last % only."""
    at: Integer = np.int64(start)
    resumed: Integer = np.int64(start)
    anchor = -1
    while at < end or p < pattern_end:
        if p < pattern_end:
            sign = pattern[p]
            if sign == _PERCENT:
                p += 1
                if p == pattern_end:
                    return True
                anchor, resumed = p, at
                continue
            if at < end:
                if sign == _UNDERSCORE:
                    p, at = p + 1, _after_character(text, at, end)
                    continue
                width = 1 + (sign == _BACKSLASH)
                if pattern[p + width - 1] == text[at]:
                    p, at = p + width, at + 1
                    continue
        if anchor < 0 or resumed >= end:
            return False
        p, resumed = anchor, _after_character(text, resumed, end)
        at = resumed
    return True


@inlined
def _pair_bit(first: Integer, second: Integer) -> np.uint64:
    """The bit of a pair of adjacent bytes; other pairs may have the same bit."""
    return _ONE << np.uint64((first * 33 + second * 7 + (second >> 3)) & 63)


@inlined
def pairs_of(text: Bytes, start: int, end: int) -> np.uint64:
    """The bits of all pairs of bytes of a text."""
    bits = _NONE
    for at in range(start, end - 1):
        bits |= _pair_bit(np.int64(text[at]), np.int64(text[at + 1]))
    return bits


@kernel
def pairs_of_rules(table: Int64Matrix, known: Bytes) -> np.ndarray:
    """For each rule the bits of the pairs that a text must have: the pairs within the texts of a LIKE pattern."""
    out = np.zeros(table.shape[0], np.uint64)
    for rule in range(table.shape[0]):
        if table[rule, PROGRAM] >= 0:
            continue
        at = table[rule, BEGIN]
        end = at + table[rule, LENGTH]
        before = np.int64(-1)
        while at < end:
            byte = np.int64(known[at])
            at += 1
            if byte in (_PERCENT, _UNDERSCORE):
                before = np.int64(-1)
                continue
            if byte == _BACKSLASH and at < end:
                byte = np.int64(known[at])
                at += 1
            if before >= 0:
                out[rule] |= _pair_bit(before, byte)
            before = byte
    return out


@inlined
def _consumed(programs: Uint64s, begin: int, active: np.uint64, symbol: Integer) -> np.uint64:
    """The active positions of a program after one more symbol."""
    possible = programs[begin + FIRST]
    while active != _NONE:
        possible |= programs[begin + FOLLOW + np.int64(trailing_zeros(active))]
        active &= active - _ONE
    return np.uint64(possible & programs[begin + MASKS + symbol])


@helper
def is_found(programs: Uint64s, begin: int, text: Bytes, start: int, end: int) -> bool:
    """Whether the regular expression whose program begins at `begin` is found in text[start:end]."""
    if programs[begin + SHORTEST] != _NONE:
        return True
    last = programs[begin + LAST]
    active = _consumed(programs, begin, _NONE, START_SYMBOL)
    for at in range(start, end):
        if active & last != _NONE:
            return True
        active = _consumed(programs, begin, active, np.int64(text[at]))
    if active & last != _NONE:
        return True
    return bool(_consumed(programs, begin, active, END_SYMBOL) & last != _NONE)
