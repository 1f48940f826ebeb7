"""What patterns look for: the fragments of text that a string must have, or must not have, to match.

A suffix, a substring and a network are a fragment and nothing else. Of LIKE with several wildcards and of regular
expressions fragments are only necessary: they find the filters that may match, which are then verified.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from whimbrel.model.constraint import Constraint
from whimbrel.model.intervals import ALL, STRINGS, IntervalSet
from whimbrel.model.patterns import Cidr, LikePattern, Pattern, Substring, Suffix
from whimbrel.ranks.patterns.networks import EVERY_NETWORK, SOME_NETWORK, network_fragment
from whimbrel.ranks.patterns.pattern_trie import EVERY_END, EVERY_INSIDE, SOME_END, SOME_INSIDE

MOST = 4
"""Pieces of a pattern that are looked for where they are only necessary, the longest ones."""


class PatternFragments(NamedTuple):
    """What the patterns of a constraint come to."""

    wanted: list[tuple[str, ...]]
    """Pieces of which some value must have one, for each of these."""
    unwanted: list[str]
    """Pieces that not every value may have."""
    is_exact: bool
    """Whether that is all there is to them, if the attribute has one value."""
    is_joined: bool
    """Whether there is more to them if it has several."""


def look(constraint: Constraint) -> PatternFragments:
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
    """The fragments of a pattern that must match a value of this set, and whether they say it all."""
    if isinstance(pattern, Suffix):
        return ([(pattern.text + SOME_END,)] if pattern.text else []), True
    if isinstance(pattern, Substring):
        return ([(pattern.text + SOME_INSIDE,)] if pattern.text else []), True
    if isinstance(pattern, Cidr):
        return [(network_fragment(pattern) + SOME_NETWORK,)], True
    if isinstance(pattern, LikePattern):
        return _of_like(pattern, values)
    return _of_regex(pattern.regex), False


def _unwanted(pattern: Pattern) -> list[str]:
    if isinstance(pattern, Suffix) and pattern.text:
        return [pattern.text + EVERY_END]
    if isinstance(pattern, Substring) and pattern.text:
        return [pattern.text + EVERY_INSIDE]
    if isinstance(pattern, Cidr):
        return [network_fragment(pattern) + EVERY_NETWORK]
    return []


def _of_like(pattern: LikePattern, values: IntervalSet) -> tuple[list[tuple[str, ...]], bool]:
    """The prefix is in the values already; with nothing but a suffix more, all is said unless the two may overlap."""
    texts = [text for segment in pattern.segments for text in segment]
    head, last = texts[0], texts[-1]
    if len(texts) == 2 and len(pattern.segments) == 2 and last and IntervalSet.prefix(head).covers(values):
        overlap = any(head.endswith(last[:size]) for size in range(1, min(len(head), len(last)) + 1))
        return [(last + SOME_END,)], not overlap
    inside = _longest(texts[1:-1])
    end: list[tuple[str, ...]] = [(last + SOME_END,)] if last else []
    return end + [(text + SOME_INSIDE,) for text in inside], False


def _of_regex(regex: str) -> list[tuple[str, ...]]:
    """The longest fragments; of several alternatives the longest of each, if every one has any."""
    alternatives = [_longest(fragments) for fragments in regex_fragments(regex)]
    if len(alternatives) == 1:
        return [(text + SOME_INSIDE,) for text in alternatives[0]]
    return [tuple(dict.fromkeys(texts[0] + SOME_INSIDE for texts in alternatives))] if all(alternatives) else []


def _longest(texts: list[str]) -> list[str]:
    """The longest of the texts, in one order, without those that are inside of others."""
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
    """Of each alternative, texts that every string has in which it is found; none where that is not simple to say.

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
