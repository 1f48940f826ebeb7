"""Read one event: a JSON text, or one row of a file."""

from __future__ import annotations

from collections.abc import Collection
from io import BufferedReader, BytesIO
from typing import cast

from whimbrel.model import event_tables as shapes
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.readers.errors import FileEmpty, InputError, InputPlace, RefusedInput
from whimbrel.readers.events import EventBatch, read_source
from whimbrel.readers.json_lines import parse_object
from whimbrel.readers.source import Format, InputFile, open_source


def read_event(text: str, row: int, fallback: Format | None, timestamps: Collection[str]) -> Event:
    """The event of a JSON text, or of a row of the file of that name. Raises an InputError if it is refused."""
    if text.lstrip().startswith("{"):
        place = InputPlace("<argument>")
        return _checked(parse_object(text, place), place, timestamps)
    source = open_source(text, fallback)
    if source.format is not Format.JSONL:
        return _row_event(source, row, timestamps)
    content = source.stream.read(EVENT_BYTES.value + 1)
    if row == 0 and len(content) <= EVENT_BYTES.value:  # one object may stretch over many lines
        place = InputPlace(source.name, 1, row=0)
        whole = parse_object(content.decode(errors="replace"), place)
        if isinstance(whole, dict):
            return _checked(whole, place, timestamps)
    stream = cast("BufferedReader", BytesIO(content + source.stream.read()))
    return _row_event(InputFile(source.name, stream, source.format, None), row, timestamps)


def _row_event(source: InputFile, row: int, timestamps: Collection[str]) -> Event:
    for item in read_source(source, None):
        if isinstance(item, InputError):
            if item.place.row in (None, row):
                raise item
        elif row in item.rows:
            return _of_batch(item, item.rows.index(row), timestamps)
    raise FileEmpty(InputPlace(source.name, row=row), f"Expected an event in row {row}, but the file ends before it")


def _of_batch(batch: EventBatch, index: int, timestamps: Collection[str]) -> Event:
    place = batch.place(index)
    if isinstance(batch.events, list):
        return _checked(batch.events[index], place, timestamps)
    table = batch.events.slice(index, 1)
    try:
        return next(shapes.read_events(table, table.schema.names, timestamps))
    except WhimbrelError as error:
        raise RefusedInput(place, error) from None


def _checked(item: dict[str, object] | InputError, place: InputPlace, timestamps: Collection[str]) -> Event:
    if isinstance(item, InputError):
        raise item
    try:
        return Event(item, timestamps)
    except WhimbrelError as error:
        raise RefusedInput(place, error) from None
