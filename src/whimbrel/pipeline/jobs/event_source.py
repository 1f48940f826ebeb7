"""Events of files or a log for a job. JSON and events with a schema are checked; those that fail are dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.model.matcher import Errors
from whimbrel.pipeline.connectors.files import TEXT, InputFormat, read, read_stream, with_keys
from whimbrel.pipeline.errors import PipelineError
from whimbrel.pipeline.stages.conform.schema_checks import REASONS, Reasons, reason

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

LOG_EVENT, LOG_KEY = "event", "offset"
_JUDGED = "__whimbrel_reasons"


class BadSchemaText(PipelineError):
    """A text that should be the schema of events, and is not."""


@dataclass(frozen=True, slots=True)
class EventInput:
    """Where events come from, their key, and the schema they must have."""

    path: str
    format: InputFormat
    key: list[str] | None
    schema: str | None
    files_at_once: int | None = None
    """The number of files that a micro-batch reads; None for a batch."""


@dataclass(frozen=True, slots=True)
class SourceEvents:
    """Events with the outcome of the checks if `is_checked`, their key, and the column of JSON if they are text."""

    frame: DataFrame
    is_checked: bool
    key: list[str] | None
    json: str | None

    def observed(self, observation: object) -> SourceEvents:
        """The same events; Spark counts `events` and `dead` while it reads them."""
        from pyspark.sql import functions as sf

        dead = sf.count_if(sf.size("reasons") > 0) if self.is_checked else sf.count_if(sf.lit(False))
        counts: list[Column] = [sf.count(sf.lit(1)).alias("events"), dead.alias("dead")]
        return replace(self, frame=self.frame.observe(observation, *counts))  # type: ignore[arg-type]

    @property
    def valid(self) -> DataFrame:
        """The events that can be matched."""
        from whimbrel.pipeline.stages.conform.conform import Conformed

        return Conformed(self.frame).valid if self.is_checked else self.frame

    @property
    def dead_letters(self) -> DataFrame | None:
        """The refused events with their reasons; None where every row is an event."""
        from whimbrel.pipeline.stages.conform.conform import Conformed

        return Conformed(self.frame).dead_letters if self.is_checked else None


def read_events(spark: SparkSession, source: EventInput) -> SourceEvents:
    """Read the events of a source, as a batch or a stream. JSON and events with a schema are checked."""
    if source.format is InputFormat.LOG:
        from whimbrel.pipeline.connectors.log_source import WhimbrelSource

        spark.dataSource.register(WhimbrelSource)
    if source.files_at_once is None:
        frame = read(spark, source.path, source.format)
    else:
        frame = read_stream(spark, source.path, source.format, source.files_at_once)
    json = {InputFormat.JSON: TEXT, InputFormat.LOG: LOG_EVENT}.get(source.format)
    key = source.key
    if source.format is InputFormat.LOG:
        key = key or [LOG_KEY]
        frame = frame.select(LOG_KEY, LOG_EVENT)
    schema = None if source.schema is None else schema_of(source.schema)
    if json is not None:
        free = _free_name(json, [*(key or []), *(schema.names if schema else [])])
        frame, json = frame.withColumnRenamed(json, free), free
    if schema is not None:
        from whimbrel.pipeline.stages.conform.conform import conform

        judged = conform(frame, schema, unknown="drop", json=json).judged
        return SourceEvents(judged, True, key, None)
    if json is None:
        return SourceEvents(frame, False, key, None)
    if source.format is InputFormat.JSON:
        frame = with_keys(frame, json, key, read(spark, source.path, source.format))
        key = [name for name in frame.columns if name != json]
    return SourceEvents(_checked(frame, json), True, key, json)


def _free_name(name: str, taken: Iterable[str]) -> str:
    """The name, with underscores behind it if it is taken; Spark does not tell names apart that differ in case."""
    others = {one.lower() for one in taken}
    while name.lower() in others:
        name += "_"
    return name


def _checked(frame: DataFrame, json: str) -> DataFrame:
    """Check that each text is an event, as `match` reads it; columns as `conform` makes them."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructField, StructType

    from whimbrel.pipeline.spark.expressions import column
    from whimbrel.pipeline.stages.conform.conform import CONFORMED, ORIGINAL, REASONS, REASONS_TYPE

    check = JsonCheck(frame.columns.index(json), json)
    judged = frame.mapInArrow(check, StructType([*frame.schema, StructField(_JUDGED, REASONS_TYPE)]))
    event = sf.struct(*map(column, frame.columns)).alias(CONFORMED)
    return judged.select(event, sf.col(_JUDGED).alias(REASONS), column(json).alias(ORIGINAL))


@dataclass(frozen=True, slots=True)
class JsonCheck:
    """Sent to the workers: adds the reason why the text at `place`, in a column of that name, is no event."""

    place: int
    name: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from whimbrel.pipeline.index.workers import settle

        index = _json_checker()
        for batch in batches:
            errors: Errors = []
            for _ in index.match_blocks(batch.column(self.place), 1, errors):
                pass
            found: list[Reasons] = [[]] * batch.num_rows
            for row, error in errors:
                found[row] = [reason(self.name, "json", str(error.at_row(None)))]
            columns = [*batch.columns, pa.array(found, REASONS)]
            yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, _JUDGED])
        settle()


@cache
def _json_checker() -> Index:
    """An index that reads texts to their end, and looks for nothing in them."""
    index = Index()
    index.add_many([(0, "whimbrel = 1")])
    index.merge()
    return index


def schema_of(option: str) -> StructType:
    """The schema of a DDL text such as `id BIGINT, price DOUBLE`, or of the file with it."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    path = Path(option)
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else option
        found = StructType.fromDDL(text)
    except (PySparkException, OSError, UnicodeDecodeError):
        problem = f"Expected columns such as 'id BIGINT, price DOUBLE', or a file with them, but got {option!r}"
        raise BadSchemaText(problem) from None
    if not isinstance(found, StructType):
        raise BadSchemaText(f"Expected columns with types, but got {option!r}")
    return found
