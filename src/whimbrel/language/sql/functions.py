"""The functions of the SQL dialect: tests of an attribute in the words of Spark, and lower() and upper()."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whimbrel.language.sql.lexer import RESERVED, is_name
from whimbrel.language.sql.operands import OperandToken
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

if TYPE_CHECKING:
    from whimbrel.language.sql.parser import SqlParser

_CASES: dict[str, Case] = {"LOWER": "lower", "UPPER": "upper", "LCASE": "lower", "UCASE": "upper"}
_TESTS: dict[str, TextOperator] = {"STARTSWITH": "STARTS", "ENDSWITH": "ENDS", "CONTAINS": "INSIDE"}
FUNCTIONS = ("lower", "upper", "startswith", "endswith", "contains", "array_contains")


def is_call(parser: SqlParser) -> bool:
    """Whether a name and a parenthesis stand here."""
    at = parser.at
    return parser.tokens[at + 1 : at + 2] == ["("] and is_name(parser.tokens[at]) and parser.words[at] not in RESERVED


def read_call(parser: SqlParser) -> OperandToken | TemplateNode:
    """The call of a function that starts here: a test, or an operand in lower or upper case."""
    at, word = parser.at, parser.words[parser.at]
    if word not in _CASES and word not in _TESTS and word != "ARRAY_CONTAINS":
        raise parser.error(f"a function of {', '.join(FUNCTIONS)}", at)
    parser.deeper()
    parser.at += 1
    found = _in_case(parser, at, _CASES[word]) if word in _CASES else _test(parser, at, word)
    parser.expect(")")
    parser.depth -= 1
    return found


def _in_case(parser: SqlParser, at: int, case: Case) -> OperandToken:
    operand = parser.operand()
    if operand.name is None:
        parser.check_text(operand, f"an attribute or text in {parser.tokens[at]}(...)")
    return OperandToken(operand.name, operand.slot, at, case)


def _test(parser: SqlParser, at: int, word: str) -> TemplateNode:
    parser.count()
    left = parser.operand("an attribute")
    parser.expect(",")
    name = parser.tokens[at]
    if word == "ARRAY_CONTAINS":
        attribute, slot = parser.attribute(left, f"',' of {name}"), parser.literal("a literal").slot
        return Ready(Constant(None)) if slot == NULL else ContainsSlots(attribute, "ALL", (slot,))
    slot = parser.text_literal(f"',' of {name}")
    if left.name is not None and left.case is not None:
        return FoldedSlot(_TESTS[word], left.name, slot, left.case)
    return TextSlot(_TESTS[word], parser.attribute(left, f"',' of {name}"), slot)
