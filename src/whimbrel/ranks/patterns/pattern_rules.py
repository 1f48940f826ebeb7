"""Whole patterns as fragments: LIKE with wildcards between texts, and regular expressions.

Such a pattern is a fragment of its own, which a text has if it matches the pattern. A trie cannot find it, so each has
a *key*: a text that it wants, which is in the trie. Where the key is found in a text, the rule of the pattern decides
(`rule_kernels`). Patterns that want no text at all are decided for every text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from whimbrel.model.patterns import CaseFolded, LikePattern, Pattern, Regex, like_text
from whimbrel.model.values import STRING
from whimbrel.ranks.patterns.regex_programs import program_of
from whimbrel.ranks.patterns.regex_texts import regex_fragments

SOME_LIKE, SOME_FOLDED_LIKE, SOME_REGEX = "l", "k", "r"
"""The last letters of whole patterns that some value must match: LIKE, LIKE of the lower case, RLIKE. A capital letter:
every value must match."""
RULE_LETTERS = "lkrLKR"
LONGEST_LIKE = 512
"""Bytes of a LIKE pattern that a rule decides, at most: its loop may go back so far at each place of a text."""

BEGIN, LENGTH, RULE_RANK, PROGRAM = 0, 1, 2, 3
"""Columns of a rule: where its LIKE pattern begins, and its length; its rank; where its program begins, or -1."""
_RUN = re.compile(rb"[^%_\\]+")
_WORD = re.compile(rb"[A-Za-z0-9]+")


class PatternRules(NamedTuple):
    """The rules of a derived attribute."""

    table: np.ndarray  # int64[rules, 4]: the columns above
    programs: np.ndarray  # uint64
    keys: np.ndarray  # int64[keys, 4]: kind of trie, where the text begins, its length, and the rule
    always: np.ndarray  # int64[n, 2]: kind of trie, and the rule, of those that are decided for every text


def rule_fragment(pattern: Pattern) -> str | None:
    """The fragment of a whole pattern, or None if no rule decides it."""
    if isinstance(pattern, LikePattern | CaseFolded):
        text = like_text(pattern.segments)
        letter = SOME_LIKE if isinstance(pattern, LikePattern) else SOME_FOLDED_LIKE
        return text + letter if len(text.encode()) <= LONGEST_LIKE else None
    if isinstance(pattern, Regex) and program_of(pattern.regex) is not None:
        return pattern.regex + SOME_REGEX
    return None


def read_rules(dictionary: Mapping[str, np.ndarray], attr: int) -> PatternRules | None:
    """The rules among the constants of a derived attribute, or None. Tries of kinds 0 and 1 have ends and insides.

    Of the texts that a pattern wants, the one that the fewest patterns want is its key.
    """
    first, last = dictionary["string_start"][attr : attr + 2].tolist()
    offsets, data = dictionary["string_offset"], dictionary["string_bytes"]
    letters = data[offsets[first + 1 : last + 1] - 1]
    own = np.flatnonzero(np.isin(letters, np.frombuffer(RULE_LETTERS.encode(), np.uint8)))
    if not len(own):
        return None
    base = int(dictionary["rank_base"][attr, STRING])
    table = np.full((len(own), 4), -1, np.int64)
    table[:, BEGIN] = offsets[first + own]
    table[:, LENGTH] = offsets[first + own + 1] - table[:, BEGIN] - 1
    table[:, RULE_RANK] = base + 2 * own + 1
    programs: list[np.ndarray] = []
    used = 0
    wanted: list[list[list[tuple[int, int, int, bytes]]]] = []
    for number, (begin, length, letter) in enumerate(
        zip(table[:, BEGIN].tolist(), table[:, LENGTH].tolist(), letters[own].tolist(), strict=True)
    ):
        text = data[begin : begin + length].tobytes()
        if letter in b"rR":
            program = program_of(text.decode())
            assert program is not None
            programs.append(program)
            table[number, PROGRAM] = used
            used += len(program)
            wanted.append(_wanted_by_regex(text, begin))
        else:
            wanted.append([_wanted_by_like(text, begin, 2 * (letter in b"kK"))])
    return _with_keys(table, programs, wanted, letters[own])


def _wanted_by_like(text: bytes, begin: int, folded: int) -> list[tuple[int, int, int, bytes]]:
    """The texts that a LIKE pattern wants: kind of trie, begin, length and bytes. The last one may be at the end."""
    size = len(text)
    return [
        (folded + (found.end() < size), begin + found.start(), found.end() - found.start(), found[0])
        for found in _RUN.finditer(text)
    ]


def _wanted_by_regex(text: bytes, begin: int) -> list[list[tuple[int, int, int, bytes]]]:
    """For each alternative of an expression the texts that it wants, as they stand in it."""
    found = []
    for fragments in regex_fragments(text.decode()):
        words = [fragment.encode() for fragment in fragments]
        words = [part for word in words for part in ([word] if word in text else _WORD.findall(word))]
        found.append([(1, begin + text.index(word), len(word), word) for word in words])
    return found


def _with_keys(
    table: np.ndarray,
    programs: list[np.ndarray],
    wanted: list[list[list[tuple[int, int, int, bytes]]]],
    letters: np.ndarray,
) -> PatternRules:
    counts = Counter((one[0], one[3]) for rule in wanted for texts in rule for one in texts)
    keys: list[tuple[int, int, int, int]] = []
    always: list[tuple[int, int]] = []
    for number, rule in enumerate(wanted):
        if all(rule):
            best = [min(texts, key=lambda one: (counts[one[0], one[3]], -one[2])) for texts in rule]
            keys += [(kind, begin, length, number) for kind, begin, length, _ in best]
        else:
            always.append((3 if letters[number] in b"kK" else 1, number))
    return PatternRules(
        table,
        np.concatenate(programs) if programs else np.empty(0, np.uint64),
        np.array(keys, np.int64).reshape(-1, 4),
        np.array(always, np.int64).reshape(-1, 2),
    )
