"""The fragments of a pattern: texts that a string must have, or must not have, to match.

A suffix, a substring or a network is one fragment, which decides the pattern. For LIKE with several wildcards and for
regular expressions fragments are only necessary: they find the filters that may match, which are then verified.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from whimbrel.model.constraint import Constraint
from whimbrel.model.intervals import ALL, STRINGS, IntervalSet
from whimbrel.model.patterns import CaseFolded, Cidr, LikePattern, Pattern, Substring, Suffix
from whimbrel.ranks.patterns.networks import EVERY_NETWORK, SOME_NETWORK, network_fragment
from whimbrel.ranks.patterns.pattern_trie import (
    EVERY_END,
    EVERY_INSIDE,
    FOLDED_START,
    SOME_END,
    SOME_FOLDED_END,
    SOME_FOLDED_INSIDE,
    SOME_INSIDE,
)

MOST = 4
"""Most fragments of a pattern where they are only necessary: the longest ones are used."""


class PatternFragments(NamedTuple):
    """The fragments of all patterns of a constraint."""

    wanted: list[tuple[str, ...]]
    """For each of these groups some value must have one of the fragments."""
    unwanted: list[str]
    """Fragments that not every value may have."""
    is_exact: bool
    """Whether the fragments decide the patterns of an attribute that has one value."""
    is_joined: bool
    """Whether several tests want the same value, so that fragments do not decide where there are several values."""


def fragments_of(constraint: Constraint) -> PatternFragments:
    """The fragments of a constraint's patterns."""
    wanted: list[tuple[str, ...]] = []
    is_exact = True
    for pattern in constraint.include:
        fragments, exactly = _wanted(pattern, constraint.values)
        wanted += fragments
        is_exact = is_exact and exactly
    unwanted = [fragment for pattern in constraint.exclude for fragment in _unwanted(pattern)]
    is_exact = is_exact and len(unwanted) == len(constraint.exclude)
    anything = STRINGS if wanted else ALL
    tests = len(wanted) + len(unwanted) + (constraint.values != anything)
    return PatternFragments(wanted, unwanted, is_exact, is_exact and tests > 1)


def _wanted(pattern: Pattern, values: IntervalSet) -> tuple[list[tuple[str, ...]], bool]:
    """The fragments of a pattern that a value of this set must match, and whether they decide it."""
    if isinstance(pattern, Suffix):
        return ([(pattern.text + SOME_END,)] if pattern.text else []), True
    if isinstance(pattern, Substring):
        return ([(pattern.text + SOME_INSIDE,)] if pattern.text else []), True
    if isinstance(pattern, Cidr):
        return [(network_fragment(pattern) + SOME_NETWORK,)], True
    if isinstance(pattern, LikePattern):
        return _of_like(pattern, values)
    if isinstance(pattern, CaseFolded):
        return _of_folded(pattern)
    return _of_regex(pattern.regex), False


def _unwanted(pattern: Pattern) -> list[str]:
    if isinstance(pattern, Suffix) and pattern.text:
        return [pattern.text + EVERY_END]
    if isinstance(pattern, Substring) and pattern.text:
        return [pattern.text + EVERY_INSIDE]
    if isinstance(pattern, Cidr):
        return [network_fragment(pattern) + EVERY_NETWORK]
    if isinstance(pattern, CaseFolded):
        groups, is_exact = _of_folded(pattern)
        return [groups[0][0][:-1] + groups[0][0][-1].upper()] if is_exact and len(groups) == 1 else []
    return []


def _of_like(pattern: LikePattern, values: IntervalSet) -> tuple[list[tuple[str, ...]], bool]:
    """The set of values has the prefix already. A suffix decides the rest, unless it may overlap the prefix."""
    texts = [text for segment in pattern.segments for text in segment]
    head, last = texts[0], texts[-1]
    if len(texts) == 2 and len(pattern.segments) == 2 and last and IntervalSet.prefix(head).covers(values):
        return [(last + SOME_END,)], not _overlap(head, last)
    inside = _longest(texts[1:-1])
    end: list[tuple[str, ...]] = [(last + SOME_END,)] if last else []
    return end + [(text + SOME_INSIDE,) for text in inside], False


