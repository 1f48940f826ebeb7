"""String patterns that are not intervals: suffix, substring, LIKE, ILIKE, regular expression, CIDR.

A LIKE pattern is reduced first (`parse_like`): without wildcards it is a point, with one % at the end a prefix,
which is an interval. Matching searches literal segments from left to right, so it never backtracks.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from typing import Protocol, TypeAlias

from whimbrel.model.errors import FilterError, MissingExtra
from whimbrel.model.intervals import IntervalSet
from whimbrel.model.limits import LIKE_BYTES, LIKE_WILDCARDS, REGEX_BYTES
from whimbrel.model.values import STRING

ADDRESS_LENGTH = 64
"""Characters of an address, at most; longer texts are none."""


class StringPattern:
    """A set of strings."""

    __slots__ = ()

    def matches(self, value: str) -> bool:
        """Whether the string is in the set."""
        raise NotImplementedError

    def covers(self, other: Pattern) -> bool:
        """Whether every string of other is surely in self (False may mean: not known)."""
        return self == other


@dataclass(frozen=True, slots=True, order=True)
class Suffix(StringPattern):
    """Strings that end with `text`."""

    text: str

    def matches(self, value: str) -> bool:
        return value.endswith(self.text)

    def covers(self, other: Pattern) -> bool:
        return isinstance(other, Suffix) and other.text.endswith(self.text)


@dataclass(frozen=True, slots=True, order=True)
class Substring(StringPattern):
    """Strings that have `text` somewhere."""

    text: str

    def matches(self, value: str) -> bool:
        return self.text in value

    def covers(self, other: Pattern) -> bool:
        if isinstance(other, Suffix | Substring):
            return self.text in other.text
        return isinstance(other, LikePattern) and any(
            self.text in fragment for segment in other.segments for fragment in segment
        )


@dataclass(frozen=True, slots=True, order=True)
class LikePattern(StringPattern):
    """A LIKE pattern: segments joined by %; within a segment, literal fragments joined by _ (one code point)."""

    segments: tuple[tuple[str, ...], ...]

    def matches(self, value: str) -> bool:
        """The first and last segment are anchored; each other segment is searched from the left."""
        first, *middle = self.segments
        if not middle:
            return _length(first) == len(value) and _fits(first, value, 0)
        *middle, last = middle
        start, end = _length(first), len(value) - _length(last)
        if start > end or not _fits(first, value, 0) or not _fits(last, value, end):
            return False
        for segment in middle:
            start = _find(segment, value, start, end)
            if start < 0:
                return False
        return True


@dataclass(frozen=True, slots=True, order=True)
class Regex(StringPattern):
    """Strings in which a regular expression is found, by a linear-time engine."""

    regex: str

    def __post_init__(self) -> None:
        REGEX_BYTES.check(len(self.regex.encode()))
        _compile(self.regex)

    def matches(self, value: str) -> bool:
        return _compile(self.regex).search(value) is not None


@dataclass(frozen=True, slots=True, order=True)
class Cidr(StringPattern):
    """Strings that are addresses of an IP network."""

    network: str
    parsed: ipaddress.IPv4Network | ipaddress.IPv6Network = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            parsed = ipaddress.ip_network(self.network, strict=False)
        except ValueError:
            raise FilterError(f"Expected an IP network such as 10.0.0.0/8, but got {self.network!r}") from None
        if "%" in self.network:
            raise FilterError(f"Expected an IP network without a zone, but got {self.network!r}")
        object.__setattr__(self, "network", str(parsed))
        object.__setattr__(self, "parsed", parsed)

    def matches(self, value: str) -> bool:
        if len(value) > ADDRESS_LENGTH:
            return False
        try:
            return ipaddress.ip_address(value) in self.parsed
        except ValueError:
            return False

    def covers(self, other: Pattern) -> bool:
        if not isinstance(other, Cidr) or self.parsed.version != other.parsed.version:
            return False
        inner, outer = other.parsed, self.parsed
        return outer.network_address <= inner.network_address and inner.broadcast_address <= outer.broadcast_address  # type: ignore[operator]


@dataclass(frozen=True, slots=True, order=True)
class CaseFolded(StringPattern):
    """Strings whose lower case matches a LIKE pattern with these segments, which are in lower case."""

    segments: tuple[tuple[str, ...], ...]

    def matches(self, value: str) -> bool:
        return LikePattern(self.segments).matches(lower_case(value))


Pattern: TypeAlias = Suffix | Substring | LikePattern | CaseFolded | Regex | Cidr


def lower_case(text: str) -> str:
    """The text in lower case, code point by code point, so that what a text contains its lower case contains too.

    This is the simple mapping of Unicode. `str.lower` looks at what is around a sigma, and makes two of one capital I
    with a dot.

    >>> lower_case("ΟΔΟΣ İ"), "ΟΔΟΣ İ".lower()
    ('οδοσ i', 'οδος i̇')
    """
    if text.isascii() or not ("Σ" in text or "İ" in text):
        return text.lower()
    return "".join("i" if letter == "İ" else letter.lower() for letter in text)


def is_lower_case(text: str) -> bool:
    """Whether no letter has another one as its lower case."""
    return lower_case(text) == text


def upper_case(text: str) -> str:
    """The text in upper case, code point by code point; a letter that would become several stays.

    >>> upper_case("straße")
    'STRAßE'
    """
    if text.isascii():
        return text.upper()
    return "".join(upper if len(upper := letter.upper()) == 1 else letter for letter in text)


def is_upper_case(text: str) -> bool:
    """Whether no letter has another one as its upper case."""
    return upper_case(text) == text


def pattern_key(pattern: Pattern) -> tuple[str, str]:
    """A key to sort patterns of all kinds."""
    return type(pattern).__name__, repr(pattern)


def parse_like(pattern: str, escape: str = "\\") -> tuple[IntervalSet, Pattern | None]:
    """The set of strings that LIKE accepts, as an interval set and, where that is not exact, a pattern too.

    >>> parse_like("%.txt")[1]
    Suffix(text='.txt')
    """
    return _reduce(_like_segments(pattern, escape))


def parse_ilike(pattern: str, escape: str = "\\") -> tuple[IntervalSet, Pattern | None]:
    """Parse a pattern of ILIKE: as `parse_like`, but case does not count.

    >>> parse_ilike("%.TXT")[1]
    CaseFolded(segments=(('',), ('.txt',)))
    """
    segments = _like_segments(pattern, escape)
    if not any(text for segment in segments for text in segment):
        return _reduce(segments)
    return IntervalSet.prefix(""), CaseFolded(tuple(tuple(map(lower_case, segment)) for segment in segments))


def _like_segments(pattern: str, escape: str) -> tuple[tuple[str, ...], ...]:
    LIKE_BYTES.check(len(pattern.encode()))
    segments: list[list[str]] = [[""]]
    wildcards, characters = 0, iter(pattern)
    for character in characters:
        if escape and character == escape:
            following = next(characters, None)
            if following is None:
                raise FilterError(f"Expected a character after the escape {escape!r} of LIKE {pattern!r}")
            segments[-1][-1] += following
        elif character == "%":
            wildcards += 1
            segments.append([""])
        elif character == "_":
            wildcards += 1
            segments[-1].append("")
        else:
            segments[-1][-1] += character
    LIKE_WILDCARDS.check(wildcards)
    return _canonical(segments)


def plain_like(text: str) -> str:
    """The LIKE pattern of exactly this text.

    >>> plain_like("5%")
    '5\\\\%'
    """
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def like_text(segments: tuple[tuple[str, ...], ...]) -> str:
    """The LIKE pattern of segments, with the escape \\."""
    return "%".join("_".join(map(plain_like, segment)) for segment in segments)


def _canonical(segments: list[list[str]]) -> tuple[tuple[str, ...], ...]:
    """Move every _ that touches a % to the segment before, and drop segments that are empty between two %."""
    out: list[list[str]] = [segments[0]]
    for segment in segments[1:]:
        fragments = list(segment)
        if len(out) > 1 and out[-1] == [""]:  # %% is %
            out.pop()
        while len(fragments) > 1 and not fragments[0]:  # %_x is _%x
            fragments.pop(0)
            out[-1].append("")
        out.append(fragments)
    return tuple(tuple(segment) for segment in out)


def _reduce(segments: tuple[tuple[str, ...], ...]) -> tuple[IntervalSet, Pattern | None]:
    head = segments[0][0]
    if len(segments) == 1:
        if len(segments[0]) == 1:
            return IntervalSet.points([(STRING, head)]), None
        return IntervalSet.prefix(head), LikePattern(segments)
    if all(len(segment) == 1 for segment in segments):
        texts = [segment[0] for segment in segments]
        if len(texts) == 2 and not texts[1]:
            return IntervalSet.prefix(head), None
        if len(texts) == 2 and not head:
            return IntervalSet.prefix(""), Suffix(texts[1])
        if len(texts) == 3 and not head and not texts[2]:
            return IntervalSet.prefix(""), Substring(texts[1])
    return IntervalSet.prefix(head), LikePattern(segments)


def _length(segment: tuple[str, ...]) -> int:
    return sum(map(len, segment)) + len(segment) - 1


def _fits(segment: tuple[str, ...], value: str, at: int) -> bool:
    for fragment in segment:
        if not value.startswith(fragment, at):
            return False
        at += len(fragment) + 1
    return True


def _find(segment: tuple[str, ...], value: str, start: int, end: int) -> int:
    """The end of the leftmost occurrence of the segment within value[start:end], or -1."""
    first, length = segment[0], _length(segment)
    while True:
        at = value.find(first, start, end)
        if at < 0 or at + length > end:
            return -1
        if len(segment) == 1 or _fits(segment, value, at):
            return at + length
        start = at + 1


def has_regexes() -> bool:
    """Whether the engine of regular expressions is installed."""
    return find_spec("re2") is not None


class _Compiled(Protocol):
    def search(self, text: str) -> object: ...


@lru_cache(maxsize=4_096)
def _compile(regex: str) -> _Compiled:
    try:
        import re2  # optional: only filters with RLIKE need it
    except ImportError:
        raise MissingExtra("google-re2", "regex") from None
    options = re2.Options()
    options.log_errors = False  # a bad pattern is an error of ours, not a line on stderr
    try:
        compiled: _Compiled = re2.compile(regex, options)
        return compiled
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
        raise FilterError(f"Expected a regular expression, but got {regex!r}: {reason}") from None
