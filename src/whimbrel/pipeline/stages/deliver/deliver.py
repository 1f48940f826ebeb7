"""Deliver: the last stage, which writes matches. Exactly once into files, at least once elsewhere.

files as they come    Spark's own file sink: exactly once, and its log says which files count
files by micro-batch  one folder for each (`FolderSink`): exactly once
a function            called with each micro-batch; replays of what was delivered are skipped (`RecordedSink`)
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from whimbrel.pipeline.connectors.sinks import FolderSink, FunctionSink, RecordedSink, Sink, WriteRows
from whimbrel.pipeline.errors import OptionError
from whimbrel.pipeline.index.store import local_path
from whimbrel.pipeline.stages.deliver.delivered_rows import DeliveredRows, Group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Target: TypeAlias = "str | os.PathLike[str] | Sink | WriteRows"


def deliver(
    matches: DataFrame,
    to: Target,
    *,
    format: str = "parquet",
    partition_by: str | Sequence[str] = (),
    group: Group | None = None,
    owners: DataFrame | None = None,
    events: DataFrame | None = None,
    run: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float | None = None,
    once: bool = False,
) -> StreamingQuery | None:
    """Deliver the matches of `match` or `match_stream`. A stream is started and its query returned.

    `to` is a directory, a function `(rows, query, batch)`, or a `Sink`. `group`, `owners` and `events` choose the rows,
    see `DeliveredRows`; `partition_by` names columns that become folders, such as subscription or owner.

    A stream needs `checkpoint`, and takes `every` (seconds between micro-batches) or `once` (stop when everything that
    is there now is delivered). At rest, `run` is the query id, with batch 0: if the same run was delivered before,
    nothing is written. Without it the directory must not exist yet.
    """
    files = _Files(format, (partition_by,) if isinstance(partition_by, str) else tuple(partition_by))
    shape = DeliveredRows(group, owners, events)
    if matches.isStreaming:
        if run is not None:
            raise OptionError("run", run, "none with a stream, whose checkpoint has an id")
        if checkpoint is None:
            raise OptionError("checkpoint", None, "a directory, where the stream notes how far it is")
        if every is not None and once:
            raise OptionError("once", once, "either every or once")
        writer = _stream_writer(matches, to, files, shape, os.fspath(checkpoint))
        if every is not None:
            writer = writer.trigger(processingTime=f"{round(every * 1_000)} milliseconds")
        elif once:
            writer = writer.trigger(availableNow=True)
        return writer.start()
    if checkpoint is not None or every is not None or once:
        raise OptionError("matches", "a DataFrame at rest", "a stream, with checkpoint, every or once")
    rows = shape(matches)
    if run is None and isinstance(to, str | os.PathLike):
        rows.write.format(format).partitionBy(*files.partition_by).mode("errorifexists").save(os.fspath(to))
    else:
        _sink(to, files, None).write(rows, run or secrets.token_hex(8), 0)
    return None


@dataclass(frozen=True, slots=True)
class _Files:
    """The format of files and the columns that become folders."""

    format: str
    partition_by: tuple[str, ...]


def _stream_writer(
    matches: DataFrame, to: Target, files: _Files, shape: DeliveredRows, checkpoint: str
) -> DataStreamWriter:
    if isinstance(to, str | os.PathLike) and shape.group is None and shape.events is None:
        writer = shape(matches).writeStream.format(files.format).option("path", os.fspath(to))
        writer = writer.partitionBy(*files.partition_by)
    else:
        sink = _sink(to, files, local_path(checkpoint))
        writer = matches.writeStream.foreachBatch(_BatchWriter(sink, shape, checkpoint))
    return writer.option("checkpointLocation", checkpoint)


def _sink(to: Target, files: _Files, checkpoint: Path | None) -> Sink:
    if isinstance(to, str | os.PathLike):
        return FolderSink(local_path(to), files.format, files.partition_by)
    if files.partition_by:
        raise OptionError("partition_by", files.partition_by, "none but with a directory")
    if isinstance(to, Sink):
        return to
    return FunctionSink(to) if checkpoint is None else RecordedSink(checkpoint / "delivered", to)


@dataclass(frozen=True, slots=True)
class _BatchWriter:
    """Called by foreachBatch: gives the rows of a micro-batch to the sink, with the query id."""

    sink: Sink
    shape: DeliveredRows
    checkpoint: str

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.sink.write(self.shape(rows), _query_id(self.checkpoint), batch)


def _query_id(checkpoint: str) -> str:
    """The id of a query, which its checkpoint keeps over restarts."""
    metadata = json.loads((local_path(checkpoint) / "metadata").read_text(encoding="utf-8"))
    return str(metadata["id"])
