"""Reads calls of functions: tests of an attribute in the words of Spark, and lower() and upper()."""

from __future__ import annotations

from whimbrel.language.sql.lexer import RESERVED, is_name
from whimbrel.language.sql.operands import OperandReader, OperandToken
from whimbrel.language.sql.template import (
    NULL,
    Case,
    ContainsSlots,
    FoldedSlot,
    Ready,
    TemplateNode,
    TextOperator,
    TextSlot,
)
from whimbrel.model.expression import Constant
from whimbrel.model.limits import FILTER_DEPTH, FILTER_PREDICATES

_CASES: dict[str, Case] = {"LOWER": "lower", "UPPER": "upper", "LCASE": "lower", "UCASE": "upper"}
_TESTS: dict[str, TextOperator] = {"STARTSWITH": "STARTS", "ENDSWITH": "ENDS", "CONTAINS": "INSIDE"}
FUNCTIONS = ("lower", "upper", "startswith", "endswith", "contains", "array_contains")


class CallReader(OperandReader):
    """Reads calls. Counts predicates and how deep parts are nested."""

    __slots__ = ("depth", "predicates")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.predicates = 0

    def count(self) -> None:
        """Count one more predicate; LimitExceeded if there are too many."""
        self.predicates += 1
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
            return FoldedSlot(_TESTS[word], left.name, slot, left.case)
        return TextSlot(_TESTS[word], self.attribute(left, words), slot)
