"""CSV files of events: typed column by column from all of their cells, then read as Arrow batches.

A column whose cells are all numbers as JSON writes them is a column of numbers; one of `true`, `True`, `TRUE` and their
opposites, of booleans; anything else is text. An empty cell is missing, `""` in quotes is the empty string. The file is
read twice, because a type that fits the beginning of a file need not fit its end. A row above the limit of an event's
bytes is refused alone, and so is a last row whose quotes are not closed: Arrow, which gives up at a row longer than a
block and takes open quotes for closed ones, then reads a copy of the file without such rows.
"""

from __future__ import annotations

import codecs
import re
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from threading import Lock
from typing import IO, TYPE_CHECKING, cast

from whimbrel.model.errors import LimitExceeded
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.readers import errors
from whimbrel.readers.errors import InputError, InputPlace

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv

_CHUNK = EVENT_BYTES.value  # no row that is allowed is longer than a block
_SPOOLED = 64 << 20  # bytes of a copy that are kept in memory
_TO_CLOSING_QUOTE = re.compile(rb'(?:[^"]+|"")*+"')
INTEGER = r"^-?(0|[1-9][0-9]*)$"
NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
"""How JSON writes numbers, and so cells."""
BOOLEAN = r"^(true|false|True|False|TRUE|FALSE)$"
_TEXT = "text"
_WIDER = {("integer", "number"): "number", ("number", "integer"): "number"}


def read_csv(stream: IO[bytes], file: str) -> Iterator[tuple[list[int], pa.RecordBatch] | InputError]:
    """Read batches with the numbers of their rows; an error stands where a row was refused."""
    import pyarrow as pa

    with tempfile.SpooledTemporaryFile(max_size=_SPOOLED) as copy:
        try:
            refused: dict[int, InputError] = {}
            types: dict[str, pa.DataType] | None = None
            if _are_quotes_even(stream, file):
                with suppress(pa.ArrowInvalid):
                    types = _types(stream, file)
            if types is None:
                refused = _copy_good_rows(stream, copy, file)
                stream = cast("IO[bytes]", copy)
                types = _types(stream, file)
            yield from refused.values()
            yield from _read(stream, file, types, sorted(refused))
        except InputError as error:
            yield error
        except pa.ArrowInvalid as error:
            yield errors.WrongFormat(InputPlace(file), f"Expected a CSV file, but got: {str(error).splitlines()[0]}")


def _read(
    stream: IO[bytes], file: str, types: dict[str, pa.DataType], refused: list[int]
) -> Iterator[tuple[list[int], pa.RecordBatch] | InputError]:
    """Read the rows that are left of a file without those that were `refused`; numbers are those of the whole file."""
    before = [row - place for place, row in enumerate(refused)]
    invalid: list[pyarrow.csv.InvalidRow] = []
    skipped: set[int] = set()
    row = 0
    with _open(stream, types, invalid) as batches:
        for batch in batches:
            found = invalid[:]  # Arrow reads ahead, and may add to it at any time
            del invalid[: len(found)]
            skipped.update(_row(each) for each in found)
            rows: list[int] = []
            while len(rows) < batch.num_rows:
                if row not in skipped:
                    rows.append(row + bisect_right(before, row))
                row += 1
            skipped = {number for number in skipped if number >= row}
            yield from (_wrong_columns(file, each, before) for each in found)
            yield rows, batch
    yield from (_wrong_columns(file, each, before) for each in invalid)


def _row(found: pyarrow.csv.InvalidRow) -> int:
    return int(found.number) - 2  # numbers count from 1, the header included


def _wrong_columns(file: str, found: pyarrow.csv.InvalidRow, before: list[int]) -> InputError:
    place = InputPlace(file, row=_row(found) + bisect_right(before, _row(found)))
    problem = f"Expected {found.expected_columns} cells, but got {found.actual_columns}"
    return errors.WrongColumns(place, problem, found.text)


