"""Conform: events against a schema, the first stage. What is invalid goes to a table of dead letters; nothing is lost.

Each row is judged by itself, in the JVM, so the stage works on batches and on streams. Valid rows have the columns of
the schema in its order and in its types; every other row is kept as JSON with all reasons why it is not one of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructType

from whimbrel.pipeline.checks import (
    Checked,
    Place,
    Unknown,
    check_fields,
    check_parsed,
    object_fields,
    object_names,
    shown,
)
from whimbrel.pipeline.errors import ColumnError, OptionError, PipelineError
from whimbrel.pipeline.expressions import literal, name, struct

CONFORMED, REASONS, ORIGINAL = "conformed", "reasons", "event"
_PARSED, _NAMES = "__whimbrel_parsed", "__whimbrel_names"


class ConformError(PipelineError):
    """Events and schema cannot be compared at all, whatever the rows hold."""


@dataclass(frozen=True, slots=True)
class Conformed:
    """The judged rows, and the two tables that are selected from them; all three are lazy.

    `judged` has `conformed` (a struct of the schema), `reasons` (none for a valid row) and `event` (the row as JSON).
    Who writes both tables from one pass persists `judged` before, or does so in foreachBatch.
    """

    judged: DataFrame

    @property
    def valid(self) -> DataFrame:
        """The rows that conform, as declared."""
        return self.judged.where(sf.size(REASONS) == 0).select(f"{CONFORMED}.*")

    @property
    def dead_letters(self) -> DataFrame:
        """The other rows: `event` as JSON, and `reasons`, each with attribute, kind and message."""
        return self.judged.where(sf.size(REASONS) > 0).select(ORIGINAL, REASONS)


def conform(events: DataFrame, schema: StructType, *, unknown: Unknown = "keep", json: str | None = None) -> Conformed:
    """Judge every event by the schema; `json` names a column of JSON objects that hold the fields.

    Kinds of reasons: `missing` (a field that may not be null is not there), `null` (it is, and is null), `type`,
    `value` (of the right type, but the declared one cannot hold it), `unknown` (with unknown="report"), `json` (the
    text is no JSON object). Nothing is cast that would change: '5' is no number, 5.5 no bigint, 2**53 + 1 no double.
    Texts are read as timestamps and dates where the schema has those. Unknown columns and fields are kept, dropped, or
    reported; from JSON they are kept as the text itself.
    """
    _check_names("the schema", schema.names)
    _check_names("the events", events.columns)
    if unknown not in get_args(Unknown):
        raise OptionError("unknown", unknown, f"one of {', '.join(get_args(Unknown))}")
    columns = {key: name(key) for key in events.columns}
    if json is None:
        checked = check_fields(events.schema, columns, schema, unknown, Place())
    else:
        _check_json(events, schema, json)
        events = _parsed(events, schema, json)
        checked = _check_rows_of_json(columns, schema, unknown, json)
    row = f"to_json({struct(columns)}, map('ignoreNullFields', 'false'))"
    return Conformed(
        events.select(
            sf.expr(checked.value).alias(CONFORMED),
            sf.expr(checked.reasons()).alias(REASONS),
            sf.expr(row).alias(ORIGINAL),
        )
    )


def _parsed(events: DataFrame, schema: StructType, json: str) -> DataFrame:
    """With columns for the fields, still untyped, and for the names of all fields of the objects.

    A row is taken apart by generators that give one row each: Spark writes an expression that is used ten times ten
    times into its plan, and would parse the text as often, but it runs a generator once.
    """
    whole = events.select("*", sf.expr(f"explode(array(try_parse_json({name(json)})))").alias(_PARSED))
    parts = {_part(place): field for place, field in enumerate(object_fields(_PARSED, schema).values())}
    return whole.select("*", sf.expr(f"inline(array({struct({_NAMES: object_names(_PARSED), **parts})}))"))


def _part(place: int) -> str:
    return f"{_PARSED}_{place}"


def _check_rows_of_json(columns: dict[str, str], schema: StructType, unknown: Unknown, json: str) -> Checked:
    """The fields of the parsed objects, and beside them the other columns."""
    is_object = f"{_NAMES} IS NOT NULL"
    fields = {key: _part(place) for place, key in enumerate(schema.names)}
    checked = check_parsed(fields, _NAMES, schema, unknown, Place(None, is_object))
    got = f"coalesce(concat('\\'', {shown(columns[json])}, '\\''), 'null')"
    message = f"concat('expected a JSON object, but got ', {got})"
    no_object = Place(literal(json)).judged([(is_object, "", ""), ("TRUE", "json", message)])
    beside = {key: value for key, value in columns.items() if key != json or unknown == "keep"}
    return Checked(struct({**checked.fields, **beside}), [no_object, *checked.one], checked.many)


def _check_json(events: DataFrame, schema: StructType, json: str) -> None:
    kinds = {field.name: field.dataType for field in events.schema.fields}
    if not isinstance(kinds.get(json), StringType):
        found = ", ".join(f"{key} {kind.simpleString()}" for key, kind in kinds.items())
        raise ColumnError(json, "a string column with JSON", f"the columns {found}")
    both = [key for key in schema.names if key in kinds]
    if both:
        raise ConformError(f"Expected fields of JSON beside the columns, but both have {', '.join(both)}")


def _check_names(what: str, names: Collection[str]) -> None:
    twice = sorted({key for key in names if list(names).count(key) > 1})
    if twice or not names:
        got = f"{', '.join(twice)} twice" if twice else "none"
        raise ConformError(f"Expected {what} to have columns, each name once, but got {got}")
