"""Constraints and terms as intervals of ranks: one by one, or whole columns of literals at once."""

from __future__ import annotations

import numpy as np

from whimbrel.language.columnar import Operand, ShapeGroup, Term
from whimbrel.matchers.capabilities import shape_of
from whimbrel.matchers.coding import AttributeRanks, Coding, Int32s, Span
from whimbrel.model.constraint import Constraint
from whimbrel.model.values import BOOLEAN, TYPE_NAMES, SortKey

KIND, LOW, HIGH = 1, 2, 3
EQUAL, RANGE, POINTS, OTHERS, SET = 0, 1, 2, 3, 4
"""Kinds: one constant; one interval; several constants (IN); all but some constants (!=); several intervals."""


def constraint_spans(ranks: AttributeRanks, constraint: Constraint) -> tuple[int, list[Span]]:
    """The kind of a plain constraint and its intervals of ranks."""
    values = constraint.values
    points = values.as_points()
    if points is not None:
        found = [(ranks.rank(key), ranks.rank(key)) for key in points]
        return (EQUAL if len(found) == 1 else POINTS), found
    others = values.complement().as_points() if shape_of(constraint) == "exclusions" else None
    if others:
        low, high = complement(np.array([[ranks.rank(key) for key in others]], dtype=np.int32), ranks.count)
        return OTHERS, list(zip(low[0].tolist(), high[0].tolist(), strict=True))
    found = ranks.spans(values)
    return (RANGE if len(found) == 1 else SET), found


def complement(points: Int32s, count: int) -> tuple[Int32s, Int32s]:
    """The intervals between sorted constants, for each row of a matrix; never empty, as constants have odd ranks."""
    low = np.zeros((len(points), points.shape[1] + 1), dtype=np.int32)
    high = np.full_like(low, count - 1)
    low[:, 1:] = points + 1
    high[:, :-1] = points - 1
    return low, high


def term_spans(ranks: AttributeRanks, group: ShapeGroup, term: Term, index: int) -> tuple[int, list[Span]]:
    """The kind and the intervals of a term in one row of a group; an empty range is an interval that ends too early."""
    if term.kind == "range":
        bound = term.lower or term.upper
        assert bound is not None and bound.slot is not None
        kind = _slot_kind(group, bound.slot)
        low, high = ranks.first[kind], ranks.first[kind + 1] - 1
        if term.lower is not None:
            low = ranks.rank(_operand_key(group, term.lower, index)) + (not term.lower_inclusive)
        if term.upper is not None:
            high = ranks.rank(_operand_key(group, term.upper, index)) - (not term.upper_inclusive)
        is_constant = low == high and (low - ranks.first[kind]) % 2 == 1
        return (EQUAL if is_constant else RANGE), [(low, high)]
    points = sorted({ranks.rank(_operand_key(group, operand, index)) for operand in term.operands})
    if term.kind == "points":
        return (EQUAL if len(points) == 1 else POINTS), [(point, point) for point in points]
    return OTHERS, list(zip([0, *(p + 1 for p in points)], [*(p - 1 for p in points), ranks.count - 1], strict=True))


def operand_ranks(ranks: AttributeRanks, group: ShapeGroup, term: Term, index: int) -> Int32s:
    """The rank of an operand of a term in every row of a group."""
    operand = term.operands[index]
    if operand.slot is None:
        return np.full(len(group.rows), ranks.rank((BOOLEAN, bool(operand.value))), dtype=np.int32)
    return ranks.constants(_slot_kind(group, operand.slot), group.columns[operand.slot])


def range_items(ranks: AttributeRanks, group: ShapeGroup, term: Term, item: Int32s) -> None:
    """Fills in a range of each row, as EQUAL where it is one constant."""
    bound = term.lower or term.upper
    assert bound is not None and bound.slot is not None
    kind = _slot_kind(group, bound.slot)
    item[:, LOW], item[:, HIGH] = ranks.first[kind], ranks.first[kind + 1] - 1
    if term.lower is not None and term.lower.slot is not None:
        item[:, LOW] = ranks.constants(kind, group.columns[term.lower.slot]) + (not term.lower_inclusive)
    if term.upper is not None and term.upper.slot is not None:
        item[:, HIGH] = ranks.constants(kind, group.columns[term.upper.slot]) - (not term.upper_inclusive)
    constant = (item[:, LOW] == item[:, HIGH]) & ((item[:, LOW] - ranks.first[kind]) % 2 == 1)
    item[:, KIND] = np.where(constant, EQUAL, RANGE)


def add_constants(coding: Coding, group: ShapeGroup) -> None:
    """Give the coding every constant of a group."""
    for terms in group.shape.conjunctions:
        for term in terms:
            coding.add_column(term.attribute, BOOLEAN, ())
            for operand in (*term.operands, term.lower, term.upper):
                if operand is not None and operand.slot is not None:
                    kind = _slot_kind(group, operand.slot)
                    coding.add_column(term.attribute, kind, group.columns[operand.slot])


def _slot_kind(group: ShapeGroup, slot: int) -> int:
    return TYPE_NAMES.index(group.shape.slot_types[slot])


def _operand_key(group: ShapeGroup, operand: Operand, index: int) -> SortKey:
    if operand.slot is None:
        return BOOLEAN, bool(operand.value)
    cell = group.columns[operand.slot][index]
    # A NumPy integer would be compared as a float: slowly, and not exactly.
    return _slot_kind(group, operand.slot), cell.item() if isinstance(cell, np.generic) else cell
