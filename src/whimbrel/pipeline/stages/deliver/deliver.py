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
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from whimbrel.pipeline.connectors.sinks import FolderSink, RecordedSink, Sink, WriteRows
from whimbrel.pipeline.errors import OptionError
from whimbrel.pipeline.index.store import local_path
from whimbrel.pipeline.stages.deliver.delivered_rows import DeliveredRows, Group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

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
    folders = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    directory = os.fspath(to) if isinstance(to, str | os.PathLike) else None
    if folders and directory is None:
        raise OptionError("partition_by", folders, "none but with a directory")
    shape = DeliveredRows(group, owners, events)
    if not matches.isStreaming:
        if checkpoint is not None or every is not None or once:
            raise OptionError("matches", "a DataFrame at rest", "a stream, with checkpoint, every or once")
        if directory is not None and run is None:
            shape(matches).write.format(format).partitionBy(*folders).mode("errorifexists").save(directory)
        else:
            _writer(to, format, folders)(shape(matches), run or secrets.token_hex(8), 0)
        return None
    if run is not None:
        raise OptionError("run", run, "none with a stream, whose checkpoint has an id")
    if checkpoint is None:
        raise OptionError("checkpoint", None, "a directory, where the stream notes how far it is")
    if every is not None and once:
        raise OptionError("once", once, "either every or once")
    if directory is not None and group is None and events is None:
        stream = shape(matches).writeStream.format(format).option("path", directory).partitionBy(*folders)
    else:
        home = local_path(checkpoint)
        write = _writer(to, format, folders, home / "delivered")

        def write_batch(rows: DataFrame, batch: int) -> None:
            query = json.loads((home / "metadata").read_text(encoding="utf-8"))["id"]  # the same after a restart
            write(shape(rows), query, batch)

        stream = matches.writeStream.foreachBatch(write_batch)
    stream = stream.option("checkpointLocation", os.fspath(checkpoint))
    if every is not None:
        stream = stream.trigger(processingTime=f"{round(every * 1_000)} milliseconds")
    elif once:
        stream = stream.trigger(availableNow=True)
    return stream.start()


def _writer(to: Target, format: str, folders: tuple[str, ...], records: Path | None = None) -> WriteRows:
    """The function that delivers a micro-batch; calls of a function are recorded below `records`."""
    if isinstance(to, str | os.PathLike):
        return FolderSink(local_path(to), format, folders).write
    if isinstance(to, Sink):
        return to.write
    return to if records is None else RecordedSink(records, to).write
