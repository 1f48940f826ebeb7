"""Reads the text after LIKE, STARTS WITH, lower(a) = and so on: returns the kind of term, and the text to look for."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from whimbrel.compiled.regex_programs import program_sizes
from whimbrel.language.columnar.terms import Kind
from whimbrel.language.sql.template import Case, TextOperator
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.limits import LIKE_BYTES, LIKE_WILDCARDS, REGEX_BYTES
from whimbrel.model.patterns import (
    CaseFolded,
    Cidr,
    LikePattern,
    Regex,
    Substring,
    Suffix,
    has_regexes,
    is_lower_case,
    is_upper_case,
    like_text,
    parse_ilike,
    parse_like,
    plain_like,
)

_LONG = LIKE_BYTES.value // 4
"""A LIKE pattern of so many characters has not too many bytes; the parser checks longer ones."""
ReadText: TypeAlias = tuple[Kind | None, str]
_PART = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_PART}\.{_PART}\.{_PART}\.{_PART}/(3[0-2]|[12]?[0-9])").fullmatch
_IPV6 = re.compile(r"[0-9a-f:]+/(12[0-8]|1[01][0-9]|[1-9]?[0-9])").fullmatch


class PatternReader(NamedTuple):
    """Reads the texts of one operator; `case` is the case of lower(), upper() or ILIKE, which ignore case."""

    operator: TextOperator
    case: Case | None

    def read_all(self, texts: Sequence[str], escape: str = "\\") -> list[ReadText]:
        """Read many texts. Regular expressions that RE2 surely accepts are not compiled."""
        if self.operator != "RLIKE" or not has_regexes():
            return [self.read(text, escape) for text in texts]
        _, is_good = program_sizes(texts, REGEX_BYTES.value)
        return [("regex", text) if good else self.read(text) for text, good in zip(texts, is_good, strict=True)]

    def read(self, text: str, escape: str = "\\") -> ReadText:
        """The kind and text of a term: `never` if no value fits, None if the parser must read it."""
        try:
            return self._folded(text, escape) if self.case is not None else self._plain(text, escape)
        except WhimbrelError:
            return None, ""

    def _folded(self, text: str, escape: str) -> ReadText:
        if (self.case == "lower" and not is_lower_case(text)) or (self.case == "upper" and not is_upper_case(text)):
            return "never", ""
        if self.operator != "LIKE":
            plain, escape = plain_like(text), "\\"
            before, after = self.operator in ("ENDS", "INSIDE"), self.operator in ("STARTS", "INSIDE")
            text = f"{'%' * before}{plain}{'%' * after}"
        wildcards = text.count("%") + text.count("_")
        is_plain = escape == "\\" and "\\" not in text and wildcards < min(len(text), LIKE_WILDCARDS.value)
        if is_plain and len(text) <= _LONG:
            return "ilike", text
        values, pattern = parse_ilike(text, escape)
        if pattern is None:  # no letter at all
            points = values.as_points()
            return ("like", "%") if points is None else ("points", "")
        if isinstance(pattern, LikePattern):
            return "like", like_text(pattern.segments)
        assert isinstance(pattern, CaseFolded)
        if escape == "\\":
            return "ilike", text
        text = like_text(pattern.segments)
        return ("ilike", text) if len(text) <= _LONG else (None, "")  # with more escapes it may have too many bytes

    def _plain(self, text: str, escape: str) -> ReadText:
        if self.operator == "LIKE":
            return _like(text, escape)
        if self.operator == "STARTS":
            return _prefix(text)
        if self.operator == "CIDR":
            return "network", _network(text)
        if self.operator == "RLIKE":
            return "regex", Regex(text).regex
        if self.operator == "INSIDE" and len(text) + 2 > _LONG:
            return None, ""
        if not text:
            return "like", "%"
        return ("suffix" if self.operator == "ENDS" else "substring"), text


def _like(pattern: str, escape: str) -> ReadText:
    """Read a LIKE pattern: as prefix, suffix, substring or text if it has wildcards only at its ends."""
    text = pattern.strip("%")
    wildcards = pattern.count("%") + pattern.count("_")
    if len(pattern) > _LONG or wildcards > LIKE_WILDCARDS.value:
        return None, ""
    if not text or escape != "\\" or "\\" in pattern:
        return _quick_escaped(pattern, escape) or _escaped_like(pattern, escape)
    if "%" in text or "_" in text:
        return "like", pattern
    if pattern[0] == "%":
        return ("substring" if pattern[-1] == "%" else "suffix"), text
    return _prefix(text) if pattern[-1] == "%" else ("points", text)


def _quick_escaped(pattern: str, escape: str) -> ReadText | None:
    """Read a pattern with escapes if only its ends, which are not escaped, have wildcards; else None."""
    text = pattern.removeprefix("%").removesuffix("%")
    if not escape or not text or escape in "%_" or text[-1] == escape:
        return None
    parts = text.split(escape)
    if "" in parts[1:] or any("%" in part[1:] or "_" in part[1:] for part in parts[1:]) or set("%_") & set(parts[0]):
        return None
    text = "".join(parts)
    if pattern[0] == "%":
        return ("substring" if pattern[-1] == "%" else "suffix"), text
    return _prefix(text) if pattern[-1] == "%" else ("points", text)


def _escaped_like(text: str, escape: str) -> ReadText:
    """Read any LIKE pattern, as `_like` does, but many times slower."""
    values, pattern = parse_like(text, escape)
    if isinstance(pattern, Suffix):
        return "suffix", pattern.text
    if isinstance(pattern, Substring):
        return "substring", pattern.text
    if isinstance(pattern, LikePattern):
        return "like", like_text(pattern.segments)
    points = values.as_points()
    if points is not None:
        return "points", str(points[0][1])
    _, _, value, is_above = values.cuts[0]
    return _prefix(f"{value or ''}{chr(0) * is_above}")


def _prefix(text: str) -> ReadText:
    """Read a prefix; one that ends in the first or last code point is a LIKE: no plain string ends its range."""
    return ("like", f"{plain_like(text)}%") if not text or text[-1] in "\0\U0010ffff" else ("prefix", text)


def _network(text: str) -> str:
    """A network in its canonical form."""
    found = _IPV4(text)
    if found is not None:
        one, two, three, four, length = map(int, found.groups())
        if (one << 24 | two << 16 | three << 8 | four) & (0xFFFFFFFF >> length) == 0:
            return text
    elif _IPV6(text):
        address, _, size = text.partition("/")
        with suppress(OSError):
            packed = socket.inet_pton(socket.AF_INET6, address)
            is_first = int.from_bytes(packed) & ((1 << 128) - 1 >> int(size)) == 0
            if is_first and socket.inet_ntop(socket.AF_INET6, packed) == address:
                return text
    return Cidr(text).network
