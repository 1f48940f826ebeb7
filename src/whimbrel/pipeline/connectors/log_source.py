"""`format("whimbrel")`: the log as a Spark source, batch and streaming.

    spark.dataSource.register(WhimbrelSource)
    spark.readStream.format("whimbrel").option("path", directory).load()

Columns, of which `.schema(...)` may choose some:

    offset    BIGINT             the place in the log, from 0
    time      TIMESTAMP          when it was appended
    event     STRING or BINARY   the exact bytes of the event; as STRING (the default) they must be UTF-8
    matches   ARRAY<BIGINT>      the numbers of the subscriptions that it matched; null if it was not matched on append

Options:

    path                 the directory of the log, on the same host or mounted at the same place on all
    url                  instead of a path: the address of the broker that owns the log, which is then read over HTTP
    token                with a url: a token with the scope match
    ca                   with https: a file of certificates (PEM) to trust, at the same place on all hosts
    startingOffset       earliest (default), latest (of streams only), or a number; a checkpoint takes precedence
    endingOffset         latest (default) or a number, of batch reads only
    maxEventsPerTrigger  the largest micro-batch, by default 100,000; 0 for no limit
    eventsPerPartition   entries read by one task, by default 10,000 in streams and 100,000 in batch reads
    failOnDataLoss       true (default): a start below the floor of the log is an error; false: go on at the floor

A range of offsets is a partition, so that any number of tasks read at once, each with its own connection.
The offset in a checkpoint names the log by its id: another log at the same place is an error, whatever the options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from whimbrel.log import EVENT, BelowFloor, BeyondEnd
from whimbrel.log.errors import CorruptLog
from whimbrel.log.match_list import decode_all
from whimbrel.log.reader import Row
from whimbrel.model.errors import EventError
from whimbrel.pipeline.connectors.files import local
from whimbrel.pipeline.connectors.log_place import BrokerAddress, LogPlace
from whimbrel.pipeline.errors import BadOption, ColumnError, OtherLog

_COLUMNS: dict[str, tuple[t.DataType, ...]] = {
    "offset": (t.LongType(),),
    "time": (t.TimestampType(),),
    "event": (t.StringType(), t.BinaryType()),
    "matches": (t.ArrayType(t.LongType()), t.ArrayType(t.LongType(), False)),
}

BATCH = 4_096
"""Events of an Arrow batch."""


class WhimbrelSource(DataSource):
    """The data source; see the module for its columns and options."""

    @classmethod
    def name(cls) -> str:
        return "whimbrel"

    def schema(self) -> t.StructType:
        """All columns, events as strings."""
        return t.StructType([t.StructField(name, kinds[0], name == "matches") for name, kinds in _COLUMNS.items()])

    def reader(self, schema: t.StructType) -> DataSourceReader:
        return LogBatchReader(_Options.of(self.options), _arrow_schema(schema))

    def streamReader(self, schema: t.StructType) -> DataSourceStreamReader:  # noqa: N802
        return LogStreamReader(_Options.of(self.options), _arrow_schema(schema))


@dataclass
class LogRange(InputPartition):
    """One task: the entries of `start <= offset < end`."""

    start: int
    end: int


@dataclass(frozen=True)
class _Options:
    place: LogPlace
    starting: str | int
    ending: str | int
    per_trigger: int
    per_partition: int | None
    fail_on_loss: bool

    @classmethod
    def of(cls, options: Any) -> _Options:
        fail = options.get("failOnDataLoss", "true").lower()
        if fail not in ("true", "false"):
            raise BadOption("failOnDataLoss", fail, "true or false")
        return cls(
            _place(options),
            _offset(options, "startingOffset", "earliest", ("earliest", "latest")),
            _offset(options, "endingOffset", "latest", ("latest",)),
            _count(options, "maxEventsPerTrigger", 0) if "maxEventsPerTrigger" in options else 100_000,
            _count(options, "eventsPerPartition", 1) if "eventsPerPartition" in options else None,
            fail == "true",
        )


class _RangeReader:
    """The base of the readers of batches and streams: reads ranges of the log."""

    def __init__(self, options: _Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the events of a range. Entries that were deleted in the meantime are an error, or skipped."""
        assert isinstance(partition, LogRange)
        place, at = self._options.place, partition.start
        with place.open() as log:
            while at < partition.end:
                try:
                    for chunk in log.chunks(at, partition.end, BATCH):
                        events = [row for row in chunk if row[2] == EVENT]
                        if events:
                            yield _batch(events, self._schema, str(place))
                    return
                except BelowFloor as lost:
                    if self._options.fail_on_loss:
                        raise
                    at = lost.floor


