"""What a task of `conform` does with an integrated event schema: batches of rows in, the same rows with reasons out.

Batches of flat columns are checked as a whole, which says whether all rows are valid. Other batches are halved until
few rows are left, and those are checked one by one with the rules of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import pyarrow as pa

from whimbrel.engine.matching.typed_events import coded_table
from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.model.event import Event
from whimbrel.model.event_tables import read_events
from whimbrel.model.json_text import JsonError, JsonObject, parse_text
from whimbrel.model.schema import Schema

ROWS_ONE_BY_ONE = 64
"""Batches up to this size are checked row by row, because a check of whole columns would cost as much."""
SHOWN = 80
"""Characters of a value that a message shows."""
REASONS = pa.list_(pa.struct([(name, pa.string()) for name in ("attribute", "kind", "message")]))

Reasons: TypeAlias = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """Sent to the workers: checks the columns at `places` as attributes `names`, or the JSON texts in the first column.

    Attributes that the schema does not have are reasons only with `report`.
    """

    schema: Schema
    places: tuple[int, ...]
    names: tuple[str, ...]
    report: bool = True
    json: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [batch.column(place) for place in self.places]
            found = (
                [self._text(text) for text in columns[0].cast(pa.binary()).to_pylist()]
                if self.json
                else self._rows(pa.table(columns, list(self.names)))
            )
            reasons = pa.array(found, REASONS)
            yield pa.RecordBatch.from_arrays([*batch.columns, reasons], [*batch.schema.names, "reasons"])

    def _rows(self, table: pa.Table) -> list[Reasons]:
        rows = table.num_rows
        is_flat = not any(pa.types.is_nested(kind) for kind in table.schema.types)
        if is_flat and _is_intact(table) and coded_table(self.schema, table) is not None:
            return [[]] * rows
        if rows <= ROWS_ONE_BY_ONE or not is_flat:
            try:
                return [self._reasons(event) for event in read_events(table, self.names)]
            except (EventError, LimitExceeded) as error:
                if rows == 1:
                    return [[_refused(error)]]
        middle = rows // 2
        return self._rows(table.slice(0, middle)) + self._rows(table.slice(middle))

    def _text(self, text: bytes | None) -> Reasons:
        event = None if text is None else _object(text)
        if event is None:
            got = "null" if text is None else f"'{text.decode(errors='replace')[:SHOWN]}'"
            return [reason(self.names[0], "json", f"expected a JSON object, but got {got}")]
        try:
            return self._reasons(Event(event))
        except (EventError, LimitExceeded) as error:
            return [_refused(error)]

    def _reasons(self, event: Event) -> Reasons:
        return [
            reason(one.path, one.rule, f"expected {one.expected}, but got {one.found}")
            for one in self.schema.violations(event)
            if self.report or one.rule != "R3" or one.path in self.schema.attributes
        ]


def _is_intact(table: pa.Table) -> bool:
    """Whether its texts are UTF-8, which Arrow requires and Spark does not ensure."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _object(text: bytes) -> JsonObject | None:
    """The JSON object of a text; None if it is none, or has a key twice."""
    try:
        msgspec.json.decode(text)  # refuses lone surrogates, which the exact reader leaves to events
        return parse_text(text.decode())
    except (msgspec.DecodeError, JsonError, LimitExceeded, RecursionError):
        return None


def _refused(error: EventError | LimitExceeded) -> dict[str, str]:
    """The reason for a row that no event can hold."""
    if isinstance(error, EventError):
        path, message = error.path, f"expected {error.expected}, but got {error.found}"
    else:
        path, message = error.where, f"expected at most {error.maximum:,} {error.unit}, but got {error.size:,}"
    return reason(path or "$", "event", message)


def reason(attribute: str, kind: str, message: str) -> dict[str, str]:
    """Return a reason as a cell of `REASONS`."""
    return {"attribute": attribute, "kind": kind, "message": message}
