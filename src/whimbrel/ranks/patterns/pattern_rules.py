"""Whole patterns as fragments: LIKE with wildcards between texts, and regular expressions.

Such a pattern is a fragment of its own, which a text has if it matches the pattern. A trie cannot find it, so each has
a *key*: a text that it wants, which is in the trie. Where the key is found in a text, the rule of the pattern decides
(`rule_kernels`). Patterns that want no text at all are decided for every text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.regex_programs import measure_programs, write_programs
from whimbrel.compiled.views import read_only
from whimbrel.model.limits import REGEX_BYTES
from whimbrel.model.patterns import CaseFolded, LikePattern, Pattern, like_text
from whimbrel.model.values import STRING
from whimbrel.ranks.patterns.key_kernels import choose_keys
from whimbrel.ranks.patterns.rule_kernels import BEGIN, LENGTH, PROGRAM, RULE_RANK

SOME_LIKE, SOME_FOLDED_LIKE, SOME_REGEX = "l", "k", "r"
"""The last letters of whole patterns that some value must match: LIKE, LIKE of the lower case, RLIKE. A capital letter:
every value must match."""
RULE_LETTERS = "lkrLKR"
LONGEST_LIKE = 512
"""Bytes of a LIKE pattern that a rule decides, at most: its loop may go back so far at each place of a text."""


class PatternRules(NamedTuple):
    """The rules of a derived attribute."""

    table: np.ndarray  # int64[rules, 4]: the columns of `rule_kernels`
    programs: np.ndarray  # uint64
    keys: np.ndarray  # int64[keys, 4]: kind of trie, where the text begins, its length, and the rule
    always: np.ndarray  # int64[n, 2]: kind of trie, and the rule, of those that are decided for every text


def rule_fragment(pattern: Pattern) -> str | None:
    """The fragment of a whole pattern, or None if no rule decides it."""
    if isinstance(pattern, LikePattern | CaseFolded):
        text = like_text(pattern.segments)
        letter = SOME_LIKE if isinstance(pattern, LikePattern) else SOME_FOLDED_LIKE
        return text + letter if len(text.encode()) <= LONGEST_LIKE else None
    return None


def read_rules(dictionary: Mapping[str, np.ndarray], attr: int) -> PatternRules | None:
    """The rules among the constants of a derived attribute, or None. Tries of kinds 0 and 1 have ends and insides.

    Of the texts that a pattern wants, the one that the fewest patterns want is its key.
    """
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
    keys, always = choose_keys(read_only(table), np.isin(letters, _codes("kK")), data, counts)
    return PatternRules(table, programs, keys, always)


def _codes(letters: str) -> np.ndarray:
    return np.frombuffer(letters.encode(), np.uint8)