class LogBatchReader(_RangeReader, DataSourceReader):
    """Reads the range that the log has when the query is planned."""

    def __init__(self, options: _Options, schema: pa.Schema) -> None:
        super().__init__(options, schema)
        if options.starting == "latest":
            raise BadOption("startingOffset", "latest", "earliest or a number in a batch query")
        with options.place.open() as log:  # a missing or foreign log is an error of the query, not of its first task
            _ = log.bounds

    def partitions(self) -> Sequence[LogRange]:
        """The ranges that tasks read."""
        with self._options.place.open() as reader:
            floor, newest = reader.bounds
        end = newest if self._options.ending == "latest" else int(self._options.ending)
        if end > newest:
            raise BeyondEnd(str(self._options.place), end, newest)
        start = floor if self._options.starting == "earliest" else int(self._options.starting)
        if start < floor:
            if self._options.fail_on_loss:
                raise BelowFloor(str(self._options.place), start, floor)
            start = floor
        ranges = _ranges(start, end, self._options.per_partition or 100_000)
        return ranges or [LogRange(start, start)]  # for no partition at all Spark would make one that says nothing


class LogStreamReader(_RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on from the offset of the checkpoint, at most `maxEventsPerTrigger` at a time."""

    _target: int | None = None
    """Where a query that stops by itself ends."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a query without a checkpoint starts."""
        with self._options.place.open() as reader:
            floor, end = reader.bounds
            starting = self._options.starting
            start = {"earliest": floor, "latest": end}.get(str(starting))
            if start is None:
                start = self._resumed(int(starting), floor, end)
            return {"log": reader.id, "offset": start}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Bound each micro-batch by `maxEventsPerTrigger`."""
        return ReadMaxRows(self._options.per_trigger) if self._options.per_trigger else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Stop at the entry that is the last one now."""
        with self._options.place.open() as reader:
            self._target = reader.end

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch; `start` itself where there is nothing new."""
        floor, end = self._bounds(start)
        first = self._resumed(start["offset"], floor, end)
        last = end if self._target is None else max(first, min(end, self._target))
        if isinstance(limit, ReadMaxRows):
            last = min(last, first + limit.max_rows)
        return {"log": start["log"], "offset": last}

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The end of the log, for the query's progress: how far it lags behind."""
        with self._options.place.open() as reader:
            return {"log": reader.id, "offset": reader.end}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LogRange]:
        """The ranges that the tasks of a micro-batch read."""
        floor, newest = self._bounds(start)
        first = self._resumed(start["offset"], floor, newest)
        if end["offset"] > newest and self._options.fail_on_loss:
            raise BeyondEnd(str(self._options.place), end["offset"], newest)
        return _ranges(first, min(end["offset"], newest), self._options.per_partition or 10_000)

    def _bounds(self, cursor: dict[str, Any]) -> tuple[int, int]:
        with self._options.place.open() as reader:
            if cursor.get("log") != reader.id:
                raise OtherLog(str(self._options.place), str(cursor.get("log")), reader.id)
            return reader.bounds

    def _resumed(self, offset: int, floor: int, end: int) -> int:
        """The offset itself if it can be read from, else the nearest one that can, or an error."""
        if floor <= offset <= end:
            return offset
        if self._options.fail_on_loss:
            place = str(self._options.place)
            raise BelowFloor(place, offset, floor) if offset < floor else BeyondEnd(place, offset, end)
        return max(floor, min(offset, end))


