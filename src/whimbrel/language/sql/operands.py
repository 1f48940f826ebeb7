"""Reads attributes, literals and calls of functions from the tokens of a text, and makes the errors of the parser.

Functions are tests of an attribute in the words of Spark, and lower() and upper().
"""

from __future__ import annotations

import string

from whimbrel.language.sql.hints import advice
from whimbrel.language.sql.lexer import (
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
from whimbrel.language.sql.template import (
    FALSE,
    FIRST_NUMBER,
    NULL,
    TRUE,
    Case,
    ContainsSlots,
    Ready,
    StringType,
    TemplateNode,
    TextOperator,
    TextSlot,
)
from whimbrel.model.errors import FilterSyntaxError, LimitExceeded
from whimbrel.model.expression import Constant
from whimbrel.model.limits import FILTER_DEPTH, FILTER_PREDICATES, IN_MEMBERS, Limit

OPERAND = "an attribute or a literal"
_KINDS = dict.fromkeys(string.ascii_letters + "_", "name")
_KINDS |= dict.fromkeys(NUMBER_STARTS, "number")
_KINDS |= {"'": "string", "+": "sign", "-": "sign", "": "end"}
_TIMES = ("TIMESTAMP", "DATE")
_CONSTANTS = {"TRUE": TRUE, "FALSE": FALSE, "NULL": NULL}
_CASES: dict[str, Case] = {"LOWER": "lower", "UPPER": "upper", "LCASE": "lower", "UCASE": "upper"}
_TESTS: dict[str, TextOperator] = {"STARTSWITH": "STARTS", "ENDSWITH": "ENDS", "CONTAINS": "INSIDE"}
FUNCTIONS = ("lower", "upper", "startswith", "endswith", "contains", "array_contains")


class OperandToken:
    """An attribute (`name`) or a literal (`slot`) that no operator has taken yet; `token` is the number of its token.

    `case` is the case of `lower(...)` or `upper(...)` around it.
    """

    __slots__ = ("case", "name", "slot", "token")

    def __init__(self, name: str | None, slot: int, token: int, case: Case | None = None) -> None:
        self.name = name
        self.slot = slot
        self.token = token
        self.case = case


class OperandReader:
    """Reads operands from a list of tokens; `at` is the next token.

    It counts the literals and predicates that it has read, and how deep parts are nested.
    """

    __slots__ = (
        "at",
        "dates",
        "depth",
        "has_list",
        "negatives",
        "numbers",
        "predicates",
        "strings",
        "text",
        "tokens",
        "words",
    )

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.words = [token.upper() if token.isascii() else token for token in self.tokens]
        self.at = 0
        self.strings: list[StringType] = []
        self.numbers = 0
        self.negatives: list[int] = []
        self.dates: list[int] = []
        self.has_list = False
        self.depth = 0
        self.predicates = 0

    def operand(self, expected: str = OPERAND) -> OperandToken:
        """The attribute or literal that starts here, which may stand in parentheses."""
        raise NotImplementedError

    def bare_operand(self, expected: str) -> OperandToken:
        """The attribute or literal that starts here, without parentheses."""
        at = self.at
        token = self.tokens[at]
        kind = _KINDS.get(token[:1])
        if kind == "name" or (kind is None and is_name(token)):
            return self._named(token, at)
        self.at = at + 1
        if kind == "string" and len(token) > 1:
            return OperandToken(None, self._string("string"), at)
        if kind == "number" and is_number(token):
            return OperandToken(None, self._number(), at)
        if kind == "sign":
            return OperandToken(None, self._signed(token), at)
        raise self.error("a number" if kind == "number" else expected, at)

    def _named(self, token: str, at: int) -> OperandToken:
        self.at = at + 1
        word = self.words[at]
        if word in RESERVED:
            slot = _CONSTANTS.get(word)
            if slot is None:
                raise self.error(OPERAND, at)
            return OperandToken(None, slot, at)
        if word in _TIMES and len(self.tokens[at + 1]) > 1 and self.tokens[at + 1][0] == "'":
            self.at = at + 2
            slot = self._string("timestamp")
            if word == "DATE":
                self.dates.append(slot)
            return OperandToken(None, slot, at)
        return OperandToken(name_of(token), 0, at)

    def _signed(self, sign: str) -> int:
        number = self.tokens[self.at]
        if _KINDS.get(number[:1]) != "number" or not is_number(number):
            raise self.error("a number")
        self.at += 1
        slot = self._number()
        if sign == "-":
            self.negatives.append(slot)
        return slot

    def _string(self, kind: StringType) -> int:
        self.strings.append(kind)
        return len(self.strings) - 1

    def _number(self) -> int:
        self.numbers += 1
        return FIRST_NUMBER + 1 - self.numbers

    def literals_in_list(self) -> tuple[int, ...]:
        """The slots of the literals from here to the closing parenthesis."""
        slots: list[int] = []
        while True:
            token = self.tokens[self.at]
            if token[:1] == "'" and len(token) > 1:  # most members are strings
                self.at += 1
                slots.append(self._string("string"))
            else:
                slots.append(self.literal("a literal").slot)
            following = self.tokens[self.at]
            if following == ")":
                break
            if following != ",":
                raise self.error("',' or ')'")
            self.at += 1
        if len(slots) > IN_MEMBERS.value:
            raise self.too_large(IN_MEMBERS, len(slots))
        self.at += 1
        return tuple(slots)

    def literal(self, expected: str) -> OperandToken:
        """The literal that starts here."""
        operand = self.operand(expected)
        if operand.name is not None:
            raise self._not_literal(operand, expected)
        if operand.case is not None:
            raise self.error(expected, operand.token)
        return operand

    def text_literal(self, operator: str) -> int:
        """The slot of the text that an operator takes; NULL may stand for it."""
        expected = f"text after {operator}"
        operand = self.literal(expected)
        self.check_text(operand, expected)
        return operand.slot

    def check_text(self, operand: OperandToken, expected: str) -> None:
        """Raise an error unless the literal is text or NULL."""
        if operand.slot != NULL and (operand.slot < 0 or self.strings[operand.slot] != "string"):
            raise self.error(expected, operand.token)

    def expect(self, sign: str) -> None:
        """Read a sign that must stand here."""
        if self.tokens[self.at] != sign:
            raise self.error(repr(sign))
        self.at += 1

    def attribute(self, operand: OperandToken, operator: str) -> str:
        """The name of the operand before an operator that takes attributes only."""
        if operand.name is None or operand.case is not None:
            raise self.error(f"an attribute before {operator}", operand.token)
        return operand.name

    def error(self, expected: str, at: int | None = None) -> FilterSyntaxError:
        """The syntax error for the token here, or at `at`."""
        at = self.at if at is None else at
        found = describe(self.tokens[at]) + advice(self.tokens, at)
        return FilterSyntaxError(expected, found, self.text, position_of(self.text, at))

    def _not_literal(self, operand: OperandToken, expected: str) -> FilterSyntaxError:
        token = self.tokens[operand.token]
        found = describe(token)
        if token[0] == '"':
            quoted = name_of(token).replace("'", "''")
            found += f" (text is written '{quoted}')"
        return FilterSyntaxError(expected, found, self.text, position_of(self.text, operand.token))

    def too_large(self, limit: Limit, size: int) -> LimitExceeded:
        """The error for a limit that is passed at the token here."""
        return LimitExceeded(
            limit.name, size, limit.value, limit.unit, place(self.text, position_of(self.text, self.at))
        )

    def count(self, more: int = 1) -> None:
        """Count some more predicates; LimitExceeded if there are too many."""
        self.predicates += more
        if self.predicates > FILTER_PREDICATES.value:
            raise self.too_large(FILTER_PREDICATES, self.predicates)

    def deeper(self) -> None:
        """Read the token that starts a nested part; LimitExceeded if too many are nested."""
        self.depth += 1
        if self.depth > FILTER_DEPTH.value:
            raise self.too_large(FILTER_DEPTH, self.depth)
        self.at += 1

    def is_call(self) -> bool:
        """Whether a name and a parenthesis stand here."""
        at = self.at
        return self.tokens[at + 1 : at + 2] == ["("] and is_name(self.tokens[at]) and self.words[at] not in RESERVED

    def call(self) -> OperandToken | TemplateNode:
        """The call that starts here: a test, or an operand in lower or upper case."""
        at, word = self.at, self.words[self.at]
        if word not in _CASES and word not in _TESTS and word != "ARRAY_CONTAINS":
            raise self.error(f"a function of {', '.join(FUNCTIONS)}", at)
        self.deeper()
        self.at += 1
        found = self._in_case(at, _CASES[word]) if word in _CASES else self._test(at, word)
        self.expect(")")
        self.depth -= 1
        return found

    def _in_case(self, at: int, case: Case) -> OperandToken:
        operand = self.operand()
        if operand.name is None:
            self.check_text(operand, f"an attribute or text in {self.tokens[at]}(...)")
        return OperandToken(operand.name, operand.slot, at, case)

    def _test(self, at: int, word: str) -> TemplateNode:
        self.count()
        left = self.operand("an attribute")
        self.expect(",")
        words = f"',' of {self.tokens[at]}"
        if word == "ARRAY_CONTAINS":
            attribute, slot = self.attribute(left, words), self.literal("a literal").slot
            return Ready(Constant(None)) if slot == NULL else ContainsSlots(attribute, "ALL", (slot,))
        slot = self.text_literal(words)
        if left.name is not None and left.case is not None:
            return TextSlot(_TESTS[word], left.name, slot, left.case)
        return TextSlot(_TESTS[word], self.attribute(left, words), slot)
