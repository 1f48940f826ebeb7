"""The lexer of the SQL dialect: one regular expression cuts the text; only an error cuts again, to find its position.

`tokens` returns plain strings because almost every text is good; the first character of a token tells its kind. A
character that starts no token becomes a token, which the parser refuses with its position.
"""

from __future__ import annotations

import re

from whimbrel.model.errors import FilterSyntaxError
from whimbrel.model.limits import FILTER_BYTES, INTEGER_DIGITS
from whimbrel.model.values import canonical_number

_STRING = r"'[^']*+(?:''[^']*+)*+'"
_QUOTED = r'"[^"]*+(?:""[^"]*+)*+"|`[^`]*+(?:``[^`]*+)*+`'
_NAME = rf"(?:[^\W\d]\w*+|{_QUOTED})(?:\.(?:\w++|{_QUOTED}))*+"
_EXPONENT = r"(?:[eE][+-]?[0-9]++)?(?![\w.])"
_NUMBER = rf"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++){_EXPONENT}"
_MALFORMED = r"\.?[0-9][\w.]*+"

# Frequent tokens that the first character tells apart come first, which halves the time. Space is skipped after a
# token, never before one, so that a text that ends in much space is not searched from every place in it.
_PLAIN_NAME = r"[A-Za-z_]\w*+(?:\.\w++)*+(?!\.)"
_TOKEN = re.compile(rf"({_PLAIN_NAME}|{_STRING}|[(),]|<=>|[<>!=]=|<>|=|{_NUMBER}|{_MALFORMED}|{_NAME}|\S)\s*+")
_PART = re.compile(rf"{_QUOTED}|\w++")
_IS_NUMBER = re.compile(_NUMBER).fullmatch
_STARTS_NAME = re.compile(r"[^\W\d]|[\"`][\s\S]").match

# The same numbers in running text: the character class comes first, so that the search can skip to it, and the
# look-behind keeps out the digits of names.
NUMBER_IN_TEXT_PATTERN = rf"[0-9.](?<![\w.][0-9.])(?:(?<=\.)[0-9]++|(?<=[0-9])[0-9]*+(?:\.[0-9]*+)?){_EXPONENT}"

NUMBER_STARTS = frozenset("0123456789.")
RESERVED = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE"})
_ALWAYS_SHORT = FILTER_BYTES.value // 4
_ALWAYS_INT64 = 18


def check_text(text: str) -> None:
    """Raise an error unless this is text, not too long, without lone surrogates."""
    if not isinstance(text, str):
        raise FilterSyntaxError("the text of a filter", type(text).__name__, "", 0)
    if text.isascii():
        if len(text) > _ALWAYS_SHORT:
            FILTER_BYTES.check(len(text))
        return
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        shown = text.encode(errors="replace").decode()
        raise FilterSyntaxError("text without lone surrogates", repr(text[error.start]), shown, error.start) from None
    FILTER_BYTES.check(size)


def tokens(text: str) -> list[str]:
    """The tokens of the text, and an empty one for its end."""
    found: list[str] = _TOKEN.findall(text)
    found.append("")
    return found


def positions(text: str) -> list[int]:
    """Where each of the `tokens` starts."""
    return [*(match.start() for match in _TOKEN.finditer(text)), len(text)]


def position_of(text: str, index: int) -> int:
    """Where the token of this index starts. Takes the time of cutting the whole text."""
    return positions(text)[index]


def position_of_literal(text: str, is_string: bool, index: int) -> int:
    """Where the string or number of this index among its kind starts."""
    found = (match for match in _TOKEN.finditer(text) if is_literal(match.group(1)))
    return [match.start() for match in found if (match.group(1)[0] == "'") == is_string][index]


def place(text: str, position: int) -> str:
    """The position as line and column, from 1."""
    newline = text.rfind("\n", 0, position)
    return f"line {text.count(chr(10), 0, position) + 1}, column {position - newline}"


def is_literal(token: str) -> bool:
    """Whether the token is a whole string or number."""
    first = token[:1]
    return (first == "'" and len(token) > 1) or (first in NUMBER_STARTS and is_number(token))


def is_number(token: str) -> bool:
    """Whether a token that starts like a number is one (`5x` and `1.2.3` are not)."""
    return (token.isascii() and token.isdigit()) or _IS_NUMBER(token) is not None


def is_name(token: str) -> bool:
    """Whether the token is a name, quoted or bare; a keyword may be one too."""
    return _STARTS_NAME(token) is not None


def name_of(token: str) -> str:
    """The attribute that a name token means: its parts joined by dots, quotes removed.

    >>> name_of('a."b c".d')
    'a.b c.d'
    """
    if '"' not in token and "`" not in token:
        return token
    parts: list[str] = _PART.findall(token)
    return ".".join(part[1:-1].replace(part[0] * 2, part[0]) if part[0] in '"`' else part for part in parts)


def string_value(token: str) -> str:
    """The content of a string token."""
    return token[1:-1].replace("''", "'")


def number_value(raw: str) -> int | float:
    """The value of a number token, which has no sign.

    >>> number_value("5"), number_value("1e2"), number_value(".5"), number_value("1e999")
    (5, 100, 0.5, inf)
    """
    if raw.isdigit():
        if len(raw) <= _ALWAYS_INT64:
            return int(raw)
        raw = raw.lstrip("0") or "0"
        INTEGER_DIGITS.check(len(raw))
        return canonical_number(int(raw))
    return canonical_number(float(raw))


def is_too_long(raw: str) -> bool:
    """Whether a literal token is an integer of more digits than allowed."""
    return raw.isdigit() and len(raw.lstrip("0")) > INTEGER_DIGITS.value


def describe(token: str) -> str:
    """What a token is; part of error messages."""
    shown = token if len(token) <= 40 else f"{token[:39]}…"
    if not token:
        return "the end of the filter"
    if token == "'":
        return "text without its closing '"
    if token in ('"', "`"):
        return f"a name without its closing {token}"
    if token[0] == "'":
        return f"the text {shown}"
    if token[0] in NUMBER_STARTS and len(token) + token[0].isdigit() > 1:
        return f"the number {shown}" if is_number(token) else f"the malformed number {shown}"
    if is_name(token):
        return f"the keyword {token.upper()}" if token.upper() in RESERVED else f"the name {shown}"
    return repr(token)
