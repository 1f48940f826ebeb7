"""Backtest: what a filter would have matched, before anybody subscribes with it.

One pass matches the filter against the events; then its hits are matched against the existing subscriptions. Only
counts and a few samples come to the driver.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from types import NoneType
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StringType, StructType, TimestampType

from whimbrel.model.filter import Filter
from whimbrel.model.subscription import Id
from whimbrel.pipeline.errors import ColumnError, check_integer, check_type
from whimbrel.pipeline.index.compile import compile_index
from whimbrel.pipeline.index.store import IndexStore
from whimbrel.pipeline.index.workers import open_version
from whimbrel.pipeline.spark.dataframes import FIELDS_DIFFER, check_frame, positional, repeated
from whimbrel.pipeline.spark.expressions import name, variant_field, variant_get
from whimbrel.pipeline.stages.conform.exact_cast import exact_cast
from whimbrel.pipeline.stages.match.match import match
from whimbrel.pipeline.stages.match.match_options import MatchOptions

Relation = Literal["same", "covers", "covered by", "overlaps"]

_ROW, _DAY, _LISTS = "__whimbrel_row", "day", "subscriptions"


@dataclass(frozen=True, slots=True)
class Day:
    """The numbers of events and hits of a day in UTC; `day` is None for events without a time."""

    day: str | None
    events: int
    hits: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """A subscription that matches some of the hits: how many, and the relation of its filter to the tested one.

    `covers`: it matches every event that the tested filter matches; `covered by`: the reverse; `overlaps`: neither is
    known (see `Filter.covers`).
    """

    subscription: Id
    filter: str
    hits: int
    relation: Relation


@dataclass(frozen=True, slots=True)
class Backtest:
    """The result. `days` is empty without a time; `known` counts the hits that some subscription matches already."""

    filter: str
    events: int
    hits: int
    days: tuple[Day, ...]
    samples: tuple[str, ...]
    subscriptions: int | None = None
    rejected: int = 0
    known: int | None = None
    overlaps: tuple[Overlap, ...] = ()

    @property
    def share(self) -> float:
        """The share of events that are hits; 0 without events."""
        return self.hits / self.events if self.events else 0.0

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "share": self.share}


def backtest(
    filter: object,
    events: DataFrame,
    subscriptions: DataFrame | str | os.PathLike[str] | None = None,
    *,
    dialect: str = "sql",
    time: str | None = None,
    json: str | None = None,
    timestamps: Collection[str] = (),
    samples: int = 5,
    overlaps: int = 20,
) -> Backtest:
    """Match a filter against events at rest, and its hits against `subscriptions`: a DataFrame, or an index's path.

    `time` names an attribute with timestamps, dates, or texts of them; hits are counted by its day in UTC. The result
    has `samples` hits as JSON, and the `overlaps` subscriptions that match most of the hits. `json` and `timestamps`
    are options of `match`. A bad filter is a FilterError with the place.
    """
    check_frame("events", events, streaming=False)
    check_type("time", time, (str, NoneType), "the name of an attribute")
    if not isinstance(subscriptions, str | os.PathLike | None):
        check_frame("subscriptions", subscriptions, streaming=False)
    check_integer("samples", samples, 0)
    check_integer("overlaps", overlaps, 0)
    MatchOptions(json=json, timestamps=timestamps).transfer(
        events.schema, ()
    )  # an error if `json` is no column of text
    parsed = Filter.parse(filter, dialect)
    renamed, columns = positional(events)
    day = sf.lit(None).cast("string") if time is None else sf.expr(_day(events.schema, time, json))
    row = sf.struct(day.alias(_DAY), *columns).alias(_ROW)
    keyed = renamed.select(*columns, row).toDF(*events.columns, _ROW)
    candidate = events.sparkSession.createDataFrame([(0, str(parsed))], "id bigint, filter string")
    hits = match(keyed, candidate, key=_ROW, json=json, timestamps=timestamps).select(f"{_ROW}.*").persist()
    try:
        days = _days(renamed.select(day.alias(_DAY)), hits)
        named = [sf.col(at).alias(name) for at, name in zip(renamed.columns, events.columns, strict=True)]
        shown = sf.to_json(sf.struct(*named)) if json is None else sf.col(_column(events.schema, json))
        result = Backtest(
            filter=str(parsed),
            events=sum(one.events for one in days),
            hits=sum(one.hits for one in days),
            days=() if time is None else tuple(days),
            samples=tuple(row[0] for row in hits.select(shown).limit(samples).collect()),
        )
        if subscriptions is None:
            return result
        only_hits = hits.drop(_DAY).toDF(*events.columns)
        return _compared(result, parsed, only_hits, subscriptions, json, timestamps, overlaps)
    finally:
        hits.unpersist()


def _days(events: DataFrame, hits: DataFrame) -> list[Day]:
    """The events and hits of each day, in order; events without a time come first."""
    of_events, of_hits = (
        {row[_DAY]: row["count"] for row in one.groupBy(_DAY).count().collect()} for one in (events, hits)
    )
    return [Day(day, of_events[day], of_hits.get(day, 0)) for day in sorted(of_events, key=lambda day: day or "")]


def _day(schema: StructType, time: str, json: str | None) -> str:
    """The day of an event, as an expression; null where it has no time."""
    kind: DataType = StringType()
    if json is not None:
        value = variant_get(
            reduce(variant_field, time.split("."), f"try_parse_json({_column(schema, json)})"), "string"
        )
    else:
        value, kind = _attribute(schema, time, _column)
    cast = exact_cast(value, kind, TimestampType())
    if cast is None:
        raise ColumnError(time, "timestamps, dates, or texts of them", kind.simpleString())
    # Days are those of UTC, whatever zone the session has.
    return f"CAST(date_from_unix_date(CAST(floor(unix_micros({cast.value}) / 86400000000) AS int)) AS string)"


def _attribute(schema: StructType, path: str, expression: Callable[[StructType, str], str]) -> tuple[str, DataType]:
    """A column, or a field below it, by its path; `expression` is how Spark calls it."""
    if path in schema.names:
        return expression(schema, path), schema[path].dataType
    first, _, rest = path.partition(".")
    kind = schema[first].dataType if first in schema.names else None
    if not rest or not isinstance(kind, StructType):
        raise ColumnError(path, "a column or field of this name", f"the columns {', '.join(schema.names)}")
    below, found = _attribute(kind, rest, _field)
    return f"{expression(schema, first)}.{below}", found


def _column(schema: StructType, column: str) -> str:
    """The name that `positional` gives to a column."""
    return f"c{schema.names.index(column)}"


def _field(schema: StructType, field: str) -> str:
    """The quoted name of a field of a struct; ColumnError if Spark cannot tell it from others."""
    twice = repeated(schema.names)
    if field in twice:
        raise ColumnError(field, FIELDS_DIFFER, ", ".join(twice))
    return name(field)


def _compared(
    result: Backtest,
    filter: Filter,
    hits: DataFrame,
    subscriptions: DataFrame | str | os.PathLike[str],
    json: str | None,
    timestamps: Collection[str],
    most: int,
) -> Backtest:
    """The result, with the subscriptions that match its hits."""
    with ExitStack() as stack:
        rejected = 0
        if isinstance(subscriptions, str | os.PathLike):
            path = IndexStore(subscriptions).path
        else:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whimbrel-backtest-")))
            rejected = compile_index(subscriptions, path).rejected
        row = hits.withColumn(_ROW, sf.lit(0))
        lists = match(row, path, key=_ROW, form="lists", json=json, timestamps=timestamps).select(_LISTS).persist()
        stack.callback(lists.unpersist)
        known = lists.where(sf.size(_LISTS) > 0).count()
        pairs = lists.select(sf.explode(_LISTS).alias("id")).groupBy("id").count()
        counts = {row["id"]: row["count"] for row in pairs.orderBy(sf.desc("count"), "id").limit(most).collect()}
        manifest, shards = open_version(path, IndexStore(path).manifest().version)
        others = {id: next(shard[id].filter for shard in shards if id in shard) for id in counts}
    overlaps = tuple(Overlap(id, str(others[id]), counts[id], _relation(others[id], filter)) for id in counts)
    return replace(result, subscriptions=manifest.count, rejected=rejected, known=known, overlaps=overlaps)


def _relation(other: Filter, filter: Filter) -> Relation:
    """The relation of another filter to the tested one."""
    covers, covered = other.covers(filter), filter.covers(other)
    if covers and covered:
        return "same"
    return "covers" if covers else "covered by" if covered else "overlaps"
