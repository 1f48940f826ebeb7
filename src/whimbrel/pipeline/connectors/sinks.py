"""Sinks: where micro-batches of rows go, and how often. A new target is a class with the method `write`.

Spark repeats a micro-batch after a crash, with the same query id, batch id and rows. `FolderSink` renames a complete
folder to its place, so that it is written exactly once. `RecordedSink` calls a function and then writes a record. If a
crash comes between the two, the function is called again with the same ids; it can be exactly once by using them.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable
from urllib.parse import quote

from whimbrel.pipeline.errors import BadOption, check_flag, check_seconds, check_type
from whimbrel.storage.atomic import make_directory, place_directory, sync

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WriteRows: TypeAlias = "Callable[[DataFrame, str, int], None]"
"""A function of the rows, the query id and the batch id."""


@runtime_checkable
class Sink(Protocol):
    """Takes micro-batches. The same query and batch always come with the same rows, and may come again."""

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        """Deliver the rows, unless those of this query and batch were delivered before."""


@dataclass(frozen=True, slots=True)
class FolderSink:
    """Files by micro-batch: `<path>/query=<id>/batch=<number>/`, which readers see as two more columns.

    One driver writes a query; a batch is complete where its folder is. A crash may leave files below `_staging`, which
    readers of Spark ignore.
    """

    path: Path
    format: str = "parquet"
    partition_by: tuple[str, ...] = ()

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        """Write the files and move them to their place, in one step; do nothing if they are there."""
        place = self.path / f"query={quote(query, safe='')}" / f"batch={batch}"
        if place.exists():
            return
        staged = self.path / "_staging" / f"{quote(query, safe='')}-{batch}-{secrets.token_hex(4)}"
        try:
            rows.write.format(self.format).partitionBy(*self.partition_by).save(str(staged))
            make_directory(place.parent)
            place_directory(staged, place)
        finally:
            shutil.rmtree(staged, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class RecordedSink:
    """Calls a function for each micro-batch, and records below `path` for which ones it has returned."""

    path: Path
    write_rows: WriteRows

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        """Call the function, then record it; do nothing if it is recorded."""
        record = self.path / quote(query, safe="") / f"{batch:010}"
        if record.exists():
            return
        self.write_rows(rows, query, batch)
        make_directory(record.parent)
        record.touch()
        sync(record.parent)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream runs: its `checkpoint`, and `every` (seconds between micro-batches) or `once`.

    With `once` it stops when everything that is there now is done.
    """

    checkpoint: str | os.PathLike[str]
    every: float | None = None
    once: bool = False

    def __post_init__(self) -> None:
        check_type("checkpoint", self.checkpoint, (str, os.PathLike), "the path of a directory")
        check_flag("once", self.once)
        if self.every is not None:
            check_seconds("every", self.every)
            if self.once:
                raise BadOption("once", self.once, "either every or once")

    def start(self, writer: DataStreamWriter, path: str | None = None) -> StreamingQuery:
        """Start a query that writes with this writer, to this path if it writes files."""
        writer = writer.option("checkpointLocation", os.fspath(self.checkpoint))
        if self.every is not None:
            writer = writer.trigger(processingTime=f"{round(self.every * 1_000)} milliseconds")
        elif self.once:
            writer = writer.trigger(availableNow=True)
        return writer.start(path)
