"""Entries of the log as Arrow columns, without Spark: what the tasks of `log_source.py` read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from whimbrel.log import EVENT, BelowFloor
from whimbrel.log.errors import CorruptLog
from whimbrel.log.match_list import decode_all
from whimbrel.log.reader import Row
from whimbrel.model.errors import EventError
from whimbrel.pipeline.connectors.log_place import LogPlace

BATCH = 4_096  # events per Arrow batch


def read_batches(
    place: LogPlace, start: int, end: int, schema: pa.Schema, skip_lost: bool = False
) -> Iterator[pa.RecordBatch]:
    """The events of `start <= offset < end` in columns of `schema`, which are some of the source's columns.

    With `skip_lost`, entries that were deleted in the meantime are skipped; otherwise they raise BelowFloor.
    """
    with place.open() as log:
        at = start
        while at < end:
            try:
                for chunk in log.chunks(at, end, BATCH):
                    events = [row for row in chunk if row[2] == EVENT]
                    if events:
                        yield _batch(events, schema, str(place))
                return
            except BelowFloor as lost:
                if not skip_lost:
                    raise
                at = lost.floor


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
