"""Attributes and literals in SQL text: the part of the parser below the operators, and its errors."""

from __future__ import annotations

from typing import NoReturn

from whimbrel.language.sql_lexer import (
    NUMBER_STARTS,
    RESERVED,
    describe,
    is_name,
    is_number,
    name_of,
    place,
    position_of,
    tokens,
)
from whimbrel.language.template import FALSE, NULL, TRUE, SlotType
from whimbrel.model.errors import FilterSyntaxError, LimitExceeded
from whimbrel.model.limits import Limit

OPERAND = "an attribute or a literal"
_CONSTANTS = {"TRUE": TRUE, "FALSE": FALSE, "NULL": NULL}


class Operand:
    """An attribute (`name`) or a literal (`slot`) that no operator has taken yet; `token` is where it stands."""

    __slots__ = ("name", "slot", "token")

    def __init__(self, name: str | None, slot: int, token: int) -> None:
        self.name = name
        self.slot = slot
        self.token = token


class OperandReader:
    """A place in a list of tokens, the literals seen up to there, and how to read one operand."""

    __slots__ = ("at", "literals", "negatives", "text", "tokens", "types")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0
        self.literals: list[str] = []
        self.types: list[SlotType] = []
        self.negatives: list[int] = []

    def keyword(self) -> str:
        """The token here in upper case; letters outside ASCII never make a keyword."""
        token = self.tokens[self.at]
        return token.upper() if token.isascii() else token

    def operand(self, expected: str = OPERAND) -> Operand:
        """The attribute or literal that starts here."""
        at = self.at
        token = self.tokens[at]
        first = token[:1]
        if first == "'" and len(token) > 1:
            return self._literal(token, "string", at)
        if first in NUMBER_STARTS and first:
            if not is_number(token):
                self.expected("a number")
            return self._literal(token, "number", at)
        if is_name(token):
            return self._word(token, at)
        if first == "-" or first == "+":
            self.at = at + 1
            number = self.tokens[at + 1]
            if number[:1] not in NUMBER_STARTS or not is_number(number):
                self.expected("a number")
            if first == "-":
                self.negatives.append(len(self.types))
            return self._literal(number, "number", at)
        self.expected(expected)

    def _word(self, token: str, at: int) -> Operand:
        self.at = at + 1
        if token.isascii():
            word = token.upper()
            if word in RESERVED:
                slot = _CONSTANTS.get(word)
                if slot is None:
                    self.expected(OPERAND, at)
                return Operand(None, slot, at)
            if word == "TIMESTAMP" and self.tokens[at + 1][:1] == "'":
                if len(self.tokens[at + 1]) == 1:
                    self.expected("text")
                return self._literal(self.tokens[at + 1], "timestamp", at)
        return Operand(name_of(token), 0, at)

    def _literal(self, token: str, kind: SlotType, at: int) -> Operand:
        self.at += 1
        slot = len(self.types)
        self.types.append(kind)
        self.literals.append(token)
        return Operand(None, slot, at)

    def literal(self, expected: str) -> Operand:
        """The literal that starts here."""
        operand = self.operand(expected)
        if operand.name is not None:
            self._expected_literal(operand, expected)
        return operand

    def text_literal(self, operator: str) -> int:
        """The slot of the text that an operator takes; NULL may stand for it."""
        expected = f"text after {operator}"
        operand = self.literal(expected)
        if operand.slot != NULL and (operand.slot < 0 or self.types[operand.slot] != "string"):
            self.expected(expected, operand.token)
        return operand.slot

    def attribute(self, operand: Operand, operator: str) -> str:
        """The name of the operand before an operator that takes attributes only."""
        if operand.name is None:
            self.expected(f"an attribute before {operator}", operand.token)
        return operand.name

    def expected(self, expected: str, at: int | None = None) -> NoReturn:
        """Raises the syntax error for the token here, or at `at`."""
        at = self.at if at is None else at
        found = describe(self.tokens[at])
        raise FilterSyntaxError(expected, found, self.text, position_of(self.text, at))

    def _expected_literal(self, operand: Operand, expected: str) -> NoReturn:
        token = self.tokens[operand.token]
        found = describe(token)
        if token[0] == '"':
            quoted = name_of(token).replace("'", "''")
            found += f" (text is written '{quoted}')"
        raise FilterSyntaxError(expected, found, self.text, position_of(self.text, operand.token))

    def too_large(self, limit: Limit, size: int) -> LimitExceeded:
        """The error for a limit that is passed at the token here."""
        return LimitExceeded(
            limit.name, size, limit.value, limit.unit, place(self.text, position_of(self.text, self.at))
        )