@contextmanager
def _open(
    stream: IO[bytes], types: dict[str, pa.DataType], invalid: list[pyarrow.csv.InvalidRow]
) -> Iterator[pyarrow.csv.CSVStreamingReader]:
    """Read a stream from its beginning. Rows with another number of cells than the header are added to `invalid`."""
    import pyarrow as pa
    from pyarrow import csv

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        invalid.append(row)
        return "skip"

    reading = _Pass(stream)
    try:
        yield csv.open_csv(
            pa.PythonFile(reading, mode="r"),
            read_options=csv.ReadOptions(use_threads=False, block_size=_CHUNK),  # with threads rows have no numbers
            parse_options=csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse),
            convert_options=csv.ConvertOptions(
                column_types=types,
                null_values=[""],
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    finally:
        reading.end()


class _Pass:
    """One reading of a stream by Arrow, which may not close it.

    Arrow reads ahead in a thread of its own, and goes on when its reader is dropped or has met an error. A pass that
    has ended gives it no more bytes, so that it cannot move the stream under the next one.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = Lock()
        self._has_ended = False
        self.closed = False
        stream.seek(0)

    def read(self, size: int) -> bytes:
        """The next bytes, none when the pass has ended."""
        with self._lock:
            return b"" if self._has_ended else self._stream.read(size)

    def end(self) -> None:
        """Wait for a read that runs. Read no more."""
        with self._lock:
            self._has_ended = True

    def close(self) -> None:
        """Leave the stream open for the next pass."""


def _copy_good_rows(stream: IO[bytes], copy: IO[bytes], file: str) -> dict[int, InputError]:
    """Copy the file without rows above the limit, and without a last one in open quotes. Return their errors by row."""
    most = EVENT_BYTES.value
    refused: dict[int, InputError] = {}
    kept: list[bytes] = []
    row, size, is_open, begins_line = -1, 0, False, True
    stream.seek(0)
    while piece := _piece(stream):
        is_open = _ends_in_quotes(piece, is_open, begins_line)
        begins_line = piece.endswith(b"\n")
        size += len(piece)
        if size <= most:
            kept.append(piece)
        else:
            limit = LimitExceeded(EVENT_BYTES.name, size, most, EVENT_BYTES.unit)
            refused[row] = errors.RefusedInput(InputPlace(file, row=row), limit)
            kept.clear()
        if begins_line and not is_open:
            copy.writelines(kept)
            row += row in refused or bool(b"".join(kept).strip(b"\r\n"))  # Arrow does not count empty lines
            size = 0
            kept.clear()
    if -1 in refused:
        raise errors.WrongFormat(InputPlace(file, 1), f"Expected a header of at most {most:,} bytes")
    if is_open:
        place = InputPlace(file, row=row) if row >= 0 else InputPlace(file, 1)
        problem = "Expected a closing quote, but the file ends without one"
        error = errors.FileTruncated(place, problem, b"".join(kept).decode()[:1_000])
        if row < 0:
            raise error
        refused.setdefault(row, error)
    else:
        copy.writelines([*kept, b"\n"])  # Arrow takes a header without a line break for an empty file
    return refused


def _piece(stream: IO[bytes]) -> bytes:
    """The next line, or a part of one that is above the limit. It does not end within `,"` or `""`."""
    piece = stream.readline(EVENT_BYTES.value + 1)
    while piece.endswith((b'"', b",")) and len(piece) < EVENT_BYTES.value + 1_000 and (more := stream.read(1)):
        piece += more
    return piece


def _ends_in_quotes(piece: bytes, is_open: bool, begins_line: bool) -> bool:
    """Whether a cell in quotes goes on behind a piece; `is_open` says whether one goes on before it."""
    place = 0
    if begins_line and not is_open and piece.startswith(b'"'):
        place, is_open = 1, True
    while True:
        if is_open:
            closed = _TO_CLOSING_QUOTE.match(piece, place)
            if closed is None:
                return True
            place = closed.end()
        place = piece.find(b',"', place) + 2
        if place < 2:
            return False
        is_open = True


def _types(stream: IO[bytes], file: str) -> dict[str, pa.DataType]:
    """The type of each column, from all of its cells."""
    import pyarrow as pa

    with _open(stream, {}, []) as batches:
        names = batches.schema.names
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise errors.DuplicateKey(InputPlace(file, 1), f"Expected each column once, but got {twice[0]!r} twice")
    kinds: dict[str, str] = {}
    wide: set[str] = set()
    with _open(stream, dict.fromkeys(names, pa.string()), []) as batches:
        for name, cells in chain.from_iterable(zip(names, batch.columns, strict=True) for batch in batches):
            if kinds.get(name) == _TEXT or cells.null_count == len(cells):
                continue
            kind = _kind(cells)
            known = kinds.get(name, kind)
            kinds[name] = kind if kind == known else _WIDER.get((known, kind), _TEXT)
            if kind == "integer" and name not in wide and not _fits_int64(cells):
                wide.add(name)
    arrow = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), _TEXT: pa.string()}
    types = {name: arrow[kinds.get(name, _TEXT)] for name in names}
    return types | {name: pa.float64() for name in wide if kinds[name] == "integer"}


def _kind(cells: pa.Array) -> str:
    from pyarrow import compute

    for kind, regex in (("integer", INTEGER), ("number", NUMBER), ("boolean", BOOLEAN)):
        if compute.all(compute.match_substring_regex(cells, regex)).as_py():
            return kind
    return _TEXT


def _fits_int64(cells: pa.Array) -> bool:
    import pyarrow as pa

    try:
        cells.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def _are_quotes_even(stream: IO[bytes], file: str) -> bool:
    """Whether the number of quotes is even. Raises errors.WrongEncoding at the first byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    stream.seek(0)
    lines, line_start, offset, quotes = 1, 0, 0, 0
    for chunk in iter(lambda: stream.read(_CHUNK), b""):
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(chunk)
        except UnicodeDecodeError as error:
            at = offset - pending + error.start
            before = chunk[: max(0, error.start - pending)]
            lines += before.count(b"\n")
            line_start = offset + before.rfind(b"\n") + 1 if b"\n" in before else line_start
            byte = error.object[error.start]
            place = InputPlace(file, lines, at - line_start + 1)
            raise errors.WrongEncoding(place, f"Expected text in UTF-8, but got the byte 0x{byte:02x}") from None
        quotes += chunk.count(b'"')
        lines += chunk.count(b"\n")
        line_start = offset + chunk.rfind(b"\n") + 1 if b"\n" in chunk else line_start
        offset += len(chunk)
    if decoder.getstate()[0]:
        raise errors.WrongEncoding(
            InputPlace(file, lines), "Expected text in UTF-8, but the file ends within a character"
        )
    return quotes % 2 == 0
