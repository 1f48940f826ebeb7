"""Finds the fragments of a pattern: texts that a string must have, or must not have, to match.

A suffix, a substring or a network is one fragment, which decides the pattern. Most other patterns are one fragment as a
whole (`pattern_rules`). For patterns that no rule decides, fragments are only necessary: they find the filters that may
match, which are then verified.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from whimbrel.compiled.regex_programs import program_sizes
from whimbrel.model.constraint import Constraint
from whimbrel.model.intervals import ALL, STRINGS, IntervalSet
from whimbrel.model.limits import REGEX_BYTES
from whimbrel.model.patterns import (
    CaseFolded,
    Cidr,
    LikePattern,
    Pattern,
    Regex,
    Substring,
    Suffix,
    lower_case,
    parse_ilike,
    parse_like,
)
from whimbrel.ranks.patterns.networks import SOME_NETWORK, fragment_of
from whimbrel.ranks.patterns.pattern_rules import LONGEST_LIKE, SOME_FOLDED_LIKE, SOME_LIKE, SOME_REGEX, rule_fragment
from whimbrel.ranks.patterns.pattern_trie import (
    FOLDED_START,
    SOME_END,
    SOME_FOLDED_END,
    SOME_FOLDED_INSIDE,
    SOME_INSIDE,
)

_PLAIN = re.compile(r"[\w \-/:;,<>=&%#@!~\"']+", re.ASCII).fullmatch
"""Matches a regular expression that is a plain text."""
_PART = re.compile(
    r"""(?P<escaped>\\[^A-Za-z0-9])      # a sign by itself
      | (?P<class>\\[dDwWsSbBAznrtfva])  # one character, or a place
      | (?P<set>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])
      | (?P<again>[*+?]|\{\d+(?:,\d*)?\})
      | (?P<open>\((?:\?(?::|P?<\w+>)|(?!\?)))
      | (?P<close>\))
      | (?P<place>[\^$.])
      | (?P<text>[^\\\[\](){}*+?|^$.]+(?![*+?{]))  # letters, of which none is repeated
      | (?P<letter>[^\\\[\](){}*+?|^$.])""",
    re.VERBOSE | re.DOTALL,
)
"""The parts of a regular expression; flags, quotations and named classes match none."""
_IS_LEFT_OUT = re.compile(r"[*?{]").match
"""Matches a sign after which the part before it may be absent, or repeated in a way that is not analysed."""
_DEPTH = 32
"""Groups in groups, at most, that are analysed."""
_FLAGS = re.compile(r"\(\?([ims]+)\)").match
_FOLDED_ALIKE = re.compile(r"[^kKsS\u0080-\U0010ffff]+").findall
"""Finds texts without characters that RE2 equates with others of another lower case: k and s have such equals."""
MOST = 4
"""Necessary fragments of a pattern, at most: the longest ones are used."""
_ENDS = {"suffix": SOME_END, "substring": SOME_INSIDE, "network": SOME_NETWORK, "like": SOME_LIKE}
PATTERN_TERMS = frozenset((*_ENDS, "ilike", "regex"))
"""The kinds of terms that are patterns."""


class PatternFragments(NamedTuple):
    """The fragments of all patterns of a constraint."""

    wanted: list[tuple[str, ...]]
    """Groups of fragments: some value must have a fragment of each group."""
    unwanted: list[str]
    """Fragments that some value must lack."""
    is_exact: bool
    """Whether the fragments decide the patterns of an attribute that has one value."""
    is_joined: bool
    """Whether several tests must hold for the same value: then fragments do not decide an event with several values."""
    values: IntervalSet
    """The set that the wanted fragments imply."""


def fragments_of(constraint: Constraint) -> PatternFragments:
    """The fragments of a constraint's patterns."""
    wanted: list[tuple[str, ...]] = []
    is_exact = True
    implied = ALL
    for pattern in constraint.include:
        fragment = deciding_fragment(pattern)
        groups = [(fragment,)] if fragment is not None else _necessary(pattern)
        wanted += groups
        is_exact = is_exact and (fragment is not None or pattern in _ALL_STRINGS)
        if groups:
            implied = implied.intersect(_prefixed(pattern) if fragment is not None else STRINGS)
    found = map(deciding_fragment, constraint.exclude)
    unwanted = [every_fragment(fragment) for fragment in found if fragment is not None]
    is_exact = is_exact and len(unwanted) == len(constraint.exclude)
    tests = len(wanted) + len(unwanted) + (constraint.values != implied)
    return PatternFragments(wanted, unwanted, is_exact, is_exact and tests > 1, implied)


_ALL_STRINGS = (Suffix(""), Substring(""))


def deciding_fragment(pattern: Pattern) -> str | None:
    """The fragment that decides a pattern: a string matches if and only if it has it. None if there is none."""
    if isinstance(pattern, Suffix):
        return pattern.text + SOME_END if pattern.text else None
    if isinstance(pattern, Substring):
        return pattern.text + SOME_INSIDE if pattern.text else None
    if isinstance(pattern, Cidr):
        return fragment_of(pattern.network) + SOME_NETWORK
    if isinstance(pattern, CaseFolded):
        return _folded_fragment(pattern) or rule_fragment(pattern)
    if isinstance(pattern, Regex):
        return deciding_fragments([pattern.regex])[0]
    return rule_fragment(pattern)


def deciding_fragments(regexes: Sequence[str]) -> list[str | None]:
    """The deciding fragment of each regular expression that is a plain text or has a program; None for others."""
    words, _ = program_sizes(regexes, REGEX_BYTES.value)
    return [
        regex + SOME_INSIDE if _PLAIN(regex) else regex + SOME_REGEX if size > 0 else None
        for regex, size in zip(regexes, words.tolist(), strict=True)
    ]


def deciding_texts(kind: str, texts: list[str]) -> list[str | None]:
    """The deciding fragment of each pattern, given by the kind of its term and its text; None if there is none."""
    return deciding_fragments(texts) if kind == "regex" else [_deciding_text(kind, text) for text in texts]


def _deciding_text(kind: str, text: str) -> str | None:
    if kind in _ENDS:
        if kind == "like" and len(text) > LONGEST_LIKE // 4 and len(text.encode()) > LONGEST_LIKE:
            return None
        return (fragment_of(text) if kind == "network" else text) + _ENDS[kind]
    lower = lower_case(text)
    if "\\" not in text and len(lower.encode()) <= LONGEST_LIKE:
        found = folded_fragment(lower.split("%")) if "_" not in text else None
        return found if found is not None else lower + SOME_FOLDED_LIKE
    return deciding_fragment(_like_pattern(kind, text))


def necessary_texts(kind: str, text: str) -> list[tuple[str, ...]]:
    """The groups of fragments that a string needs to match a pattern, given by the kind of its term and its text."""
    if kind == "regex":
        return necessary_fragments(text)
    return fragments_of(Constraint(values=STRINGS, include=(_like_pattern(kind, text),))).wanted


def _like_pattern(kind: str, text: str) -> Pattern:
    """The pattern of LIKE or ILIKE."""
    pattern = (parse_like if kind == "like" else parse_ilike)(text)[1]
    assert pattern is not None
    return pattern


def every_fragment(fragment: str) -> str:
    """The same fragment of the kind `every`."""
    return fragment[:-1] + fragment[-1].upper()


def _prefixed(pattern: Pattern) -> IntervalSet:
    """The strings with the prefix of a pattern."""
    return IntervalSet.prefix(pattern.segments[0][0]) if isinstance(pattern, LikePattern) else STRINGS


def _folded_fragment(pattern: CaseFolded) -> str | None:
    texts = [text for segment in pattern.segments for text in segment]
    return folded_fragment(texts) if len(texts) == len(pattern.segments) else None


def folded_fragment(texts: Sequence[str]) -> str | None:
    """The fragment of a pattern of texts with % between them, if all but one are empty; else None.

    The texts are in lower case. A text at the beginning of a value is looked for behind `FOLDED_START`.
    """
    if len(texts) == 1:
        return FOLDED_START + texts[0] + SOME_FOLDED_END
    if sum(map(bool, texts)) > 1:
        return None
    if texts[-1]:
        return texts[-1] + SOME_FOLDED_END
    return (FOLDED_START + texts[0] if texts[0] else max(texts)) + SOME_FOLDED_INSIDE


def _necessary(pattern: Pattern) -> list[tuple[str, ...]]:
    """The fragments that a string must have to match a pattern that no fragment decides."""
    if isinstance(pattern, LikePattern | CaseFolded):
        is_plain = isinstance(pattern, LikePattern)
        texts = [text for segment in pattern.segments for text in segment]
        end = [(texts[-1] + (SOME_END if is_plain else SOME_FOLDED_END),)] if texts[-1] else []
        return [*end, *((text + (SOME_INSIDE if is_plain else SOME_FOLDED_INSIDE),) for text in _longest(texts[:-1]))]
    return necessary_fragments(pattern.regex) if isinstance(pattern, Regex) else []


def necessary_fragments(regex: str) -> list[tuple[str, ...]]:
    """The longest fragments that every match of a regular expression contains.

    For several alternatives it is one group, of the longest fragment of each, if each has one. With the flag i,
    fragments are looked for in the lower case.

    >>> necessary_fragments(r"(?i)^/API/orders\\?id=")
    [('/api/orderg',), ('?id=g',)]
    """
    flags = _FLAGS(regex)
    found = regex_fragments(regex[flags.end() :] if flags else regex)
    letter = SOME_INSIDE
    if flags and "i" in flags[1]:
        found = [[part.lower() for text in texts for part in _FOLDED_ALIKE(text)] for texts in found]
        letter = SOME_FOLDED_INSIDE
    alternatives = [_longest(texts) for texts in found]
    if len(alternatives) == 1:
        return [(text + letter,) for text in alternatives[0]]
    return [tuple(dict.fromkeys(texts[0] + letter for texts in alternatives))] if all(alternatives) else []


def _longest(texts: list[str]) -> list[str]:
    """The longest texts, longest first, without those that others contain."""
    kept: list[str] = []
    for text in sorted(set(texts), key=lambda text: (-len(text), text)):
        if text and len(kept) < MOST and not any(text in other for other in kept):
            kept.append(text)
    return kept


def regex_fragments(regex: str) -> list[list[str]]:
    """For each alternative of a regular expression, texts that every match contains; none if that is hard to tell.

    >>> regex_fragments(r"^GET /api/v\\d+/orders\\?id=(\\d+|none)$|POST")
    [['GET /api/v', '/orders?id='], ['POST']]
    >>> regex_fragments("/(orders|users)/")
    [['orders'], ['users']]
    """
    found, _ = _alternatives(regex, 0, 0)
    return [[]] if found is None else found


def _alternatives(regex: str, at: int, depth: int) -> tuple[list[list[str]] | None, int]:
    """The texts of each alternative from `at` to the end of the group, or None if hard to tell; and the end."""
    alternatives: list[list[str]] = []
    fragments, groups = [""], list[list[list[str]]]()
    while at < len(regex) and regex[at] != ")":
        if regex[at] == "|":
            alternatives += _joined(fragments, groups)
            fragments, groups = [""], []
            at += 1
            continue
        found = _PART.match(regex, at)
        if found is None or depth > _DEPTH:  # flags, a quotation, a class of characters by name, ...
            return None, at
        kind, text = found.lastgroup, found[0]
        at = found.end()
        if kind == "open":
            inner, at = _alternatives(regex, at, depth + 1)
            if inner is None:
                return None, at
            at += 1
            if _IS_LEFT_OUT(regex, at) is None:
                groups.append(inner)
            fragments.append("")
        elif kind in ("text", "letter", "escaped"):
            fragments[-1] += text if kind == "text" else text[-1]
        else:
            if kind == "again" and text != "+":
                fragments[-1] = fragments[-1][:-1]
            fragments.append("")
    return alternatives + _joined(fragments, groups), at


def _joined(fragments: list[str], groups: list[list[list[str]]]) -> list[list[str]]:
    """The alternatives of a part of an expression: its own texts, or those of a group if these are longer."""
    texts = [text for text in fragments if text]
    for group in groups:
        texts += group[0] if len(group) == 1 else []
    several = [group for group in groups if len(group) > 1 and all(group)]
    best = max(several, key=_shortest, default=None)
    return [texts] if best is None or _shortest(best) <= max(map(len, texts), default=0) else best


def _shortest(group: list[list[str]]) -> int:
    """The least, over all alternatives, of the length of the longest text."""
    return min(max(map(len, texts)) for texts in group)
