"""What patterns look for: the pieces of text that a string must have, or must not have, to match.

A suffix and a substring are a piece and nothing else. Of LIKE with several wildcards and of regular expressions pieces
are only necessary: they find the filters that may match, which are then verified.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from whimbrel.engine.patterns.books import EVERY_END, EVERY_INSIDE, SOME_END, SOME_INSIDE
from whimbrel.model.constraint import Constraint
from whimbrel.model.intervals import ALL, STRINGS, IntervalSet
from whimbrel.model.patterns import Like, Pattern, Regex, Substring, Suffix

MOST = 4
"""Pieces of a pattern that are looked for where they are only necessary, the longest ones."""


class Looked(NamedTuple):
    """What the patterns of a constraint come to."""

    wanted: list[str]
    """Pieces that some value must have."""
    unwanted: list[str]
    """Pieces that not every value may have."""
    is_exact: bool
    """Whether that is all there is to them, if the attribute has one value."""
    is_joined: bool
    """Whether there is more to them if it has several."""


def look(constraint: Constraint) -> Looked:
    """The pieces of a constraint's patterns."""
    wanted: list[str] = []
    is_exact = True
    for pattern in constraint.include:
        pieces, exactly = _wanted(pattern, constraint.values)
        wanted += pieces
        is_exact = is_exact and exactly
    unwanted = [piece for pattern in constraint.exclude for piece in _unwanted(pattern)]
    is_exact = is_exact and len(unwanted) == len(constraint.exclude)
    anything = STRINGS if wanted else ALL
    tests = len(wanted) + len(unwanted) + (constraint.values != anything)
    return Looked(wanted, unwanted, is_exact, is_exact and tests > 1)


def _wanted(pattern: Pattern, values: IntervalSet) -> tuple[list[str], bool]:
    """The pieces of a pattern that must match a value of this set, and whether they say it all."""
    if isinstance(pattern, Suffix):
        return ([pattern.text + SOME_END] if pattern.text else []), True
    if isinstance(pattern, Substring):
        return ([pattern.text + SOME_INSIDE] if pattern.text else []), True
    if isinstance(pattern, Like):
        return _of_like(pattern, values)
    if isinstance(pattern, Regex):
        return [text + SOME_INSIDE for text in _longest(regex_pieces(pattern.regex))], False
    return [], False


def _unwanted(pattern: Pattern) -> list[str]:
    if isinstance(pattern, Suffix) and pattern.text:
        return [pattern.text + EVERY_END]
    if isinstance(pattern, Substring) and pattern.text:
        return [pattern.text + EVERY_INSIDE]
    return []


def _of_like(pattern: Like, values: IntervalSet) -> tuple[list[str], bool]:
    """The prefix is in the values already; with nothing but a suffix more, all is said unless the two may overlap."""
    texts = [text for segment in pattern.segments for text in segment]
    head, last = texts[0], texts[-1]
    if len(texts) == 2 and len(pattern.segments) == 2 and last and IntervalSet.prefix(head).covers(values):
        overlap = any(head.endswith(last[:size]) for size in range(1, min(len(head), len(last)) + 1))
        return [last + SOME_END], not overlap
    inside = _longest(texts[1:-1])
    return ([last + SOME_END] if last else []) + [text + SOME_INSIDE for text in inside], False


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


def regex_pieces(regex: str) -> list[str]:
    """Texts that every string has in which the expression is found; none where that is not simple to say.

    >>> regex_pieces(r"^GET /api/v\\d+/orders\\?id=(\\d+|none)$")
    ['GET /api/v', '/orders?id=']
    """
    pieces = [""]
    at = depth = 0
    while at < len(regex):
        found = _SIMPLE.match(regex, at)
        if found is None:  # an alternative, flags, a quotation, a class of characters by name, ...
            bar = regex.startswith("|", at) and depth > 0
            if not bar:
                return []
            at += 1
            continue
        kind, text = found.lastgroup, found[0]
        at = found.end()
        depth += (kind == "open") - (kind == "close")
        if depth > 0 or kind == "close":  # what is in parentheses may be one of several, or left out
            pieces.append("")
        elif kind in ("letter", "escaped"):
            pieces[-1] += text[-1]
        else:
            if kind == "again" and text != "+":
                pieces[-1] = pieces[-1][:-1]
            pieces.append("")
    return [piece for piece in pieces if piece]
