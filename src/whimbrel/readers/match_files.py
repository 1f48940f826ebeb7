"""Files of events through an index, batch by batch; refused events are reported and left out."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pyarrow as pa

from whimbrel.model.errors import LimitExceeded, RowError
from whimbrel.model.json_text import JsonError
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.model.matcher import Errors
from whimbrel.ranks.arrow import numbers
from whimbrel.ranks.encoding.json_events import JsonEvents, JsonLines
from whimbrel.readers.errors import InputError, InputPlace, RefusedInput
from whimbrel.readers.events import read_source, row_after
from whimbrel.readers.json_lines import LinePiece, blank_file, check_first_line, json_problem, line_pieces, too_long
from whimbrel.readers.source import Format, InputFile, open_source

if TYPE_CHECKING:
    from whimbrel.engine.index import Index

_SHOWN = 64  # bytes that are looked at of a line that is too long
_SMALL = 1 << 16  # bytes of JSON for which a second thread does not pay
_COLUMNS = ["event", "subscription"]


class PairBlock(NamedTuple):
    """The pairs of some events, by row number; `share` is the part of the file that has been matched."""

    pairs: pa.Table
    events: int
    file: str
    share: float


def match_files(index: Index, files: Sequence[str], fallback: Format | None) -> Iterator[PairBlock | InputError]:
    """Match the events of all files, whose rows count from 0 through all of them; an error stands for a refused event.

    JSON lines are matched on all cores, from a memory map of the file, or from pieces of a pipe.
    """
    base = 0
    columns = index.attributes() if index.schema is None else None  # a schema judges all of them
    for file in files:
        try:
            source = open_source(file, fallback)
        except InputError as error:
            yield error
            continue
        if source.format is Format.JSONL:
            base += yield from _match_lines(index, source, base)
        else:
            base += yield from _match_batches(index, source, columns, base)


def _match_lines(index: Index, source: InputFile, base: int) -> Generator[PairBlock | InputError, None, int]:
    """Match the lines of a file whose first row is `base`; returns the number of rows."""
    row = base
    with source.stream:
        try:
            for piece in _pieces(source):
                if piece.size:
                    place = InputPlace(source.name, piece.number, row=row)
                    yield too_long(place, piece.content, piece.size, EVENT_BYTES)
                    row += 1
                    continue
                if row == base and (problem := check_first_line(piece.content, source.name)) is not None:
                    yield problem
                    return 0
                row += yield from _match_piece(index, source, piece, row)
            if row == base:
                yield blank_file(source.name)
        except InputError as damaged:
            yield damaged
    return row - base


def _pieces(source: InputFile) -> Iterator[LinePiece]:
    """The lines of a file: all of them in a memory map if that is possible, else piece by piece."""
    mapped = source.mapped()
    if mapped is None:
        return line_pieces(source.stream, EVENT_BYTES.value)
    return iter([LinePiece(cast("bytes", mapped), 1)])  # is read as bytes are


def _match_piece(
    index: Index, source: InputFile, piece: LinePiece, base: int
) -> Generator[PairBlock | InputError, None, int]:
    """Match lines of which the first has the row `base`; returns the number of rows."""
    lines = JsonLines(piece.content)
    errors: Errors = []
    done = 0
    for offsets, rows in index.match_blocks(lines, 1 if len(piece.content) < _SMALL else None, errors):
        for row, error in errors:
            line = lines.find(row)
            place = InputPlace(source.name, piece.number + line.lines.item(0) - 1, row=base + row)
            yield _refused_line(line, error, place)
        count = len(offsets) - 1
        first = base + done
        events = np.repeat(np.arange(first, first + count, dtype=np.int64), np.diff(offsets))
        ids = index.ids(rows)
        pairs = pa.table([numbers(events), numbers(ids) if isinstance(ids, np.ndarray) else ids], _COLUMNS)
        yield PairBlock(pairs, count - len(errors), source.name, source.share(lines.done))
        errors.clear()
        done += count
        lines.forget(done)
    return done


def _refused_line(line: JsonEvents, error: RowError, place: InputPlace) -> InputError:
    """The error of a line, given as a batch of one, at its place in the file."""
    begin, end = line.begins.item(0), line.ends.item(0)
    if isinstance(error, LimitExceeded) and error.limit == EVENT_BYTES.name:
        return too_long(place, line.data[begin:end][:_SHOWN].tobytes(), error.size, EVENT_BYTES)
    text = line.text(0).decode(errors="replace")
    if isinstance(error, JsonError):
        return json_problem(error, text, place, end == len(line.data))
    return RefusedInput(place, _alone(error), text)


def _match_batches(
    index: Index, source: InputFile, columns: Collection[str] | None, base: int
) -> Generator[PairBlock | InputError, None, int]:
    """Match the batches of a file whose first row is `base`; returns the number of rows."""
    following = base
    for batch in read_source(source, columns, base):
        following = row_after(batch, following)
        if isinstance(batch, InputError):
            yield batch
            continue
        errors: Errors = []
        try:
            pairs = index.match_batch(batch.events, errors=errors)
        except RowError as unreadable:  # a column that no value can come from refuses every row
            pairs, errors = index.match_batch([]), [(row, unreadable) for row in range(len(batch))]
        for row, error in errors:
            yield RefusedInput(batch.place(row), _alone(error), batch.text(row))
        events = numbers(np.array(batch.rows, np.int64)).take(pairs["event"])
        yield PairBlock(pairs.set_column(0, "event", events), len(batch) - len(errors), batch.file, batch.share)
    return following - base


def _alone(error: RowError) -> RowError:
    """The error without the number that the event had in its batch."""
    if isinstance(error, LimitExceeded) and error.where == "$":
        return LimitExceeded(error.limit, error.size, error.maximum, error.unit)
    return error.at_row(None)
