"""Skeletons: SQL texts without their literals, and the columnar form that each of them has, if it has one.

A skeleton has one quote in the place of a number and two in the place of a string: `a < ' AND b = ''`. Texts with the
same skeleton are parsed once. The columnar form is the part of the language that bulk loads are made of; every other
text is loaded as a filter of its own.

Where every filter picks some of a hundred attributes, nearly every text has a skeleton of its own, but there are only a
few hundred different predicates. So a skeleton can be split at AND. `P AND Q` whose parts are plain predicates by
themselves means just that: the only other AND belongs to BETWEEN and stands between two literals. That one is written
in small letters first, which means the same, so that the skeleton is not split there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from whimbrel.language.columnar import Column, ColumnarShape, Int64s, Kind, Operand, ShapeGroup, SlotType, Term
from whimbrel.language.sql.parser import SqlParser
from whimbrel.language.sql.template import (
    CONSTANTS,
    FIRST_NUMBER,
    NULL,
    AllOf,
    AnyOf,
    CompareSlot,
    ContainsSlots,
    InSlots,
    Negation,
    Ready,
    Template,
    TemplateNode,
    TextSlot,
)
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.expression import NEGATED, Constant

MOST_PREDICATES = 256
"""Predicates up to which a text is split; a text with more is read as a whole."""
KNOWN_PREDICATES = 1 << 14
"""Parsed predicates kept between calls; each takes a few hundred bytes."""

_MARKS = re.compile("''?")


@dataclass(frozen=True, slots=True)
class ParsedSkeleton:
    """The columnar form of a skeleton, how many strings it has, and for each number whether a minus is before it."""

    shape: ColumnarShape
    strings: int
    negative: tuple[bool, ...]


def split_skeleton(skeleton: str) -> list[str]:
    """The predicates of a skeleton: its parts between ANDs.

    >>> split_skeleton("a = ' AND b BETWEEN ' AND ' AND c < ''")
    ["a = '", "b BETWEEN ' and '", "c < ''"]
    """
    return skeleton.replace("' AND '", "' and '").split(" AND ")


@lru_cache(KNOWN_PREDICATES)
def read_predicate(skeleton: str) -> ParsedSkeleton | None:
    """Parse the skeleton of a plain predicate: one term of numbers, strings and booleans. None if it is not one."""
    parsed = read_skeleton(skeleton)
    if parsed is None or len(parsed.shape.conjunctions) != 1 or len(parsed.shape.conjunctions[0]) != 1:
        return None
    term = parsed.shape.conjunctions[0][0]
    return None if term.kind == "prefix" or (term.kind == "required" and len(term.operands) > 1) else parsed


def read_skeleton(skeleton: str) -> ParsedSkeleton | None:
    """Parse a skeleton. None if it has no columnar form whose literals are numbers and strings."""
    if "'''" in skeleton:
        return None
    try:
        template = SqlParser(_MARKS.sub(lambda mark: mark[0] if len(mark[0]) == 2 else "5", skeleton)).template()
    except WhimbrelError:
        return None
    shape = columnar_shape(template)
    if shape is None or "timestamp" in shape.slot_types:
        return None
    negative = tuple(FIRST_NUMBER - slot in template.negatives for slot in range(template.numbers))
    return ParsedSkeleton(shape, len(template.strings), negative)


def group_by_predicate(
    parsed: Sequence[ParsedSkeleton | None], codes: Int64s, numbers: np.ndarray, strings: Callable[[Int64s], Column]
) -> Iterator[ShapeGroup]:
    """Each predicate that texts have, with its places among all predicates and its literals.

    `codes` has the number of each predicate in `parsed`. `numbers` has all numbers in the order of the predicates;
    `strings` gives the strings of some places in that order.
    """
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(parsed)))
    first_string = _first_literals(codes, [one.strings if one else 0 for one in parsed])[order]
    first_number = _first_literals(codes, [len(one.negative) if one else 0 for one in parsed])[order]
    begin = 0
    for one, end in zip(parsed, ends.tolist(), strict=True):
        if end > begin:
            assert one is not None
            mine = slice(begin, end)
            columns = [strings(first_string[mine] + slot) for slot in range(one.strings)]
            for slot, negative in enumerate(one.negative):
                columns.append(_narrow(numbers[first_number[mine] + slot], negative))
            yield ShapeGroup(one.shape, order[mine], tuple(columns))
        begin = end


def _first_literals(codes: Int64s, sizes: Sequence[int]) -> Int64s:
    """Where the literals of each predicate start; `sizes` has the number of literals by code."""
    counts = np.array(sizes, np.int64)[codes]
    starts: Int64s = np.cumsum(counts) - counts
    return starts


def _narrow(column: np.ndarray, negative: bool) -> np.ndarray:
    """Numbers, which are all below 2^53, as int64 if all of them are integers."""
    integers = column.astype(np.int64)
    column = integers if (integers == column).all() else column
    return 0 - column if negative else column


def columnar_shape(template: Template) -> ColumnarShape | None:
    """The columnar form of a template, or None if it has none."""
    root = template.root
    if template.dates:  # their texts are checked one by one
        return None
    types: list[SlotType] = [*template.strings]
    types += ["number"] * template.numbers
    if root == Ready(Constant(True)):
        return ColumnarShape(((),), tuple(types))
    conjunctions: list[tuple[Term, ...]] = []
    for part in root.terms if isinstance(root, AnyOf) else (root,):
        nodes = part.terms if isinstance(part, AllOf) else (part,)
        conjunction = _Conjunction(types, len(template.strings))
        if not all(map(conjunction.add, nodes)):
            return None
        conjunctions.append(tuple(conjunction.terms.values()))
    return ColumnarShape(tuple(conjunctions), tuple(types))


class _Conjunction:
    """The terms of a conjunction, collected by attribute."""

    def __init__(self, types: Sequence[SlotType], strings: int) -> None:
        self.types = types
        self.strings = strings
        self.terms: dict[str, Term] = {}

    def add(self, node: TemplateNode) -> bool:
        """Add a predicate; False if the conjunction then has no columnar form."""
        term = self._term(node)
        earlier = None if term is None else self.terms.get(term.attribute)
        if earlier is not None and term is not None:
            term = self._both(earlier, term)
        if term is None:
            return False
        self.terms[term.attribute] = term
        return True

    def _term(self, node: TemplateNode) -> Term | None:
        negated = isinstance(node, Negation)
        leaf = node.term if isinstance(node, Negation) else node
        if isinstance(leaf, CompareSlot):
            return self._compared(leaf, negated)
        if isinstance(leaf, InSlots):
            return self._listed(leaf.attribute, "excluded" if negated else "points", leaf.slots)
        if isinstance(leaf, ContainsSlots) and leaf.quantifier == "ALL" and not negated:
            return self._listed(leaf.attribute, "required", leaf.slots)
        if isinstance(leaf, TextSlot) and leaf.operator == "STARTS" and not negated:
            return self._listed(leaf.attribute, "prefix", (leaf.slot,))
        return None

    def _compared(self, leaf: CompareSlot, negated: bool) -> Term | None:
        op = NEGATED[leaf.op] if negated else leaf.op
        if op in ("=", "!="):
            return self._listed(leaf.attribute, "points" if op == "=" else "excluded", (leaf.slot,))
        if NULL <= leaf.slot < 0:  # booleans have no order
            return None
        bound, inclusive = self._operand(leaf.slot), op in ("<=", ">=")
        if op in ("<", "<="):
            return Term(leaf.attribute, "range", upper=bound, upper_inclusive=inclusive)
        return Term(leaf.attribute, "range", lower=bound, lower_inclusive=inclusive)

    def _listed(self, attribute: str, kind: Kind, slots: Sequence[int]) -> Term | None:
        if NULL in slots:
            return None
        return Term(attribute, kind, tuple(map(self._operand, slots)))

    def _operand(self, slot: int) -> Operand:
        if NULL <= slot < 0:
            return Operand(None, bool(CONSTANTS[slot]))
        return Operand(slot if slot >= 0 else self.strings + FIRST_NUMBER - slot)

    def _both(self, one: Term, two: Term) -> Term | None:
        """One term for two terms on one attribute; None if there is no such term."""
        if one.kind != two.kind:
            return None
        if one.kind in ("excluded", "required"):
            return replace(one, operands=one.operands + two.operands)
        if one.kind != "range" or self._range_type(one) != self._range_type(two):
            return None
        if one.upper is None and two.lower is None:
            return replace(one, upper=two.upper, upper_inclusive=two.upper_inclusive)
        if one.lower is None and two.upper is None:
            return replace(one, lower=two.lower, lower_inclusive=two.lower_inclusive)
        return None

    def _range_type(self, term: Term) -> SlotType:
        bound = term.lower or term.upper
        assert bound is not None and bound.slot is not None
        return self.types[bound.slot]
