"""Finds names in double quotes where a literal usually stands, as in `category = "Toy"`. Lint reports them.

Some databases take double quotes for text; here they are names, so such a filter compares two attributes and
silently never matches.
"""

from __future__ import annotations

from typing import NamedTuple

from whimbrel.language.sql.lexer import name_of, position_of, tokens
from whimbrel.language.sql.literals import string_text

_BEFORE_LITERALS = frozenset({"=", "!=", "<>", "<", "<=", ">", ">=", "LIKE", "RLIKE", "BETWEEN", "CONTAINS", "WITH"})
_BEFORE_LISTS = frozenset({"IN", "ALL", "ANY", "NONE"})


class SuspiciousName(NamedTuple):
    """A quoted name that may be meant as text, and where it stands (code point)."""

    position: int
    name: str

    def __str__(self) -> str:
        return f"did you mean {string_text(self.name)}?"


def suspicious_names(text: str) -> list[SuspiciousName]:
    """The double-quoted names of a text that stand where a literal usually does, also if it does not parse.

    >>> suspicious_names('category = "Toy" AND "first name" = \\'Ann\\'')
    [SuspiciousName(position=11, name='Toy')]
    """
    found: list[SuspiciousName] = []
    in_list = between = False
    cut = tokens(text)
    words = [token.upper() for token in cut]
    for index, token in enumerate(cut):
        before = words[index - 1] if index else ""
        if token == "(":
            in_list = before in _BEFORE_LISTS
        elif token == ")":
            in_list = False
        elif words[index] == "BETWEEN":
            between = True
        expected = before in _BEFORE_LITERALS or in_list or (between and before == "AND")
        if before == "AND":
            between = False
        if expected and token[0:1] == '"' and len(token) > 1:
            found.append(SuspiciousName(position_of(text, index), name_of(token)))
    return found