def _overlap(head: str, last: str) -> bool:
    """Whether a text may begin with `head` and end with `last` without room for both."""
    return any(head.endswith(last[:size]) for size in range(1, min(len(head), len(last)) + 1))


def _of_folded(pattern: CaseFolded) -> tuple[list[tuple[str, ...]], bool]:
    """What begins a text is looked for behind its start. One fragment decides a pattern that has no other text."""
    texts = [text for segment in pattern.segments for text in segment]
    if len(texts) == 1:
        return [(FOLDED_START + texts[0] + SOME_FOLDED_END,)], True
    first, last = texts[0], texts[-1]
    inside = ([FOLDED_START + first] if first else []) + _longest(texts[1:-1])
    end = [last + SOME_FOLDED_END] if last else []
    fragments = end + [text + SOME_FOLDED_INSIDE for text in inside]
    is_plain = all(len(segment) == 1 for segment in pattern.segments)
    is_exact = is_plain and len(fragments) == 1 == sum(map(bool, texts))
    if is_plain and len(texts) == 2 and not _overlap(first, last):
        is_exact = True
    return [(fragment,) for fragment in fragments], is_exact


def _of_regex(regex: str) -> list[tuple[str, ...]]:
    """The longest fragments; of several alternatives the longest fragment of each, if each of them has one."""
    alternatives = [_longest(fragments) for fragments in regex_fragments(regex)]
    if len(alternatives) == 1:
        return [(text + SOME_INSIDE,) for text in alternatives[0]]
    return [tuple(dict.fromkeys(texts[0] + SOME_INSIDE for texts in alternatives))] if all(alternatives) else []


def _longest(texts: list[str]) -> list[str]:
    """The longest texts, longest first, without those that others contain."""
    kept: list[str] = []
    for text in sorted(set(texts), key=lambda text: (-len(text), text)):
        if text and len(kept) < MOST and not any(text in other for other in kept):
            kept.append(text)
    return kept


_SIMPLE = re.compile(
    r"""(?P<escaped>\\[^A-Za-z0-9])      # a sign by itself
      | (?P<class>\\[dDwWsSbBAznrtfva])  # one character, or a place
      | (?P<set>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])
      | (?P<again>[*+?]|\{\d+(?:,\d*)?\})
      | (?P<open>\((?:\?(?::|P?<\w+>)|(?!\?)))
      | (?P<close>\))
      | (?P<place>[\^$.])
      | (?P<letter>[^\\\[\](){}*+?|^$.])""",
    re.VERBOSE | re.DOTALL,
)


def regex_fragments(regex: str) -> list[list[str]]:
    """For each alternative of a regular expression, texts that every match contains; none where that is hard to tell.

    >>> regex_fragments(r"^GET /api/v\\d+/orders\\?id=(\\d+|none)$|POST")
    [['GET /api/v', '/orders?id='], ['POST']]
    """
    alternatives = [[""]]
    at = depth = 0
    while at < len(regex):
        fragments = alternatives[-1]
        if regex[at] == "|":
            if depth == 0:
                alternatives.append([""])
            at += 1
            continue
        found = _SIMPLE.match(regex, at)
        if found is None:  # flags, a quotation, a class of characters by name, ...
            return [[]]
        kind, text = found.lastgroup, found[0]
        at = found.end()
        depth += (kind == "open") - (kind == "close")
        if depth > 0 or kind == "close":  # what is in parentheses may be one of several, or left out
            fragments.append("")
        elif kind in ("letter", "escaped"):
            fragments[-1] += text[-1]
        else:
            if kind == "again" and text != "+":
                fragments[-1] = fragments[-1][:-1]
            fragments.append("")
    return [[fragment for fragment in fragments if fragment] for fragments in alternatives]
