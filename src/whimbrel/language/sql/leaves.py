"""Leaves: the predicates of a text as terms of the columnar form, with slots in the place of literals.

A predicate and its negation are two leaves. Each skeleton of a predicate is parsed once, by the parser of the language.
A predicate that is not one term (`a IS NOT TRUE`, which holds for two kinds of events) becomes alternatives of leaves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from whimbrel.language.columnar.terms import Kind, Operand, SlotType, Term
from whimbrel.language.sql.parser import SqlParser
from whimbrel.language.sql.pattern_texts import PatternReader
from whimbrel.language.sql.template import (
    CONSTANTS,
    FIRST_NUMBER,
    NULL,
    AllOf,
    AnyOf,
    CompareSlot,
    CompareSlots,
    ContainsSlots,
    InSlots,
    Negation,
    Ready,
    Template,
    TemplateNode,
    TextSlot,
    fold,
)
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.expression import FLIPPED, NEGATED, CompareAttributes, Comparison, Constant, IsMissing, IsNull

KNOWN_LEAVES = 1 << 14
"""Parsed predicates kept between calls; each takes a few hundred bytes."""

_MOST_ALTERNATIVES = 64
"""Alternatives of a predicate, at most; with more, its text is left to the parser."""

_QUOTED = re.compile(r'"[^"]*+"|`[^`]*+`')
_BEYOND_ASCII = re.compile(r"[^ ]*[^\x00-\x7f][^ ]*")
_IS_NAME = re.compile(r"[^\W\d]\w*+(?:\.\w++)*+").fullmatch
"""Matches a bare name; the parser may see two tokens, or a number, in other tokens beyond ASCII."""
_STATES: dict[tuple[type, bool], Kind] = {
    (IsNull, False): "null", (IsNull, True): "not null", (IsMissing, False): "missing", (IsMissing, True): "present",
}  # fmt: skip
_MEMBERS: dict[tuple[str, bool], Kind] = {
    ("ALL", False): "all", ("ANY", False): "any", ("NONE", False): "none", ("ANY", True): "none", ("NONE", True): "any",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leaf:
    """A term, the types of its slots, how many of them are strings, and for each number whether a minus is before it.

    `dates` are the slots of timestamps that are written as DATE. `is_list`: its only slot is a member of a list, which
    may have more members; with `is_each` the leaf holds if it holds for one of them. `reader` reads the text of a
    pattern; with `has_escape` the second string is its escape. With `folded` two literals are compared, and the term
    applies if the comparison holds.
    """

    term: Term
    types: tuple[SlotType, ...]
    strings: int
    negative: tuple[bool, ...]
    dates: tuple[int, ...]
    is_list: bool
    is_each: bool = False
    reader: PatternReader | None = None
    has_escape: bool = False
    folded: tuple[Operand, Comparison, Operand] | None = None


@dataclass(frozen=True, slots=True)
class LeafAlternatives:
    """A predicate that is an OR of conjunctions of leaves. All of them have the literals of the predicate."""

    alternatives: tuple[tuple[Leaf, ...], ...]


@lru_cache(KNOWN_LEAVES)
def read_leaf(skeleton: str, negated: bool) -> Leaf | LeafAlternatives | None:
    """The leaf of a skeleton, or of its negation; None if the parser refuses the skeleton or there is no term for it.

    >>> read_leaf("5 < price", False).term == read_leaf("price <= 5", True).term
    True
    """
    if not skeleton.isascii() and not all(map(_IS_NAME, _BEYOND_ASCII.findall(_QUOTED.sub("q", skeleton)))):
        return None
    try:
        template = SqlParser(skeleton).template()
    except WhimbrelError:
        return None
    leaf = _leaf(template, template.root, negated)
    if leaf is not None:
        return leaf
    alternatives = _alternatives(template.root, negated)
    if alternatives is None or len(alternatives) == 1 == len(alternatives[0]):
        return None
    found = [[_leaf(template, node, is_negated) for node, is_negated in one] for one in alternatives]
    whole = tuple(tuple(leaf for leaf in one if leaf is not None) for one in found)
    return LeafAlternatives(whole) if list(map(len, whole)) == list(map(len, found)) else None


def _leaf(template: Template, node: TemplateNode, negated: bool) -> Leaf | None:
    """The leaf of a part of a template, or None if it has no term."""
    types: list[SlotType] = [*template.strings]
    types += ["number"] * template.numbers
    reader = _Reader(template, types)
    strings = len(template.strings)
    negative = tuple(FIRST_NUMBER - slot in template.negatives for slot in range(template.numbers))
    if isinstance(node, CompareSlots) and types:
        if "timestamp" in types:
            return None
        left, right = reader.operands((node.left, node.right))
        op = NEGATED[node.op] if negated else node.op
        return Leaf(Term("", "always"), tuple(types), strings, negative, (), False, folded=(left, op, right))
    term = reader.term(node, negated)
    if term is None:
        return None
    if term.kind in ("always", "never"):  # such a term drops its literals, but the parser must check dates
        return Leaf(term, (), 0, (), (), True) if "timestamp" not in types else None
    may_be_longer = template.has_list and len(term.operands) == len(types) == 1
    is_list, is_each = reader.is_list and may_be_longer, reader.is_each and may_be_longer
    return Leaf(
        term, tuple(types), strings, negative, template.dates, is_list, is_each, reader.pattern, reader.has_escape
    )


def _alternatives(node: TemplateNode, negated: bool) -> list[list[tuple[TemplateNode, bool]]] | None:
    """A predicate as an OR of conjunctions of simpler ones, or of their negations; None if there are too many."""
    match node:
        case Negation(inner):
            return _alternatives(inner, not negated)
        case ContainsSlots(attribute, "ALL", slots) if negated:
            return [[(ContainsSlots(attribute, "ALL", (slot,)), True)] for slot in slots]
        case AllOf(terms) | AnyOf(terms):
            parts = [_alternatives(term, negated) for term in terms]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            if isinstance(node, AllOf) == negated:
                found = [one for part in known for one in part]
            else:
                found = [[test for one in several for test in one] for several in product(*known)]
            return found if len(found) <= _MOST_ALTERNATIVES else None
    return [[(node, negated)]]


class _Reader:
    """Turns the nodes of a template into terms."""

    def __init__(self, template: Template, types: Sequence[SlotType]) -> None:
        self.strings = len(template.strings)
        self.types = types
        self.is_list = self.is_each = self.has_escape = False
        self.pattern: PatternReader | None = None

    def term(self, node: TemplateNode, negated: bool) -> Term | None:
        """The term of a predicate, or None if it has none."""
        match node:
            case Negation(inner):
                return self.term(inner, not negated)
            case CompareSlot(attribute, op, slot):
                return self._compared(attribute, NEGATED[op] if negated else op, slot)
            case InSlots(attribute, slots):
                known = [slot for slot in slots if slot != NULL]  # nothing equals NULL, nor differs from it
                if not known or (negated and len(known) < len(slots)):
                    return Term("", "never")
                self.is_list = True
                return Term(attribute, "excluded" if negated else "points", self.operands(known))
            case ContainsSlots(attribute, quantifier, slots):
                self.is_list = (quantifier, negated) in _MEMBERS
                self.is_each = not self.is_list
                kind = _MEMBERS.get((quantifier, negated), "none" if len(slots) == 1 else None)
                return None if kind is None else Term(attribute, kind, self.operands(slots))
            case TextSlot():
                return self._text(node, negated)
            case Ready(CompareAttributes(left, op, right)):
                return self._link(left, NEGATED[op] if negated else op, right)
            case Ready(IsNull(attribute) | IsMissing(attribute) as test):
                return Term(attribute, _STATES[type(test), negated])
            case CompareSlots(left, op, right):  # TRUE and FALSE
                value = fold(CONSTANTS[left], op, CONSTANTS[right])
                return Term("", "always" if value is not negated and value is not None else "never")
            case Ready(Constant(value)):
                return Term("", "always" if value is not negated and value is not None else "never")
            case AllOf((CompareSlot() as test, Negation(Ready(IsNull(name))))) if (
                not negated and test.attribute == name
            ):
                return self.term(test, negated)  # IS TRUE, <=>
            case AllOf((CompareSlot() as low, CompareSlot() as high)):
                return self._between(low, high, negated)
        return None

    def _text(self, node: TextSlot, negated: bool) -> Term:
        if node.slot == NULL:
            return Term("", "never")
        self.pattern, self.has_escape = PatternReader(node.operator, node.case), node.escape is not None
        self.is_list = node.operator == "EQUAL"
        return Term(node.attribute, "like", self.operands((node.slot,)), negated=negated)

    def _link(self, left: str, op: Comparison, right: str) -> Term:
        if left > right:
            left, op, right = right, FLIPPED[op], left
        if left != right:
            return Term(left, "link", op=op, other=right)
        if op in ("!=", "<", ">"):
            return Term("", "never")
        booleans = (Operand(None, False), Operand(None, True))
        return Term(left, "excluded", () if op == "=" else booleans)  # booleans have no order

    def _compared(self, attribute: str, op: str, slot: int) -> Term | None:
        if slot == NULL:
            return Term("", "never")
        if op in ("=", "!="):
            return Term(attribute, "points" if op == "=" else "excluded", self.operands((slot,)))
        if NULL < slot < 0:  # booleans have no order
            return Term("", "never")
        (bound,), inclusive = self.operands((slot,)), op in ("<=", ">=")
        if op in ("<", "<="):
            return Term(attribute, "range", upper=bound, upper_inclusive=inclusive)
        return Term(attribute, "range", lower=bound, lower_inclusive=inclusive)

    def _between(self, low: CompareSlot, high: CompareSlot, negated: bool) -> Term | None:
        if low.attribute != high.attribute or NULL <= low.slot < 0 or NULL <= high.slot < 0:
            return None
        lower, upper = self.operands((low.slot, high.slot))
        assert lower.slot is not None and upper.slot is not None
        if (low.op, high.op) != (">=", "<=") or self.types[lower.slot] != self.types[upper.slot]:
            return None
        return Term(low.attribute, "outside" if negated else "range", (), lower, True, upper, True)

    def operands(self, slots: Sequence[int]) -> tuple[Operand, ...]:
        """The operands of slots."""
        return tuple(map(self._operand, slots))

    def _operand(self, slot: int) -> Operand:
        if NULL <= slot < 0:
            value = CONSTANTS[slot]
            assert value is None or isinstance(value, bool)
            return Operand(None, value)
        return Operand(slot if slot >= 0 else self.strings + FIRST_NUMBER - slot)
