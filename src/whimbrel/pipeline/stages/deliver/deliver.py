"""Deliver: where matches go, the last stage. Exactly once into files, at least once elsewhere.

    files as they come    Spark's own file sink: exactly once, and its log says which files count
    files by micro-batch  one folder for each, staged beside its place and renamed to it: exactly once
    a function            called with the micro-batch; a record of what was delivered lets replays skip it

Spark repeats a micro-batch after a crash, with the same query id, batch id and rows. A folder that has its place is
skipped, and a rename either has happened or not. A function may have done its work when the crash came and its record
was not yet written: it is called again then, with the same ids, and can make itself exactly once by them.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import quote

from whimbrel.pipeline.errors import OptionError, RemotePath
from whimbrel.pipeline.stages.deliver.rows import Group, Shape
from whimbrel.storage.atomic import place_directory, sync

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


@runtime_checkable
class Sink(Protocol):
    """Takes micro-batches. The same query and batch always come with the same rows, and may come again."""

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        """Deliver the rows, unless those of this query and batch have been delivered."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Files by micro-batch: `<path>/query=<id>/batch=<number>/`, which readers see as two more columns.

    One driver writes a query; a batch is complete where its folder is. What a crash leaves is below `_staging`, which
    readers of Spark pass over.
    """

    path: Path
    format: str = "parquet"
    partition_by: tuple[str, ...] = ()

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        """Write the files and give them their place, in one step; nothing if they are there."""
        place = self.path / f"query={quote(query, safe='')}" / f"batch={batch}"
        if place.exists():
            return
        staged = self.path / "_staging" / f"{quote(query, safe='')}-{batch}-{secrets.token_hex(4)}"
        try:
            rows.write.format(self.format).partitionBy(*self.partition_by).save(str(staged))
            place.parent.mkdir(parents=True, exist_ok=True)
            place_directory(staged, place)
        finally:
            shutil.rmtree(staged, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Recorded:
    """Calls a function for each micro-batch, and records below `path` which ones it has come back from."""

    path: Path
    write_rows: Callable[[DataFrame, str, int], None]

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        """Call the function, then record it; nothing if it is on record."""
        record = self.path / quote(query, safe="") / f"{batch:010}"
        if record.exists():
            return
        self.write_rows(rows, query, batch)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
        sync(record.parent)


def deliver(
    matches: DataFrame,
    to: str | os.PathLike[str] | Sink | Callable[[DataFrame, str, int], None],
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
    """Deliver what `match` or `match_stream` gave; a stream is started and its query returned.

    `to` is a directory, a function `(rows, query, batch)`, or a `Sink`. `group`, `owners` and `events` shape the rows,
    see `Shape`; `partition_by` names columns that become folders, such as subscription or owner.

    A stream needs `checkpoint`, and takes `every` (seconds between micro-batches) or `once` (stop when all there is now
    is delivered). At rest, `run` is the query id, batch 0: what the same run has delivered is skipped. Without it a
    directory must not exist yet.
    """
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    shape = Shape(group, owners, events)
    if matches.isStreaming:
        if run is not None:
            raise OptionError("run", run, "none with a stream, whose checkpoint has an id")
        return _start(matches, to, format, columns, shape, checkpoint, every, once)
    if checkpoint is not None or every is not None or once:
        raise OptionError("matches", "a DataFrame at rest", "a stream, with checkpoint, every or once")
    rows = shape(matches)
    if run is None and isinstance(to, str | os.PathLike):
        rows.write.format(format).partitionBy(*columns).mode("errorifexists").save(os.fspath(to))
    else:
        _sink(to, format, columns, None).write(rows, run or secrets.token_hex(8), 0)
    return None


def _start(
    matches: DataFrame,
    to: str | os.PathLike[str] | Sink | Callable[[DataFrame, str, int], None],
    format: str,
    partition_by: tuple[str, ...],
    shape: Shape,
    checkpoint: str | os.PathLike[str] | None,
    every: float | None,
    once: bool,
) -> StreamingQuery:
    if checkpoint is None:
        raise OptionError("checkpoint", None, "a directory, where the stream notes how far it is")
    if every is not None and once:
        raise OptionError("once", once, "either every or once")
    if isinstance(to, str | os.PathLike) and shape.group is None and shape.events is None:
        writer = shape(matches).writeStream.format(format).option("path", os.fspath(to)).partitionBy(*partition_by)
    else:
        sink = _sink(to, format, partition_by, Path(checkpoint))
        writer = matches.writeStream.foreachBatch(_Batches(sink, shape, os.fspath(checkpoint)))
    if every is not None:
        writer = writer.trigger(processingTime=f"{round(every * 1_000)} milliseconds")
    elif once:
        writer = writer.trigger(availableNow=True)
    return writer.option("checkpointLocation", os.fspath(checkpoint)).start()


def _sink(
    to: str | os.PathLike[str] | Sink | Callable[[DataFrame, str, int], None],
    format: str,
    partition_by: tuple[str, ...],
    checkpoint: Path | None,
) -> Sink:
    if isinstance(to, str | os.PathLike):
        return Folder(_local(to), format, partition_by)
    if partition_by:
        raise OptionError("partition_by", partition_by, "none but with a directory")
    if isinstance(to, Sink):
        return to
    return _Called(to) if checkpoint is None else Recorded(_local(checkpoint) / "delivered", to)


@dataclass(frozen=True, slots=True)
class _Called:
    """A function that is called once, for rows at rest."""

    write_rows: Callable[[DataFrame, str, int], None]

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        self.write_rows(rows, query, batch)


@dataclass(frozen=True, slots=True)
class _Batches:
    """What foreachBatch calls: shapes the rows of a micro-batch and hands them to the sink, with the query id."""

    sink: Sink
    shape: Shape
    checkpoint: str

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.sink.write(self.shape(rows), _query_id(self.checkpoint), batch)


def _query_id(checkpoint: str) -> str:
    """The id of a query, which its checkpoint keeps over restarts."""
    metadata = json.loads((_local(checkpoint) / "metadata").read_text(encoding="utf-8"))
    return str(metadata["id"])


def _local(path: str | os.PathLike[str]) -> Path:
    """A path of a mounted file system, where a rename is one step."""
    text = os.fspath(path)
    if "://" in text and not text.startswith("file://"):
        raise RemotePath(text)
    return Path(text.removeprefix("file://")).absolute()
