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
from types import NoneType
from typing import Literal, TypeAlias, get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from whimbrel.pipeline.connectors.sinks import FolderSink, RecordedSink, Sink, StreamOptions, WriteRows
from whimbrel.pipeline.errors import BadOption, ColumnError, check_type
from whimbrel.pipeline.index.store import local_path
from whimbrel.pipeline.spark.dataframes import check_frame, repeated
from whimbrel.pipeline.spark.expressions import column, literal, name

Target: TypeAlias = "str | os.PathLike[str] | Sink | WriteRows"
Group = Literal["subscription", "event"]

PAIR, LIST, OWNER, OWNERS, MATCHES = "subscription", "subscriptions", "owner", "owners", "matches"
_JOINED, _COUNT, _ID = "__whimbrel_event", "__whimbrel_count", "__whimbrel_id"


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
    stream: StreamOptions | None = None,
) -> StreamingQuery | None:
    """Deliver the matches of `match` or `match_stream`. A stream is started and its query returned.

    `to` is a directory, a function `(rows, query, batch)`, or a `Sink`. `group`, `owners` and `events` choose the rows,
    see `DeliveredRows`; `partition_by` names columns that become folders, such as subscription or owner.

    A stream needs `stream`. At rest, `run` is the query id, with batch 0: if the same run was delivered before, nothing
    is written. Without it the directory must not exist yet.
    """
    shape = DeliveredRows(group, owners, events)
    delivered = shape(matches)
    if not (isinstance(to, str | os.PathLike | Sink) or callable(to)):
        raise BadOption("to", to, "a directory, a function or an object with write")
    check_type("format", format, str, "the name of a format")
    check_type("run", run, (str, NoneType), "the name of a run")
    check_type("stream", stream, (StreamOptions, NoneType), "StreamOptions")
    check_type("partition_by", partition_by, Sequence, "names of columns")
    folders = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    directory = os.fspath(to) if isinstance(to, str | os.PathLike) else None
    if folders and directory is None:
        raise BadOption("partition_by", folders, "none but with a directory")
    if not set(folders) <= set(delivered.columns):
        raise BadOption("partition_by", partition_by, f"columns of {', '.join(delivered.columns)}")
    if not matches.isStreaming:
        if stream is not None:
            raise BadOption("matches", "a DataFrame at rest", "a streaming DataFrame with stream")
        if directory is not None and run is None:
            delivered.write.format(format).partitionBy(*folders).mode("errorifexists").save(directory)
        else:
            _writer(to, format, folders)(delivered, run or secrets.token_hex(8), 0)
        return None
    if run is not None:
        raise BadOption("run", run, "none with a stream, whose checkpoint has an id")
    if stream is None:
        raise BadOption("stream", None, "StreamOptions with a checkpoint, where the stream notes how far it is")
    if directory is not None and group is None and events is None:
        return stream.start(delivered.writeStream.format(format).partitionBy(*folders), directory)
    home = local_path(stream.checkpoint)
    write = _writer(to, format, folders, home / "delivered")

    def write_batch(rows: DataFrame, batch: int) -> None:
        query = json.loads((home / "metadata").read_text(encoding="utf-8"))["id"]  # the same after a restart
        write(shape(rows), query, batch)

    return stream.start(matches.writeStream.foreachBatch(write_batch))


def _writer(to: Target, format: str, folders: tuple[str, ...], records: Path | None = None) -> WriteRows:
    """The function that delivers a micro-batch; calls of a function are recorded below `records`."""
    if isinstance(to, str | os.PathLike):
        return FolderSink(local_path(to), format, folders).write
    if isinstance(to, Sink):
        return to.write
    return to if records is None else RecordedSink(records, to).write


