"""Finds the position of a part of a predicate in a SQL text. Only errors ask, so the text is parsed again.

Predicates are counted from the left, in the text as in its expression.
"""

from __future__ import annotations

from typing import NamedTuple

from whimbrel.language.sql.lexer import position_of
from whimbrel.language.sql.operands import OperandToken
from whimbrel.language.sql.parser import SqlParser
from whimbrel.language.sql.template import (
    FIRST_NUMBER,
    NULL,
    AllOf,
    AnyOf,
    CompareSlot,
    ContainsSlots,
    InSlots,
    Negation,
    TemplateNode,
    position_of_slot,
)
from whimbrel.model.expression import Comparison


class _PredicateTokens(NamedTuple):
    """The numbers of the tokens of a predicate: its attribute, the other attribute, its operator."""

    attribute: int
    other: int
    operator: int


class _LocatingParser(SqlParser):
    """A parser that records the tokens of each predicate."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.tokens_of: dict[int, _PredicateTokens] = {}
        self.kept: list[TemplateNode] = []  # keeps nodes alive: a freed node could give its id to another
        self.operator_at = 0

    def condition(self, term: OperandToken | TemplateNode) -> TemplateNode:
        node = super().condition(term)
        if isinstance(term, OperandToken):
            self._remember(node, _PredicateTokens(term.token, term.token, term.token))
        return node

    def call(self) -> OperandToken | TemplateNode:
        at = self.at
        found = super().call()
        if not isinstance(found, OperandToken):
            self._remember(found, _PredicateTokens(at + 2, at + 2, at))
        return found

    def _predicate(self, left: OperandToken) -> OperandToken | TemplateNode:
        at = self.operator_at = self.at
        found = super()._predicate(left)
        if not isinstance(found, OperandToken):
            for leaf in leaves(found):
                self._remember(leaf, _PredicateTokens(left.token, at, at))
        return found

    def _compare(self, left: OperandToken, op: Comparison, right: OperandToken) -> TemplateNode:
        node = super()._compare(left, op, right)
        if left.name is None:
            left, right = right, left
        self._remember(node, _PredicateTokens(left.token, right.token, self.operator_at))
        return node

    def _remember(self, node: TemplateNode, found: _PredicateTokens) -> None:
        self.kept.append(node)
        self.tokens_of.setdefault(id(node), found)


def leaves(root: TemplateNode) -> list[TemplateNode]:
    """The predicates of a template, from left to right."""
    found: list[TemplateNode] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Negation):
            stack.append(node.term)
        elif isinstance(node, AllOf | AnyOf):
            stack += reversed(node.terms)
        else:
            found.append(node)
    return found


def locate(text: str, number: int, part: str, value: int) -> int:
    """Where a part of a predicate stands: `attribute`, `other`, `operator`, or the value of that number.

    >>> text = "price < 5 AND kind IN ('a', 'b')"
    >>> [locate(text, 1, part, 1) for part in ("attribute", "operator", "value")]
    [14, 19, 28]
    """
    parser = _LocatingParser(text)
    node = leaves(parser.template().root)[number]
    found = parser.tokens_of[id(node)]
    if part == "value":
        slot = _slot(node, value)
        if slot >= 0 or slot <= FIRST_NUMBER:
            return position_of_slot(text, slot)
        part = "other"
    return position_of(text, {"attribute": found.attribute, "other": found.other}.get(part, found.operator))


def _slot(node: TemplateNode, value: int) -> int:
    if isinstance(node, CompareSlot):
        return node.slot
    return node.slots[value] if isinstance(node, InSlots | ContainsSlots) else NULL
