"""Events of any source, judged before they are matched: what is valid goes on, everything else is a dead letter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from whimbrel.cli.pipeline.inputs import TEXT, InputFormat, quoted, read, read_stream, with_keys

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

LOG_EVENT, LOG_KEY = "event", "offset"
_REASON = "array<struct<attribute: string, kind: string, message: string>>"


@dataclass(frozen=True, slots=True)
class EventSource:
    """Where events come from, and what they are said to be."""

    path: str
    format: InputFormat
    key: list[str] | None
    schema: str | None
    files_at_once: int | None = None
    """Of a stream: files read by one micro-batch; None for a batch."""


@dataclass(frozen=True, slots=True)
class SourceEvents:
    """Events with their judgement, if they have one; their key, and the column of JSON where they are text."""

    frame: DataFrame
    is_judged: bool
    key: list[str] | None
    json: str | None

    def observed(self, observation: object) -> SourceEvents:
        """The same, with `events` and `dead` counted on the way."""
        from pyspark.sql import functions as sf

        dead = sf.count_if(sf.size("reasons") > 0) if self.is_judged else sf.count_if(sf.lit(False))
        counts: list[Column] = [sf.count(sf.lit(1)).alias("events"), dead.alias("dead")]
        return SourceEvents(self.frame.observe(observation, *counts), self.is_judged, self.key, self.json)  # type: ignore[arg-type]

    @property
    def valid(self) -> DataFrame:
        """What can be matched."""
        from whimbrel.pipeline.stages.conform.conform import Conformed

        return Conformed(self.frame).valid if self.is_judged else self.frame

    @property
    def dead_letters(self) -> DataFrame | None:
        """The rest, with reasons; None where every row is an event."""
        from whimbrel.pipeline.stages.conform.conform import Conformed

        return Conformed(self.frame).dead_letters if self.is_judged else None


def read_events(spark: SparkSession, source: EventSource) -> SourceEvents:
    """The events of a source, batch or stream; those of JSON and those with a schema are judged."""
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
    if source.schema is not None:
        from whimbrel.pipeline import conform

        judged = conform(frame, schema_of(source.schema), unknown="drop", json=json).judged
        return SourceEvents(judged, True, key, None)
    if json is None:
        return SourceEvents(frame, False, key, None)
    if source.format is InputFormat.JSON:
        frame = with_keys(frame, key, read(spark, source.path, source.format))
        key = [name for name in frame.columns if name != TEXT]
    return SourceEvents(_judged(frame, json), True, key, json)


def _judged(frame: DataFrame, json: str) -> DataFrame:
    """Rows as `conform` judges them, by the one rule that the text is a JSON object."""
    from pyspark.sql import functions as sf

    text = quoted(json)
    is_object = sf.try_variant_get(sf.try_parse_json(text), "$", "map<string, variant>").isNotNull()
    message = sf.concat(sf.lit("expected a JSON object, but got '"), sf.substring(text, 1, 80), sf.lit("'"))
    reason = sf.struct(sf.lit(json).alias("attribute"), sf.lit("json").alias("kind"), message.alias("message"))
    none = sf.array().cast(_REASON)
    return frame.select(
        sf.struct(*map(quoted, frame.columns)).alias("conformed"),
        sf.when(is_object, none).otherwise(sf.array(reason).cast(_REASON)).alias("reasons"),
        text.alias("event"),
    )


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
        raise typer.BadParameter(problem, param_hint="--schema") from None
    if not isinstance(found, StructType):
        raise typer.BadParameter(f"Expected columns with types, but got {option!r}", param_hint="--schema")
    return found
