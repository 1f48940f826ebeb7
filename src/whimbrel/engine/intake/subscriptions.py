"""Reads subscriptions as callers give them, one or many; returns parsed filters, and the texts to store with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whimbrel.language.columnar.terms import DictionaryStrings, Operand, ParsedMany, TermGroup, chosen, parse_many
from whimbrel.model import dialects
from whimbrel.model.dialects import CANONICAL
from whimbrel.model.errors import FilterError, MalformedSubscription, UnknownDialect, WhimbrelError
from whimbrel.model.event_tables import as_arrow
from whimbrel.model.expression import And, Compare, Contains, Expression, In, Not
from whimbrel.model.filter import Filter
from whimbrel.model.limits import FILTER_BYTES
from whimbrel.model.normal_form import key_of
from whimbrel.model.subscription import Id, check_columns, pairs_of
from whimbrel.model.values import BOOLEAN, TIMESTAMP, SortKey, Timestamp, Value, canonical_number

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.model.schema import Schema


PARALLEL = True
"""Whether loads use more than one core; measurements switch it off."""


class BadSubscriptions(WhimbrelError):
    """A bulk load was refused: the (row, error) pairs of every bad row."""

    def __init__(self, errors: Sequence[tuple[int, WhimbrelError]]) -> None:
        self.errors = tuple(errors)
        row, first = self.errors[0]
        more = f" (and {len(self.errors) - 1:,} more)" if len(self.errors) > 1 else ""
        super().__init__(f"Expected filters only, but row {row:,} has a bad one{more}: {first}")


@dataclass(slots=True)
class SubscriptionBatch:
    """The ids, texts and dialects of a bulk load. A filter object without a text gets its canonical text."""

    ids: pa.Array | list[Id]
    texts: pa.Array | list[str]
    dialects: str | list[str]
    schema: Schema | None = None

    def parse(self, progress: Callable[[int], None] | None = None) -> ParsedMany:
        """Parse all texts on all cores, or raise `BadSubscriptions` with every bad row."""
        if isinstance(self.dialects, str):
            dialects.get(self.dialects)  # UnknownDialect is not the fault of a row
        parsed, errors = self.parse_good(os.cpu_count() or 1 if PARALLEL else 1, progress)
        if errors:
            raise BadSubscriptions(errors)
        return parsed

    def parse_good(
        self, workers: int = 1, progress: Callable[[int], None] | None = None
    ) -> tuple[ParsedMany, list[tuple[int, WhimbrelError]]]:
        """Parse all texts; return what they became, and the errors of the bad rows."""
        if isinstance(self.dialects, str):
            return self._parse(self.texts, self.dialects, workers, progress)
        parsed = ParsedMany(len(self.texts))
        errors: list[tuple[int, WhimbrelError]] = []
        names = np.array(self.dialects, object)
        for dialect in dict.fromkeys(self.dialects):
            rows = np.flatnonzero(names == dialect)
            part, bad = self._parse(chosen(self.texts, rows), dialect, workers, None)
            parsed.take(part, rows)
            errors += [(int(rows[row]), error) for row, error in bad]
        return parsed, sorted(errors, key=lambda one: one[0])

    def _parse(
        self, texts: pa.Array | list[str], dialect: str, workers: int, progress: Callable[[int], None] | None
    ) -> tuple[ParsedMany, list[tuple[int, WhimbrelError]]]:
        """Do what `parse_good` does for texts of one dialect."""
        try:
            if self.schema is None:
                parsed = parse_many(texts, dialect, workers, progress)
            else:
                parsed = _parse_typed(chosen(texts, np.arange(len(texts))), dialect, self.schema)
        except UnknownDialect as error:
            return ParsedMany(len(texts)), [(row, error) for row in range(len(texts))]
        return parsed, _errors_of(parsed)

    def only(self, chosen: np.ndarray) -> SubscriptionBatch:
        """The subscriptions of some rows, given as a mask."""
        rows = np.flatnonzero(chosen)

        def some(column: list[Any] | pa.Array) -> list[Any] | pa.Array:
            return [column[row] for row in rows.tolist()] if isinstance(column, list) else column.take(rows)

        names = self.dialects if isinstance(self.dialects, str) else some(self.dialects)
        return SubscriptionBatch(some(self.ids), some(self.texts), names, self.schema)


def _errors_of(parsed: ParsedMany) -> list[tuple[int, WhimbrelError]]:
    """Every bad row in order. Moves filters that are too large in normal form from the filters to the errors."""
    errors = list(parsed.errors)
    for row, filter in list(parsed.filters.items()):
        try:
            _ = filter.conjunctions
        except WhimbrelError as error:
            errors.append((row, error.with_traceback(None)))  # which would hold the parser, text by text
            del parsed.filters[row]
    return sorted(errors, key=lambda one: one[0])


def read_subscriptions(
    subscriptions: Iterable[tuple[Id, object]] | pa.Table, dialect: str, schema: Schema | None = None
) -> SubscriptionBatch:
    """Make a batch of pairs of id and filter, or of a table with columns id, filter and optionally dialect."""
    dialects.check_name(dialect)
    table = as_arrow(subscriptions)
    if table is not None:
        return _read_table(table, dialect, schema)
    ids: list[Id] = []
    texts: list[str] = []
    names: list[str] = []
    for id, filter in pairs_of(subscriptions):
        ids.append(id)
        if isinstance(filter, Filter):
            filter = fitted(filter, schema)  # noqa: PLW2901
            texts.append(filter.text if filter.text is not None else str(filter))
            names.append(filter.dialect if filter.text is not None else CANONICAL)
        else:
            texts.append(filter)  # type: ignore[arg-type]
            names.append(dialect)
    return SubscriptionBatch(ids, texts, _one_or_all(names) if names else dialect, schema)


def _read_table(table: pa.Table, dialect: str, schema: Schema | None) -> SubscriptionBatch:
    import pyarrow as pa

    check_columns(table)
    ids, texts = (_joined(table.column(name)) for name in ("id", "filter"))
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    return SubscriptionBatch(ids, texts, _read_dialects(table, dialect), schema)


def _read_dialects(table: pa.Table, dialect: str) -> str | list[str]:
    """The dialect of each row of a table, or of all; `dialect` where the table has none."""
    columns = [column for name, column in zip(table.column_names, table.columns, strict=True) if name == "dialect"]
    if not columns:
        return dialect
    names = [name or dialect for name in columns[0].to_pylist()]
    if len(columns) > 1 or {*map(type, names)} - {str}:
        raise MalformedSubscription("one column dialect, of texts", ", ".join(str(column.type) for column in columns))
    return _one_or_all(names) if names else dialect


def _one_or_all(names: list[str]) -> str | list[str]:
    return names[0] if len(set(names)) == 1 else names


def _joined(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array, without the copy that `combine_chunks` makes of a single chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class Admitted(NamedTuple):
    """A filter that may be added, and the text and dialect from which it can be parsed again."""

    filter: Filter
    text: str
    dialect: str


def admit(filter: object, dialect: str, schema: Schema | None) -> Admitted:
    """Parse a source, unless it is a filter, and check the limits now, not at a later match.

    A filter without a text gets its canonical text, which is SQL whatever dialect the filter came from.
    """
    parsed = fitted(filter, schema) if isinstance(filter, Filter) else Filter.parse(filter, dialect, schema)
    if parsed.text is None or schema is not None or not parsed.is_surely_small():
        _ = parsed.conjunctions
    if parsed.text is not None:
        return Admitted(parsed, parsed.text, parsed.dialect)
    text = str(parsed)
    FILTER_BYTES.check(len(text.encode()))
    return Admitted(parsed, text, CANONICAL)


def fitted(filter: Filter, schema: Schema | None) -> Filter:
    """Type a filter against the schema of an index; FilterError if the filter has a schema and the index has none."""
    if schema is not None:
        return schema.typed(filter)
    if filter.schema is not None:
        raise FilterError("Expected a filter without a schema, because the index has none, but got one with a schema")
    return filter


_JUDGED = ("range", "points", "excluded", "all")
"""Terms whose meaning depends on the codes of their values only."""


def _parse_typed(texts: Sequence[str], dialect: str, schema: Schema) -> ParsedMany:
    """Parse many filters of one dialect with the meaning that they have in the schema.

    The uses of a term are judged together: the first one tells whether attribute and operator fit, and each distinct
    value is looked up in its domain once. Rows whose values become codes, and rows with any error, are parsed one by
    one, which finds every error in its place.
    """
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
            parsed.errors.append((row, error.with_traceback(None)))
    return parsed


def _fits(schema: Schema, group: TermGroup) -> bool:
    """Whether every use of a term fits the schema as it stands, without codes."""
    term = group.term
    domain = schema.domain_of(term.attribute)
    if domain is None or term.kind not in _JUDGED:
        return False
    try:
        schema.typed(Filter(_first_use(group)))
    except WhimbrelError:
        return False
    operands = {operand for operand in (*term.operands, term.lower, term.upper) if operand is not None}
    if Operand(None) in operands:  # NULL
        return False
    return all(domain.code(key) == key for operand in operands for key in _keys(group, operand))


def _first_use(group: TermGroup) -> Expression:
    """The first use of a term as an expression; a list has only one of its members."""
    term = group.term
    name = term.attribute
    literals = tuple(_first_value(group, operand) for operand in term.operands)
    if term.kind == "all":
        return Contains(name, "ALL", literals)
    if term.kind in ("points", "excluded"):
        return Not(In(name, literals)) if term.kind == "excluded" else In(name, literals)
    bounds: list[Expression] = []
    if term.lower is not None:
        bounds.append(Compare(name, ">=" if term.lower_inclusive else ">", _first_value(group, term.lower)))
    if term.upper is not None:
        bounds.append(Compare(name, "<=" if term.upper_inclusive else "<", _first_value(group, term.upper)))
    return And(tuple(bounds))


def _first_value(group: TermGroup, operand: Operand) -> Value:
    if operand.slot is None:
        return bool(operand.value)
    column = group.columns[operand.slot]
    if isinstance(column, DictionaryStrings):
        return column[0]
    (value,) = column[:1].tolist()
    return Timestamp(value) if group.types[operand.slot] == "timestamp" else canonical_number(value)


def _keys(group: TermGroup, operand: Operand) -> list[SortKey]:
    """The keys of the distinct values of an operand."""
    if operand.slot is None:
        return [(BOOLEAN, bool(operand.value))]
    column = group.columns[operand.slot]
    distinct = column.distinct()[0] if isinstance(column, DictionaryStrings) else np.unique(column).tolist()
    if group.types[operand.slot] == "timestamp":
        return [(TIMESTAMP, int(value)) for value in distinct]
    return [key_of(value) for value in distinct]
