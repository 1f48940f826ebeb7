"""Hints: what the writer of a text probably meant, if the text is an error or silently means something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from whimbrel.language.sql.lexer import NUMBER_STARTS, is_name, name_of, positions, tokens
from whimbrel.language.sql.literals import string_text
from whimbrel.model.dialects import Hint
from whimbrel.model.patterns import lower_case, upper_case

_COMPARISONS = ("=", "==", "<=>", "!=", "<>", "<", "<=", ">", ">=")
_BEFORE_LITERALS = frozenset({*_COMPARISONS, "LIKE", "ILIKE", "RLIKE", "BETWEEN", "CONTAINS", "WITH"})
_EQUALS = frozenset({"=", "==", "!=", "<>"})
_BEFORE_LISTS = frozenset({"IN", "ALL", "ANY", "NONE"})
_ARITHMETIC = "arithmetic is not part of the language: an index finds values as they are; change the literal instead"
_SIGNS = {
    "[": "a list is a set: CONTAINS looks for a member, and d.x is the x of every object in a list d",
    "$": "numbers have no currency, and there are no parameters",
    "?": "there are no parameters",
    ":": "there are no parameters",
    ";": "a filter ends without a semicolon",
    **dict.fromkeys("+-*/%", _ARITHMETIC),
}


def advice(cut: Sequence[str], at: int) -> str:
    """What to write instead of the wrong token `at`, in parentheses; empty if that is not known.

    >>> advice(tokens("a = 1 && b = 2"), 3)
    ' (write AND)'
    """
    found = _advice(cut, at)
    return f" ({found})" if found else ""


def _advice(cut: Sequence[str], at: int) -> str:
    token, following = cut[at], cut[at + 1] if at + 1 < len(cut) else ""
    before = cut[at - 1] if at else ""
    if token in ("&", "|") and following == token:
        return "write AND" if token == "&" else "write OR"
    if cut[0].upper() in ("SELECT", "WHERE"):
        return "write the condition only, which follows WHERE"
    if before.upper() == "EXISTS" and is_name(token):
        return f"write {token} IS NOT MISSING"
    if token.upper() == "EXISTS":
        return "write IS NOT MISSING after the name"
    if (token == "-" and token in (before, following)) or (token, following) == ("/", "*"):
        return "there are no comments"
    if token == "-" and len(before) == 4 and before.isdigit() and following.isdigit():
        return f"a date is written TIMESTAMP '{before}-{following}-...'"
    if token == "," and before[:1] in NUMBER_STARTS and following[:1] in NUMBER_STARTS and before and following:
        return f"a decimal point is a point: {before}.{following}"
    return _SIGNS.get(token, "")


class SuspiciousName(NamedTuple):
    """A quoted name that may be meant as text, and where it stands (code point)."""

    position: int
    name: str

    def __str__(self) -> str:
        return f"did you mean {string_text(self.name)}?"


def suspicious_names(text: str) -> list[SuspiciousName]:
    """The double-quoted names of a text in places where a literal is usual, even if the text does not parse.

    Some databases take double quotes for text; here they are names, so `category = "Toy"` compares two attributes and
    silently never matches.

    >>> suspicious_names('category = "Toy" AND "first name" = \\'Ann\\'')
    [SuspiciousName(position=11, name='Toy')]
    """
    found: list[SuspiciousName] = []
    in_list = between = False
    cut, starts = tokens(text), positions(text)
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
            found.append(SuspiciousName(starts[index], name_of(token)))
    return found


def is_suspicious(text: str) -> bool:
    """Whether a text, or one of several joined by line breaks, may have hints: a quick look."""
    return '"' in text or _has_word(text)


def _has_word(text: str) -> bool:
    upper = text.upper()
    return "NULL" in upper or "LOWER" in upper or "UPPER" in upper


def hints(text: str) -> list[Hint]:
    """Hints on names that are probably meant as text, comparisons with NULL, and texts that lower() never returns.

    >>> [hint.message for hint in hints("a = NULL OR lower(b) = 'Toy'")]
    ['nothing equals NULL; did you mean IS NULL?', "lower(b) never equals 'Toy'; did you mean 'toy'?"]
    """
    found: list[Hint] = []
    if '"' in text:
        found = [
            Hint(one.position, "suspicious-name", f'"{one.name}" is the name of an attribute; {one}')
            for one in suspicious_names(text)
        ]
    if _has_word(text):
        cut, starts = tokens(text), positions(text)
        for at, token in enumerate(cut):
            if token.upper() == "NULL" and at and cut[at - 1] in _EQUALS:
                negated = " NOT" if cut[at - 1] in ("!=", "<>") else ""
                message = f"nothing equals NULL; did you mean IS{negated} NULL?"
                found.append(Hint(starts[at], "suspicious-null", message))
            message = _wrong_case(cut[at : at + 6])
            if message:
                found.append(Hint(starts[at + 5], "suspicious-case", message))
    return sorted(found)


def _wrong_case(call: Sequence[str]) -> str:
    """What is wrong with the tokens of a comparison such as `lower(a) = 'Toy'`; empty for any other tokens."""
    name, literal = call[0].upper(), call[-1]
    if len(call) < 6 or name not in ("LOWER", "UPPER") or call[1] != "(" or call[3] != ")":
        return ""
    if call[4] not in _EQUALS or literal[:1] != "'" or len(literal) < 2:
        return ""
    wanted = lower_case(literal) if name == "LOWER" else upper_case(literal)
    return "" if wanted == literal else f"{''.join(call[:4])} never equals {literal}; did you mean {wanted}?"
