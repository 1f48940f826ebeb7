"""Conform: the first stage, which checks events against a schema. Invalid events go to a table of dead letters.

Each row is checked by itself, so the stage works on batches and on streams. A Spark schema is checked in the JVM
(`type_checks.py`); valid rows have its columns, in its order and types. An integrated event schema is checked in Python
(`schema_checks.py`); valid rows stay as they are. All other rows are kept as JSON, with all reasons.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass
from types import NoneType
from typing import get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from whimbrel.model.schema import Schema
from whimbrel.pipeline.errors import BadOption, ColumnError, PipelineError, check_type
from whimbrel.pipeline.spark.dataframes import check_frame, positional
from whimbrel.pipeline.spark.expressions import literal, name, struct
from whimbrel.pipeline.spark.transfer import READABLE, plan_transfer
from whimbrel.pipeline.stages.conform import type_checks
from whimbrel.pipeline.stages.conform.schema_checks import SchemaCheck
from whimbrel.pipeline.stages.conform.type_checks import CheckedValue, Unknown, ValuePlace

CONFORMED, REASONS, ORIGINAL = "conformed", "reasons", "event"
_PARSED, _NAMES = "__whimbrel_parsed", "__whimbrel_names"
REASONS_TYPE = ArrayType(StructType([StructField(key, StringType()) for key in ("attribute", "kind", "message")]))


class ConformError(PipelineError):
    """Events and schema cannot be compared at all, whatever the rows hold."""


@dataclass(frozen=True, slots=True)
class Conformed:
    """The checked rows, and the two tables that are selected from them; all three are lazy.

    `judged` has `conformed` (a struct of the schema), `reasons` (none for a valid row) and `event` (the row as JSON).
    To write both tables from one pass, persist `judged` first, or write them in foreachBatch.
    """

    judged: DataFrame

    @property
    def valid(self) -> DataFrame:
        """The valid rows, with the columns of the schema."""
        return self.judged.where(sf.size(REASONS) == 0).select(f"{CONFORMED}.*")

    @property
    def dead_letters(self) -> DataFrame:
        """The invalid rows: `event` as JSON, and `reasons`, each with attribute, kind and message."""
        return self.judged.where(sf.size(REASONS) > 0).select(ORIGINAL, REASONS)


def conform(
    events: DataFrame, schema: StructType | Schema, *, unknown: Unknown | None = None, json: str | None = None
) -> Conformed:
    """Check every event against the schema; `json` names a column of JSON objects that hold the fields.

    By a Spark schema, kinds of reasons are: `missing` (a field that may not be null is not there), `null` (it is, and
    is null), `type`, `value` (of the right type, but the declared one cannot hold it), `unknown` (with
    unknown="report"), `json` (the text is no JSON object). Nothing is cast that would change: '5' is no number, 5.5 no
    bigint, 2**53 + 1 no double. Texts are read as timestamps and dates where the schema has those. Unknown columns and
    fields are kept (the default), dropped, or reported; from JSON they are kept as the text itself.

    By an integrated event schema, as it is when this is called, kinds are its rules `R1`, `R2` and `R3`, `json`, and
    `event` (a row that no event can hold). Valid rows keep their columns, names of types and of values included.
    Unknown columns are reported (the default), or are no part of the event and kept or dropped.
    """
    if unknown not in (None, *get_args(Unknown)):
        raise BadOption("unknown", unknown, f"one of {', '.join(get_args(Unknown))}")
    check_frame("events", events)
    check_type("schema", schema, (StructType, Schema), "a StructType or a Schema")
    check_type("json", json, (str, NoneType), "the name of a column")
    _check_names("the events", events.columns)
    if isinstance(schema, Schema):
        return _by_rules(events, copy(schema), unknown or "report", json)
    return _by_types(events, schema, unknown or "keep", json)


def _by_types(events: DataFrame, schema: StructType, unknown: Unknown, json: str | None) -> Conformed:
    _check_names("the schema", schema.names)
    renamed, _ = positional(events)
    columns = dict(zip(events.columns, renamed.columns, strict=True))
    if json is None:
        checked = type_checks.check_fields(events.schema, columns, schema, unknown, ValuePlace())
    else:
        _check_json(events, json, schema.names)
        renamed = _parsed(renamed, schema, columns[json])
        checked = _check_rows_of_json(columns, schema, unknown, json)
    return _judged(renamed, checked.value, checked.reasons(), columns)


def _by_rules(events: DataFrame, schema: Schema, unknown: Unknown, json: str | None) -> Conformed:
    names = events.columns
    if json is None:
        places = _places(events, schema, unknown)
    else:
        _check_json(events, json)
        if unknown == "drop":
            raise BadOption("unknown", unknown, "keep or report where events are JSON, which stays as it is")
        places = [names.index(json)]
    check = SchemaCheck(
        schema, tuple(places), tuple(names[place] for place in places), unknown == "report", json is not None
    )
    renamed, _ = positional(events)
    fields = [StructField(at, field.dataType) for at, field in zip(renamed.columns, events.schema.fields, strict=True)]
    columns = dict(zip(names, renamed.columns, strict=True))
    kept = {names[place]: renamed.columns[place] for place in places} if unknown == "drop" else columns
    judged = renamed.mapInArrow(check, StructType([*fields, StructField(REASONS, REASONS_TYPE, nullable=False)]))
    return _judged(judged, struct(kept), REASONS, columns)


def _places(events: DataFrame, schema: Schema, unknown: Unknown) -> list[int]:
    """The numbers of the columns that are part of the event."""
    names = (*schema.attributes, schema.type_attribute)  # of `d.e.x`, the columns may be `d`, `d.e` and `d.e.x`
    roots = {name[:end] for name in names for end, mark in enumerate(f"{name}.") if mark == "."}
    known = [place for place, column in enumerate(events.columns) if column in roots]
    if not known:
        raise ConformError(f"Expected columns with attributes of the schema, but got {', '.join(events.columns)}")
    places = list(range(len(events.columns))) if unknown == "report" else known
    unreadable = plan_transfer(StructType([events.schema.fields[place] for place in places]), None).unreadable
    for column, kind in unreadable.items():
        raise ColumnError(column, f"a column of {READABLE}", kind)
    return places


def _judged(events: DataFrame, value: str, reasons: str, columns: dict[str, str]) -> Conformed:
    row = f"to_json({struct(columns)}, map('ignoreNullFields', 'false'))"
    return Conformed(
        events.select(sf.expr(value).alias(CONFORMED), sf.expr(reasons).alias(REASONS), sf.expr(row).alias(ORIGINAL))
    )


def _parsed(events: DataFrame, schema: StructType, json: str) -> DataFrame:
    """Add columns for the fields, as variants, and for the names of all fields of the objects.

    Generators that give one row each do the parsing: Spark would copy an expression that is used ten times ten times
    into its plan, and parse the text as often, but it runs a generator once.
    """
    whole = events.select("*", sf.expr(f"explode(array(try_parse_json({name(json)})))").alias(_PARSED))
    parts = {_part(place): field for place, field in enumerate(type_checks.object_fields(_PARSED, schema).values())}
    return whole.select("*", sf.expr(f"inline(array({struct({_NAMES: type_checks.object_names(_PARSED), **parts})}))"))


def _part(place: int) -> str:
    return f"{_PARSED}_{place}"


def _check_rows_of_json(columns: dict[str, str], schema: StructType, unknown: Unknown, json: str) -> CheckedValue:
    """Check the fields of the parsed objects; the other columns stay beside them."""
    is_object = f"{_NAMES} IS NOT NULL"
    fields = {key: _part(place) for place, key in enumerate(schema.names)}
    checked = type_checks.check_parsed(fields, _NAMES, schema, unknown, ValuePlace(None, is_object))
    got = f"coalesce(concat('\\'', {type_checks.shown(columns[json])}, '\\''), 'null')"
    message = f"concat('expected a JSON object, but got ', {got})"
    no_object = ValuePlace(literal(json)).first_reason([(is_object, "", ""), ("TRUE", "json", message)])
    beside = {key: value for key, value in columns.items() if key != json or unknown == "keep"}
    return CheckedValue(struct({**checked.fields, **beside}), [no_object, *checked.one], checked.many)


def _check_json(events: DataFrame, json: str, fields: Collection[str] = ()) -> None:
    kinds = {field.name: field.dataType for field in events.schema.fields}
    if not isinstance(kinds.get(json), StringType):
        found = ", ".join(f"{key} {kind.simpleString()}" for key, kind in kinds.items())
        raise ColumnError(json, "a string column with JSON", f"the columns {found}")
    both = [key for key in fields if key in kinds]
    if both:
        raise ConformError(f"Expected fields of JSON beside the columns, but both have {', '.join(both)}")


def _check_names(what: str, names: Collection[str]) -> None:
    twice = sorted({key for key in names if list(names).count(key) > 1})
    if twice or not names:
        got = f"{', '.join(twice)} twice" if twice else "none"
        raise ConformError(f"Expected {what} to have columns, each name once, but got {got}")
