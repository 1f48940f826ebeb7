"""The loop that chooses the keys of whole patterns: of the texts that a pattern wants, the one that the fewest want.

Texts are taken as they stand in the bytes of a pattern: between the wildcards of LIKE, and in a regular expression
outside of groups, sets and escaped signs. Expressions come here only if they have a program, so that their syntax is
known to be good.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from whimbrel.compiled.helpers import Integer, hash_of_bytes
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.ranks.patterns.rule_kernels import BEGIN, LENGTH, PROGRAM

_PERCENT, _UNDERSCORE, _BACKSLASH, _OPEN, _CLOSE, _BAR, _BRACKET, _BRACKET_END, _BRACE_END = b"%_\\()|[]}"
_STAR, _QUESTION, _BRACE, _PLUS, _HAT, _DOLLAR, _DOT = b"*?{+^$."
Found: TypeAlias = "tuple[Integer, Integer, Integer]"
"""Begin and end of a text, which are equal at the end of an alternative, and where to go on."""


@inlined
def _next_of_like(data: np.ndarray, at: Integer, end: Integer) -> Found:  # pragma: no cover
    while at < end and data[at] in (_PERCENT, _UNDERSCORE, _BACKSLASH):
        at += 1 + (data[at] == _BACKSLASH)
    begin = at
    while at < end and data[at] not in (_PERCENT, _UNDERSCORE, _BACKSLASH):
        at += 1
    return (begin, at, at) if begin < at else (end, end, end + 1)


@inlined
def _after_set(data: np.ndarray, at: Integer) -> Integer:  # pragma: no cover
    at += 1
    at += data[at] == _HAT
    at += data[at] == _BRACKET_END
    while data[at] != _BRACKET_END:
        at += 1 + (data[at] == _BACKSLASH)
    return at + 1


@helper
def _next_of_regex(data: np.ndarray, at: Integer, end: Integer) -> Found:  # pragma: no cover
    depth = 0
    begin: Integer = np.int64(-1)
    while at < end:
        sign = data[at]
        if depth == 0 and begin >= 0 and sign in (_STAR, _QUESTION, _BRACE):  # without the letter that is repeated
            stop: Integer = at - 1
            while data[stop] & 0xC0 == 0x80:
                stop -= 1
            if begin < stop:
                return begin, stop, at
            begin = np.int64(-1)
        if sign in (_BACKSLASH, _BRACKET, _OPEN, _CLOSE, _BAR, _BRACE, _STAR, _QUESTION, _PLUS, _HAT, _DOLLAR, _DOT):
            if begin >= 0:
                return begin, at, at
            if sign == _BAR and depth == 0:
                return at, at, at + 1
            depth += int(sign == _OPEN) - int(sign == _CLOSE)
            if sign == _BRACKET:
                at = _after_set(data, at)
                continue
            at += sign == _BACKSLASH
            while sign == _BRACE and data[at] != _BRACE_END:
                at += 1
        elif depth == 0 and begin < 0:
            begin = at
        at += 1
    return (begin, end, end) if begin >= 0 else (end, end, end + 1)


@inlined
def _next_text(data: np.ndarray, at: Integer, end: Integer, is_regex: bool) -> Found:  # pragma: no cover
    return _next_of_regex(data, at, end) if is_regex else _next_of_like(data, at, end)


@kernel
def choose_keys(
    table: np.ndarray, is_folded: np.ndarray, data: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # pragma: no cover
    """Choose a key for each alternative of each rule, by how many rules want a text, then by length.

    Returns the keys (kind of trie, begin, length, rule), and the rules (kind of trie, rule) of which an alternative
    wants no text. `counts` is all zeros, and its size is a power of two; texts with one hash are counted together.
    """
    mask = counts.size - 1
    alternatives = 0
    for rule in range(table.shape[0]):
        at, end = table[rule, BEGIN], table[rule, BEGIN] + table[rule, LENGTH]
        while at <= end:
            begin, stop, at = _next_text(data, at, end, table[rule, PROGRAM] >= 0)
            alternatives += begin == stop
            if begin < stop:
                counts[hash_of_bytes(data, begin, stop) & mask] += 1
    keys, always = np.empty((alternatives, 4), np.int64), np.empty((table.shape[0], 2), np.int64)
    used = others = 0
    for rule in range(table.shape[0]):
        at, end = table[rule, BEGIN], table[rule, BEGIN] + table[rule, LENGTH]
        is_regex = table[rule, PROGRAM] >= 0
        first, fewest = used, np.int64(-1)
        while at <= end:
            begin, stop, at = _next_text(data, at, end, is_regex)
            if begin < stop:
                count = counts[hash_of_bytes(data, begin, stop) & mask]
                if fewest < 0 or count < fewest or (count == fewest and stop - begin > keys[used, 2]):
                    fewest = count
                    keys[used, 0] = 2 * is_folded[rule] + (is_regex or stop < end)
                    keys[used, 1], keys[used, 2], keys[used, 3] = begin, stop - begin, rule
            elif fewest < 0:
                always[others, 0], always[others, 1] = 2 * is_folded[rule] + 1, rule
                others += 1
                used = first
                break
            else:
                fewest = np.int64(-1)
                used += 1
    return keys[:used], always[:others]
