"""Whole patterns as fragments: LIKE with wildcards between texts, and regular expressions.

Such a pattern is one fragment, which a text has if it matches the pattern. A trie cannot find it, so each has a *key*:
a text that every match contains, which is in the trie. If the key is found in a text, the *rule* of the pattern decides
(`rule_kernels`). Patterns without any such text are decided for every text.

Of the texts that a pattern needs, its key is the one that the fewest patterns need. Texts are taken from the bytes of a
pattern: between the wildcards of LIKE, and in a regular expression outside groups, sets and escaped signs. A group
around the whole expression does not count. Only expressions that have a program come here, so their syntax is good.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from whimbrel.compiled.array_types import Bools, Bytes, Int32s, Int64Matrix, Uint64s
from whimbrel.compiled.helpers import Integer, hash_of_bytes
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.compiled.regex_atoms import after_opening
from whimbrel.compiled.regex_programs import measure_programs, write_programs
from whimbrel.compiled.views import read_only
from whimbrel.model.limits import REGEX_BYTES
from whimbrel.model.patterns import CaseFolded, LikePattern, Pattern, like_text
from whimbrel.model.values import STRING
from whimbrel.ranks.patterns.rule_kernels import BEGIN, LENGTH, PROGRAM, RULE_RANK

SOME_LIKE, SOME_FOLDED_LIKE, SOME_REGEX = "l", "k", "r"
"""The last letters of whole patterns that some value must match: LIKE, LIKE of the lower case, RLIKE. With a capital
letter every value must match."""
RULE_LETTERS = "lkrLKR"
LONGEST_LIKE = 512
"""Longer LIKE patterns, in bytes, have no rule: its loop may go back so far at each place of a text."""

_PERCENT, _UNDERSCORE, _BACKSLASH, _OPEN, _CLOSE, _BAR, _BRACKET, _BRACKET_END, _BRACE_END = b"%_\\()|[]}"
_STAR, _QUESTION, _BRACE, _PLUS, _HAT, _DOLLAR, _DOT = b"*?{+^$."
_Found: TypeAlias = "tuple[Integer, Integer, Integer]"
"""Begin and end of a text, which are equal at the end of an alternative, and where to go on."""


class PatternRules(NamedTuple):
    """The rules of a derived attribute."""

    table: Int64Matrix  # [rules, 4]: the columns of `rule_kernels`
    programs: Uint64s
    keys: Int64Matrix  # [keys, 4]: kind of trie, where the text begins, its length, and the rule
    always: Int64Matrix  # [n, 2]: kind of trie, and the rule, of patterns that are decided for every text


def rule_fragment(pattern: Pattern) -> str | None:
    """The fragment of a whole pattern, or None if no rule decides it."""
    if isinstance(pattern, LikePattern | CaseFolded):
        text = like_text(pattern.segments)
        letter = SOME_LIKE if isinstance(pattern, LikePattern) else SOME_FOLDED_LIKE
        return text + letter if len(text.encode()) <= LONGEST_LIKE else None
    return None


def read_rules(dictionary: Mapping[str, np.ndarray], attr: int) -> PatternRules | None:
    """The rules among the constants of a derived attribute, or None. Tries of kinds 0 and 1 have ends and insides."""
    first, last = dictionary["string_start"][attr : attr + 2].tolist()
    offsets, data = dictionary["string_offset"], read_only(dictionary["string_bytes"])
    letters = data[offsets[first + 1 : last + 1] - 1]
    own = np.flatnonzero(np.isin(letters, _codes(RULE_LETTERS)))
    if not len(own):
        return None
    letters = letters[own]
    table = np.full((len(own), 4), -1, np.int64)
    table[:, BEGIN] = offsets[first + own]
    table[:, LENGTH] = offsets[first + own + 1] - table[:, BEGIN] - 1
    table[:, RULE_RANK] = int(dictionary["rank_base"][attr, STRING]) + 2 * own + 1
    regexes = np.flatnonzero(np.isin(letters, _codes("rR")))
    begin = read_only(table[regexes, BEGIN])
    end = read_only(begin + table[regexes, LENGTH])
    words, _ = measure_programs(begin, end, data, REGEX_BYTES.value)
    assert words.all(), "a rule has an expression without a program"
    place = np.cumsum(words) - words
    table[regexes, PROGRAM] = place
    programs = np.empty(int(words.sum()), np.uint64)
    write_programs(begin, end, data, read_only(place), programs)
    counts = np.zeros(1 << (4 * len(own)).bit_length(), np.int32)
    keys, always = _choose_keys(read_only(table), np.isin(letters, _codes("kK")), data, counts)
    return PatternRules(table, programs, keys, always)


def _codes(letters: str) -> np.ndarray:
    return np.frombuffer(letters.encode(), np.uint8)


@inlined
def _next_of_like(data: Bytes, at: Integer, end: Integer) -> _Found:
    while at < end and data[at] in (_PERCENT, _UNDERSCORE, _BACKSLASH):
        at += 1 + (data[at] == _BACKSLASH)
    begin = at
    while at < end and data[at] not in (_PERCENT, _UNDERSCORE, _BACKSLASH):
        at += 1
    return (begin, at, at) if begin < at else (end, end, end + 1)


@inlined
def _after_set(data: Bytes, at: Integer) -> Integer:
    at += 1
    at += data[at] == _HAT
    at += data[at] == _BRACKET_END
    while data[at] != _BRACKET_END:
        at += 1 + (data[at] == _BACKSLASH)
    return at + 1


@helper
def _next_of_regex(data: Bytes, at: Integer, end: Integer) -> _Found:
    depth = 0
    begin: Integer = np.int64(-1)
    while at < end:
        sign = data[at]
        if depth == 0 and begin >= 0 and sign in (_STAR, _QUESTION, _BRACE):  # drop the letter that is repeated
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


@helper
def _inside(data: Bytes, at: Integer, end: Integer) -> tuple[Integer, Integer]:
    """Begin and end of an expression without groups around all of it, and without ^ and $ around those."""
    while True:
        begin: Integer = at + (at < end and data[at] == _HAT)
        close: Integer = end - 1 - (at < end and data[end - 1] == _DOLLAR and data[end - 2] != _BACKSLASH)
        if begin >= close or data[begin] != _OPEN or data[close] != _CLOSE:
            return at, end
        depth = 0
        scan: Integer = begin
        while scan < close and (depth > 0 or scan == begin):
            depth += int(data[scan] == _OPEN) - int(data[scan] == _CLOSE)
            scan = _after_set(data, scan) if data[scan] == _BRACKET else scan + 1 + (data[scan] == _BACKSLASH)
        if scan != close or depth != 1:
            return at, end
        at, _ = after_opening(data, begin, end)
        end = close


@inlined
def _next_text(data: Bytes, at: Integer, end: Integer, is_regex: bool) -> _Found:
    return _next_of_regex(data, at, end) if is_regex else _next_of_like(data, at, end)


@kernel
def _choose_keys(table: Int64Matrix, is_folded: Bools, data: Bytes, counts: Int32s) -> tuple[np.ndarray, np.ndarray]:
    """Choose a key for each alternative of each rule: the text that the fewest rules need, then the longest.

    Returns the keys (kind of trie, begin, length, rule), and the rules (kind of trie, rule) with an alternative that
    needs no text. `counts` is all zeros, and its size is a power of two; texts with one hash are counted together.
    """
    mask = counts.size - 1
    alternatives = 0
    for rule in range(table.shape[0]):
        at, end = table[rule, BEGIN], table[rule, BEGIN] + table[rule, LENGTH]
        if table[rule, PROGRAM] >= 0:
            at, end = _inside(data, at, end)
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
        if is_regex:
            at, end = _inside(data, at, end)
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