@dataclass(frozen=True, slots=True)
class DeliveredRows:
    """Turns matches into the rows to deliver.

    - `group`: one row for each `subscription`, with `matches`, an array of the other columns; or one for each `event`,
      with `subscriptions`. In a stream, groups are within a micro-batch.
    - `owners`: a table with the columns id and owner, which adds the column `owner`.
    - `events`: adds the columns of the events, found by the key of the matches, which no two events may share. (For
      events that share keys, and for streams, name the columns in the `key` of `match` instead.)
    """

    group: Group | None = None
    owners: DataFrame | None = None
    events: DataFrame | None = None

    def __post_init__(self) -> None:
        if self.group not in (None, *get_args(Group)):
            raise BadOption("group", self.group, "subscription or event")
        for option, frame in (("owners", self.owners), ("events", self.events)):
            if frame is not None:
                check_frame(option, frame)

    def __call__(self, matches: DataFrame) -> DataFrame:
        """The rows to deliver; events without matches are left out."""
        check_frame("matches", matches)
        keys = _keys(matches)
        self._check_names(matches.columns, keys)
        rows = matches
        if LIST in matches.columns:
            rows = rows.where(sf.size(LIST) > 0)
            if self.group == "event" and self.owners is None:
                return _with_events(rows, self.events, keys)
            if self.group is not None or self.owners is not None:
                rows = rows.select(*map(column, keys), sf.explode(LIST).alias(PAIR))
        rows = _with_owners(_with_events(rows, self.events, keys), self.owners)
        if self.group is None:
            return rows
        return _grouped(rows, self.group, keys, [OWNER] if self.owners is not None else [])

    def _check_names(self, matches: Sequence[str], keys: Sequence[str]) -> None:
        """ColumnError if the rows would have two columns that Spark cannot tell apart."""
        added = {LIST if self.group == "event" else PAIR} - set(matches)
        if self.owners is not None:
            added |= {OWNER, OWNERS}
        others = [] if self.events is None else [one for one in self.events.columns if one not in keys]
        names = [*matches, *others, *sorted(added)]
        for one in repeated(names):
            if one in keys or one in others:
                raise ColumnError(one, "each name once, in any case", ", ".join(names))


def _keys(matches: DataFrame) -> list[str]:
    """The key columns of matches: all except that of subscriptions."""
    found = [one for one in (PAIR, LIST) if one in matches.columns]
    if len(found) != 1:
        columns = ", ".join(matches.columns)
        raise ColumnError(PAIR, "matches, with a column subscription or subscriptions", f"the columns {columns}")
    return [one for one in matches.columns if one != found[0]]


def _with_owners(rows: DataFrame, owners: DataFrame | None) -> DataFrame:
    if owners is None:
        return rows
    for one in ("id", OWNER):
        if one not in owners.columns:
            raise ColumnError(one, "owners with id and owner", f"the columns {', '.join(owners.columns)}")
    known = owners.select(sf.col("id").alias(_ID), OWNER).dropDuplicates([_ID])
    return rows.join(known, sf.col(PAIR) == sf.col(_ID), "left").drop(_ID)


def _with_events(rows: DataFrame, events: DataFrame | None, keys: Sequence[str]) -> DataFrame:
    """The rows with the columns of their events; Spark raises an error if several events have the same key.

    Events are grouped by key before the join, so that equal keys are found and rows are not multiplied.
    """
    if events is None:
        return rows
    missing = [key for key in keys if key not in events.columns]
    if missing or not keys:
        columns = ", ".join(events.columns)
        raise ColumnError(missing[0] if missing else "", "the key of the matches among the events", columns)
    others = [one for one in events.columns if one not in keys]
    aliases = {key: f"{_JOINED}_{place}" for place, key in enumerate(keys)}
    whole = sf.struct(*map(column, others), sf.lit(True).alias(_COUNT)).alias(_JOINED)
    by_key = (
        events.select(*(column(key).alias(alias) for key, alias in aliases.items()), whole)
        .groupBy(*aliases.values())
        .agg(sf.first(_JOINED).alias(_JOINED), sf.count(sf.lit(1)).alias(_COUNT))
    )
    condition = [column(key).eqNullSafe(sf.col(alias)) for key, alias in aliases.items()]
    joined = rows.join(by_key, condition, "left")
    shown = f"to_json(struct({', '.join(map(name, keys))}))"
    twice = sf.expr(
        f"if({_COUNT} > 1, raise_error(concat({literal('Expected events with different keys, but several have ')}, "
        f"{shown})), {_JOINED})"
    )
    kept = [column(one) for one in rows.columns]
    return joined.select(*kept, twice.alias(_JOINED)).select(
        *kept, *(sf.col(_JOINED).getField(one).alias(one) for one in others)
    )


def _grouped(rows: DataFrame, group: Group, keys: Sequence[str], owner: Sequence[str]) -> DataFrame:
    if group == "subscription":
        others = [one for one in rows.columns if one not in (PAIR, *owner)]
        return rows.groupBy(PAIR, *owner).agg(sf.collect_list(sf.struct(*map(column, others))).alias(MATCHES))
    others = [one for one in rows.columns if one not in (PAIR, *owner, *keys)]
    events = [sf.first(column(one)).alias(one) for one in others]
    many = [sf.array_sort(sf.collect_set(one)).alias(OWNERS) for one in owner]
    found = sf.array_sort(sf.collect_list(PAIR)).alias(LIST)
    return rows.groupBy(*map(column, keys)).agg(found, *many, *events)