def _ranges(start: int, end: int, size: int) -> list[LogRange]:
    """Ranges of nearly equal length, none above `size`."""
    count = max(0, -(-(end - start) // size))
    return [
        LogRange(start + (end - start) * part // count, start + (end - start) * (part + 1) // count)
        for part in range(count)
    ]


def _arrow_schema(schema: t.StructType) -> pa.Schema:
    for field in schema:
        kinds = _COLUMNS.get(field.name)
        if kinds is None:
            raise ColumnError(field.name, f"a column of {', '.join(_COLUMNS)}", "another")
        if field.dataType not in kinds:
            wanted = " or ".join(kind.simpleString() for kind in kinds)
            raise ColumnError(field.name, wanted, field.dataType.simpleString())
    return to_arrow_schema(schema, timezone="UTC")


def _place(options: Any) -> LogPlace:
    path, url, token, ca = (options.get(name) or None for name in ("path", "url", "token", "ca"))
    if url is None:
        if path is None:
            raise BadOption("path", options.get("path"), "the directory of a log, or the url of a broker")
        if token is not None:
            raise BadOption("token", "one", "no token with the directory of a log")
        if ca is not None:
            raise BadOption("ca", ca, "no file of certificates with the directory of a log")
        return LogPlace(str(local(path)))
    if path is not None:
        raise BadOption("path", path, "either the directory of a log or the url of a broker")
    if not url.startswith(("http://", "https://")):
        raise BadOption("url", url, "the address of a broker, with http:// or https://")
    return LogPlace(BrokerAddress(url, token, ca))


def _offset(options: Any, name: str, default: str, words: tuple[str, ...]) -> str | int:
    text = options.get(name, default)
    if text.lower() in words:
        return str(text.lower())
    if not text.isdecimal():
        raise BadOption(name, text, f"{', '.join(words)} or an offset")
    return int(text)


def _count(options: Any, name: str, least: int) -> int:
    text = options[name]
    if not text.isdecimal() or int(text) < least:
        raise BadOption(name, text, f"a number of at least {least}")
    return int(text)


def _batch(rows: list[Row], schema: pa.Schema, directory: str) -> pa.RecordBatch:
    offsets, times, _, events, matches = zip(*rows, strict=True)
    columns: list[pa.Array] = []
    for field in schema:
        if field.name == "offset":
            column = pa.array(offsets, pa.int64())
        elif field.name == "time":
            column = pa.array(times, pa.int64()).cast(field.type)
        elif field.name == "event":
            column = _events(events, offsets, field.type)
        else:
            column = _match_lists(matches, offsets, field.type, directory)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _events(events: tuple[bytes, ...], offsets: tuple[int, ...], kind: pa.DataType) -> pa.Array:
    column = pa.array(events, pa.binary())
    if kind == pa.binary():
        return column
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        for offset, event in zip(offsets, events, strict=True):
            try:
                event.decode()
            except UnicodeDecodeError as error:
                path = f"offset {offset} of the log"
                raise EventError("UTF-8 (or read events as binary)", f"{error.reason}", path) from None
        raise


def _match_lists(
    lists: tuple[bytes | None, ...], offsets: tuple[int, ...], kind: pa.DataType, directory: str
) -> pa.Array:
    try:
        bounds, numbers = decode_all([coded or b"" for coded in lists])
    except ValueError as error:
        raise CorruptLog(
            directory, f"a match list of offsets {offsets[0]} to {offsets[-1]} is damaged ({error})"
        ) from None
    missing = np.array([coded is None for coded in lists])
    mask = pa.array(missing) if missing.any() else None
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(numbers, pa.int64()), mask=mask).cast(kind)
