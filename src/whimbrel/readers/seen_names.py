"""Find attributes that filters mention and no event of the files has: probably misspelt names."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.model.schema.errors import did_you_mean
from whimbrel.ranks.encoding.json_events import json_lines
from whimbrel.readers.json_lines import line_pieces
from whimbrel.readers.source import Format, InputFile, open_source

if TYPE_CHECKING:
    import pyarrow as pa

EVENTS = 1_000
"""Events of a file of JSON lines that are looked at."""
_SHOWN = 5
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def unseen_attributes(
    files: Sequence[str], fallback: Format | None, mentioned: Collection[str], matched: bool
) -> Iterator[str]:
    """Say which attributes of filters no event has, with the nearest name that events have.

    Where something `matched`, only those with a near name are told: others may be rare. Pipes are not read again.
    """
    if not all(Path(file).is_file() for file in files):
        return
    names: dict[str, None] = {}
    unseen = set(mentioned)
    is_whole = True
    for file in files:
        found: list[Sequence[str]] = []
        try:
            source = open_source(file, fallback)
            with source.stream:
                for event in islice(_names(source), EVENTS):
                    found.append(event)
                    names |= dict.fromkeys(event)
                    unseen.difference_update(event)
                    if not unseen:
                        break
        except (WhimbrelError, OSError, ValueError):
            return  # what cannot be read was told before
        is_whole = is_whole and len(found) < EVENTS
        yield from _separators(source, found)
    if not names:
        return
    hints = {name: did_you_mean(name, names) for name in sorted(unseen)}
    missing = {name: hint for name, hint in hints.items() if hint or not matched}
    which = "no event has" if is_whole else f"none of the first {EVENTS:,} events has"
    for name in list(missing)[:_SHOWN]:
        yield f"{which} the attribute {name!r}, which filters mention{missing[name]}"
    if len(missing) > _SHOWN:
        yield f"{which} {len(missing) - _SHOWN:,} more attributes that filters mention"


def _names(source: InputFile) -> Iterator[Sequence[str]]:
    """The attributes of each of the first events, or once those of all columns."""
    if source.format is Format.PARQUET:
        from pyarrow import parquet

        with source.seekable() as stream:
            schema = parquet.read_schema(stream)
        yield [name for field in schema for name in _columns(field, "")]
    elif source.format is Format.CSV:
        with io.TextIOWrapper(source.stream, "utf-8-sig", newline="") as text:
            yield next(csv.reader(text), [])
    else:
        for piece in line_pieces(source.stream, EVENT_BYTES.value):
            events = json_lines(piece.content)
            for number in range(len(events)):
                with suppress(WhimbrelError):
                    yield Event(events.parse(number)).attributes


def _separators(source: InputFile, found: Sequence[Sequence[str]]) -> Iterator[str]:
    """Say which sign separates the cells of a CSV file whose header has no comma."""
    if source.format is Format.CSV and len(found) == len(found[0]) == 1:
        for sign, word in _SEPARATORS.items():
            if sign in found[0][0]:
                yield f"{source.name}: Expected cells with commas between them, but the header has {word}"


def _columns(field: pa.Field, above: str) -> Iterator[str]:
    """The names of a column and of the fields in it."""
    name = above + field.name
    yield name
    kind = field.type
    while hasattr(kind, "value_type"):  # of a list or a dictionary
        kind = kind.value_type
    for number in range(kind.num_fields if hasattr(kind, "field") else 0):
        yield from _columns(kind.field(number), f"{name}.")
