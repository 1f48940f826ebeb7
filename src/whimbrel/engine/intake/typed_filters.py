"""Many filters on their way into an index that has a schema.

Uses of one term are judged together: the first one says whether attribute and operator fit, and each distinct value is
looked up in its domain once. Rows with values that stand for codes, and rows with anything wrong in them, are parsed
one by one, which finds every error in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from whimbrel.language.columnar.parsing import parse_many
from whimbrel.language.columnar.terms import DictionaryStrings, Operand, ParsedMany, TermGroup
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.filter import Filter
from whimbrel.model.normal_form import key_of
from whimbrel.model.values import BOOLEAN, TIMESTAMP, SortKey

if TYPE_CHECKING:
    from whimbrel.model.schema import Schema

_JUDGED = ("range", "points", "excluded", "all")
"""Terms whose meaning depends on the codes of their values only."""


def parse_typed(texts: Sequence[str], dialect: str, schema: Schema) -> ParsedMany:
    """Parse many filters of one dialect with the meaning that they have in the schema."""
    found = parse_many(texts, dialect)
    parsed = ParsedMany(len(texts), errors=found.errors)
    is_alone = np.zeros(len(texts), bool)
    is_alone[list(found.filters)] = True
    for one in found.conjunctions:
        is_unfit = np.zeros(one.size, bool)
        for group in one.groups:
            is_unfit[group.places] = not _fits(schema, group)
        is_alone[np.repeat(one.rows, one.counts)[is_unfit[one.uses]]] = True
        parsed.conjunctions.append(one.only(~is_alone))
    for row in np.flatnonzero(is_alone).tolist():
        try:
            parsed.filters[row] = Filter.parse(texts[row], dialect, schema)
        except WhimbrelError as error:
            parsed.errors.append((row, error))
    return parsed


def _fits(schema: Schema, group: TermGroup) -> bool:
    """Whether every use of a term fits the schema as it stands, without codes."""
    term = group.term
    domain = schema.domain_of(term.attribute)
    if domain is None or term.kind not in _JUDGED:
        return False
    try:
        schema.typed(Filter(next(group.expressions())))
    except WhimbrelError:
        return False
    operands = {operand for operand in (*term.operands, term.lower, term.upper) if operand is not None}
    return all(domain.code(key) == key for operand in operands for key in _keys(group, operand))


def _keys(group: TermGroup, operand: Operand) -> list[SortKey]:
    """The keys of the distinct values of an operand."""
    if operand.slot is None:
        return [(BOOLEAN, bool(operand.value))]
    column = group.columns[operand.slot]
    distinct = column.distinct()[0] if isinstance(column, DictionaryStrings) else np.unique(column).tolist()
    if group.types[operand.slot] == "timestamp":
        return [(TIMESTAMP, int(value)) for value in distinct]
    return [key_of(value) for value in distinct]
