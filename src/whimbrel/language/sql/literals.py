"""Writes values, names and patterns as SQL text that parses to the same."""

from __future__ import annotations

import math
import re

from whimbrel.language.sql.lexer import RESERVED
from whimbrel.model.limits import LIKE_BYTES
from whimbrel.model.patterns import CaseFolded, Cidr, Pattern, Regex, Substring, Suffix
from whimbrel.model.values import Timestamp, Value

_BARE = re.compile(r"[^\W\d]\w*+(?:\.\w++)*+").fullmatch
_SHORTER = str.maketrans("ⱥⱦ", "ȺȾ")
"""The only letters that have more bytes than their capitals."""


def name_text(name: str) -> str:
    """An attribute's name, quoted where it must be.

    >>> name_text("detail.state"), name_text("in"), name_text("first name")
    ('detail.state', '"in"', '"first name"')
    """
    if _BARE(name) and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def string_text(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def value_text(value: Value | None) -> str:
    """A literal.

    >>> value_text(True), value_text(-5), value_text(math.inf), value_text("it's"), value_text(Timestamp(0))
    ('TRUE', '-5', '1e999', "'it''s'", "TIMESTAMP '1970-01-01T00:00:00Z'")
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, Timestamp):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def pattern_text(pattern: Pattern) -> str:
    """The operator and operand of a string pattern.

    >>> pattern_text(Suffix(".txt")), pattern_text(Substring("5%"))
    ("ENDS WITH '.txt'", "LIKE '%5\\\\%%'")
    """
    if isinstance(pattern, Suffix):
        return f"ENDS WITH {string_text(pattern.text)}"
    if isinstance(pattern, Regex):
        return f"RLIKE {string_text(pattern.regex)}"
    if isinstance(pattern, CaseFolded):
        return f"I{_like_text(pattern.segments, is_folded=True)}"
    if isinstance(pattern, Cidr):
        return f"IN CIDR {string_text(pattern.network)}"
    segments = (("",), (pattern.text,), ("",)) if isinstance(pattern, Substring) else pattern.segments
    return _like_text(segments)


def _like_text(segments: tuple[tuple[str, ...], ...], is_folded: bool = False) -> str:
    text = _joined(segments, "\\")
    if len(text.encode()) <= LIKE_BYTES.value:
        return f"LIKE {string_text(text)}"
    # A pattern near the limit of bytes was written with a rarer escape, or in capitals that have fewer bytes.
    if is_folded:
        segments = tuple(tuple(fragment.translate(_SHORTER) for fragment in segment) for segment in segments)
    used = {character for segment in segments for fragment in segment for character in fragment}
    escape = next(character for character in map(chr, range(33, 0xD800)) if character not in used | {"%", "_"})
    return f"LIKE {string_text(_joined(segments, escape))} ESCAPE {string_text(escape)}"


def _joined(segments: tuple[tuple[str, ...], ...], escape: str) -> str:
    marked = re.compile(f"[%_{re.escape(escape)}]")
    return "%".join(
        "_".join(marked.sub(lambda found: escape + found.group(), fragment) for fragment in segment)
        for segment in segments
    )
