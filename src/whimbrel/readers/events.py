"""Events of files in batches that an index matches at once; errors stand where events were refused.

Rows count from 0 through all files, refused ones included, so that a row number finds its event again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.event_tables import read_events as event_rows
from whimbrel.model.json_text import JsonObject
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.ranks.encoding.json_events import json_lines
from whimbrel.readers.csv_table import read_csv
from whimbrel.readers.errors import FileEmpty, InputError, InputPlace, RefusedInput
from whimbrel.readers.json_lines import (
    LinePiece,
    blank_file,
    check_first_line,
    line_pieces,
    parse_object,
    read_json_lines,
    read_line,
    too_long,
)
from whimbrel.readers.parquet_table import read_parquet
from whimbrel.readers.source import Format, InputFile, open_source

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FileBatch:
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

    def slice(self, start: int, stop: int) -> FileBatch:
        """The events from `start` to `stop`."""
        events = self.events[start:stop] if isinstance(self.events, list) else self.events.slice(start, stop - start)
        lines = None if self.lines is None else self.lines[start:stop]
        return FileBatch(events, self.rows[start:stop], self.file, lines, self.share)


def read_events(
    files: Sequence[str], fallback: Format | None = None, attributes: Collection[str] | None = None
) -> Iterator[FileBatch | InputError]:
    """Read the events of all files. Of Parquet only the columns of these attributes are read, all if it is None."""
    base = 0
    for file in files:
        try:
            source = open_source(file, fallback)
        except InputError as error:
            yield error
            continue
        following = base
        for item in read_source(source, attributes, base):
            following = row_after(item, following)
            yield item
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


def read_event(text: str, row: int, fallback: Format | None, timestamps: Collection[str]) -> Event:
    """Read one event: a JSON text, or a row of the file of that name. Raises an InputError if it is refused."""
    if text.lstrip().startswith("{"):
        place = InputPlace("<argument>")
        return _checked(parse_object(text, place), place, timestamps)
    source = open_source(text, fallback)
    return (_line_event if source.format is Format.JSONL else _row_event)(source, row, timestamps)


def _line_event(source: InputFile, row: int, timestamps: Collection[str]) -> Event:
    """The event of a row of JSON lines; for row 0 one that stretches over many lines is taken, too."""
    before = 0
    with source.stream:
        pieces = line_pieces(source.stream, EVENT_BYTES.value)
        for piece in pieces:
            events = json_lines(b"." if piece.size else piece.content)
            problem = None if before else check_first_line(piece.content, source.name)
            if problem is not None and row:
                raise problem
            before += len(events)
            if row >= before:
                continue
            number = row - before + len(events)
            place = InputPlace(source.name, piece.number + events.lines.item(number) - 1, row=row)
            if piece.size:
                raise too_long(place, piece.content, piece.size, EVENT_BYTES)
            line = read_line(events.text(number), place, events.ends.item(number) == len(events.data))
            if isinstance(line, InputError) and row == 0:
                whole = parse_object(_rest(piece, pieces).decode(errors="replace"), InputPlace(source.name, 1, row=0))
                line = (problem or line) if isinstance(whole, InputError) else whole
            return _checked(line, place, timestamps)
    raise _ended(source.name, row) if before else blank_file(source.name)


def _rest(piece: LinePiece, following: Iterator[LinePiece]) -> bytes:
    """All that follows in a file from a piece on, up to about the limit of an event."""
    content = [piece.content]
    size = len(piece.content)
    for more in following:
        content.append(more.content)
        size += more.size or len(more.content)
        if size > EVENT_BYTES.value:
            break
    return b"".join(content)


def _row_event(source: InputFile, row: int, timestamps: Collection[str]) -> Event:
    for item in read_source(source, None):
        if isinstance(item, InputError):
            if item.place.row in (None, row):
                raise item
        elif row in item.rows:
            one = item.slice(item.rows.index(row), item.rows.index(row) + 1)
            assert not isinstance(one.events, list)
            try:
                return next(event_rows(one.events, one.events.schema.names, timestamps))
            except WhimbrelError as error:
                raise RefusedInput(one.place(0), error) from None
    raise _ended(source.name, row)


def _ended(file: str, row: int) -> InputError:
    return FileEmpty(InputPlace(file, row=row), f"Expected an event in row {row}, but the file ends before it")


def _checked(item: JsonObject | InputError, place: InputPlace, timestamps: Collection[str]) -> Event:
    if isinstance(item, InputError):
        raise item
    try:
        return Event(item, timestamps)
    except WhimbrelError as error:
        raise RefusedInput(place, error) from None


def read_source(
    source: InputFile, attributes: Collection[str] | None, base: int = 0
) -> Iterator[FileBatch | InputError]:
    """Read the events of one open file, whose first row is `base`."""
    with source.stream:
        try:
            for item in _READERS[source.format](source, attributes):
                if isinstance(item, InputError):
                    yield _shifted(item, base)
                else:
                    yield replace(item, rows=[base + row for row in item.rows]) if base else item
        except InputError as damaged:
            yield damaged


def row_after(item: FileBatch | InputError, least: int) -> int:
    """Return the row that follows an item, which is not below `least`."""
    row = item.place.row if isinstance(item, InputError) else item.rows[-1] if item.rows else None
    return least if row is None else max(least, row + 1)


def _json_events(source: InputFile, _: Collection[str] | None) -> Iterator[FileBatch | InputError]:
    for batch in read_json_lines(source.stream, source.name, EVENT_BYTES, EVENT_BYTES.value, lambda line: None):
        events: list[JsonObject] = []
        rows, lines = [], []
        for place, item in batch:
            if isinstance(item, InputError):
                yield item
                continue
            events.append(item)
            rows.append(place.row or 0)
            lines.append(place.line or 0)
        yield FileBatch(events, rows, source.name, lines, source.share())


def _csv_events(source: InputFile, _: Collection[str] | None) -> Iterator[FileBatch | InputError]:
    with source.seekable() as stream:
        for item in read_csv(stream, source.name):
            yield (
                item if isinstance(item, InputError) else FileBatch(item[1], item[0], source.name, None, source.share())
            )


def _parquet_events(source: InputFile, attributes: Collection[str] | None) -> Iterator[FileBatch | InputError]:
    with source.seekable() as stream:
        for item in read_parquet(stream, source.name, attributes):
            if isinstance(item, InputError):
                yield item
            else:
                rows, total, batch = item
                yield FileBatch(batch, rows, source.name, None, rows.stop / max(total, 1))


_READERS = {Format.JSONL: _json_events, Format.CSV: _csv_events, Format.PARQUET: _parquet_events}


def _shifted(error: InputError, base: int) -> InputError:
    """Return the error with the row that it has in a file whose first row is `base`."""
    place = error.place
    if base and place.row is not None:
        error.place = msgspec.structs.replace(place, row=base + place.row)
        error.args = (f"{error.place}: {error.problem}",)
    return error
