"""Events of files in batches that an index matches at once; errors stand where events were refused.

Rows count from 0 through all files, refused ones included, so that a row number finds its event again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.event_tables import read_events as event_rows
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.readers.csv_table import read_csv
from whimbrel.readers.errors import InputError, InputPlace, RefusedInput
from whimbrel.readers.json_lines import JsonObject, read_json_lines
from whimbrel.readers.parquet_table import read_parquet
from whimbrel.readers.source import Format, InputFile, open_source

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Some events of a file, with the row number of each, and its line if the file has lines.

    `share` is the part of the file that has been read, for progress.
    """

    events: list[JsonObject] | pa.RecordBatch
    rows: Sequence[int]
    file: str
    lines: Sequence[int] | None = None
    share: float = 1.0

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, index: int) -> InputPlace:
        """The place of an event in its file."""
        return InputPlace(self.file, None if self.lines is None else self.lines[index], row=self.rows[index])

    def text(self, index: int) -> str:
        """The event as JSON text, for a report of what was refused."""
        if isinstance(self.events, list):
            return json.dumps(self.events[index], ensure_ascii=False)
        row = self.events.slice(index, 1).to_pylist()[0]
        return json.dumps({name: cell for name, cell in row.items() if cell is not None}, default=str)

    def each(self) -> Iterator[Event | JsonObject]:
        """The events one by one: JSON objects as they are, rows of a table as events."""
        if isinstance(self.events, list):
            return iter(self.events)
        return event_rows(self.events, self.events.schema.names)

    def slice(self, start: int, stop: int) -> EventBatch:
        """The events from `start` to `stop`."""
        events = self.events[start:stop] if isinstance(self.events, list) else self.events.slice(start, stop - start)
        lines = None if self.lines is None else self.lines[start:stop]
        return EventBatch(events, self.rows[start:stop], self.file, lines, self.share)


def read_events(
    files: Sequence[str], fallback: Format | None = None, attributes: Collection[str] | None = None
) -> Iterator[EventBatch | InputError]:
    """Read the events of all files. Of Parquet only the columns of these attributes are read, all if it is None."""
    base = 0
    for file in files:
        following = base
        for item in _read_file(file, fallback, attributes):
            if isinstance(item, InputError):
                if item.place.row is not None:
                    following = max(following, base + item.place.row + 1)
                yield _shifted_error(item, base)
            else:
                if item.rows:
                    following = max(following, base + item.rows[-1] + 1)
                yield _shifted(item, base)
        base = following


def parse_events(
    files: Sequence[str], fallback: Format | None, attributes: Collection[str], timestamps: Collection[str]
) -> Iterator[Event | InputError]:
    """Read these attributes of the events of all files, as events; an error stands where one was refused."""
    for batch in read_events(files, fallback, attributes):
        if isinstance(batch, InputError):
            yield batch
            continue
        try:
            yield from list(event_rows(batch.events, attributes, timestamps))
            continue
        except WhimbrelError:
            pass  # some event of the batch: look at them one by one
        for row in range(len(batch)):
            try:
                yield from list(event_rows(batch.slice(row, row + 1).events, attributes, timestamps))
            except WhimbrelError as error:
                yield RefusedInput(batch.place(row), error, batch.text(row))


def _read_file(
    file: str, fallback: Format | None, attributes: Collection[str] | None
) -> Iterator[EventBatch | InputError]:
    try:
        source = open_source(file, fallback)
    except InputError as error:
        yield error
        return
    yield from read_source(source, attributes)


def read_source(source: InputFile, attributes: Collection[str] | None) -> Iterator[EventBatch | InputError]:
    """Read the events of one open file; rows count from 0."""
    with source.stream:
        if source.format is Format.JSONL:
            yield from _json_events(source)
        elif source.format is Format.CSV:
            yield from _csv_events(source)
        else:
            yield from _parquet_events(source, attributes)


def _json_events(source: InputFile) -> Iterator[EventBatch | InputError]:
    for batch in read_json_lines(source.stream, source.name, EVENT_BYTES, EVENT_BYTES.value):
        events: list[JsonObject] = []
        rows, lines = [], []
        for place, item in batch:
            if isinstance(item, InputError):
                yield item
                continue
            events.append(item)
            rows.append(place.row or 0)
            lines.append(place.line or 0)
        share = source.stream.tell() / source.size if source.size else 0.0
        yield EventBatch(events, rows, source.name, lines, share)


def _csv_events(source: InputFile) -> Iterator[EventBatch | InputError]:
    stream = source.seekable()
    for item in read_csv(stream, source.name):
        if isinstance(item, InputError):
            yield item
        else:
            share = stream.tell() / source.size if source.size else 0.0
            yield EventBatch(item[1], item[0], source.name, None, share)


def _parquet_events(source: InputFile, attributes: Collection[str] | None) -> Iterator[EventBatch | InputError]:
    for item in read_parquet(source.seekable(), source.name, attributes):
        if isinstance(item, InputError):
            yield item
        else:
            rows, total, batch = item
            yield EventBatch(batch, rows, source.name, None, rows.stop / max(total, 1))


def _shifted(batch: EventBatch, base: int) -> EventBatch:
    if not base:
        return batch
    rows = [base + row for row in batch.rows]
    return EventBatch(batch.events, rows, batch.file, batch.lines, batch.share)


def _shifted_error(error: InputError, base: int) -> InputError:
    place = error.place
    if base and place.row is not None:
        error.place = InputPlace(place.file, place.line, place.column, base + place.row, place.path)
        error.args = (f"{error.place}: {error.problem}",)
    return error
