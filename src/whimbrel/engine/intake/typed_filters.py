"""Many filters on their way into an index that has a schema.

Rows of one shape are judged together: the first one says whether attributes and operators fit, and each distinct value
is looked up in its domain once. Rows with values that stand for codes, and rows of shapes with anything wrong in them,
are parsed one by one, which finds every error in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from whimbrel.language.columnar import Operand, ParsedMany, ShapeGroup, parse_many
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.filter import Filter
from whimbrel.model.normal_form import key_of
from whimbrel.model.values import BOOLEAN, TIMESTAMP, SortKey

if TYPE_CHECKING:
    from whimbrel.model.schema import Schema


def parse_typed(texts: Sequence[str], dialect: str, schema: Schema) -> ParsedMany:
    """Parse many filters of one dialect with the meaning that they have in the schema."""
    found = parse_many(texts, dialect)
    parsed = ParsedMany(len(texts), errors=found.errors)
    alone = list(found.filters)
    for group in found.groups:
        if _fits(schema, group, texts[int(group.rows[0])], dialect):
            parsed.groups.append(group)
        else:
            alone += group.rows.tolist()
    for row in alone:
        try:
            parsed.filters[row] = Filter.parse(texts[row], dialect, schema)
        except WhimbrelError as error:
            parsed.errors.append((row, error))
    return parsed


def _fits(schema: Schema, group: ShapeGroup, text: str, dialect: str) -> bool:
    """Whether every row of a group fits the schema as it stands, without codes."""
    try:
        Filter.parse(text, dialect, schema)
    except WhimbrelError:
        return False
    judged: set[tuple[str, int | None, bool | None]] = set()
    for term in (term for terms in group.shape.conjunctions for term in terms):
        domain = schema.domain_of(term.attribute)
        for operand in (*term.operands, term.lower, term.upper):
            if operand is None or (term.attribute, operand.slot, operand.value) in judged:
                continue
            judged.add((term.attribute, operand.slot, operand.value))
            if domain is None or any(domain.code(key) != key for key in _keys(group, operand)):
                return False
    return {slot for _, slot, _ in judged} >= set(range(len(group.columns)))


def _keys(group: ShapeGroup, operand: Operand) -> list[SortKey]:
    """The keys of the distinct values of an operand."""
    if operand.slot is None:
        return [(BOOLEAN, bool(operand.value))]
    column = group.columns[operand.slot]
    distinct = np.unique(column).tolist() if isinstance(column, np.ndarray) else list(dict.fromkeys(column))
    if group.shape.slot_types[operand.slot] == "timestamp":
        return [(TIMESTAMP, int(value)) for value in distinct]
    return [key_of(value) for value in distinct]
