"""CSV files of events: typed column by column from all of their cells, then read as Arrow batches.

A column whose cells are all numbers as JSON writes them is a column of numbers; all `true` or `false`, of booleans;
anything else is text. An empty cell is missing, `""` in quotes is the empty string. The file is read twice, because
a type that fits the beginning of a file need not fit its end.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from whimbrel.readers.errors import (
    DuplicateKey,
    FileTruncated,
    InputError,
    InputPlace,
    WrongColumns,
    WrongEncoding,
    WrongFormat,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv

_CHUNK = 1 << 20
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
_BOOLEAN = r"^(true|false|True|False|TRUE|FALSE)$"
_TEXT = "text"
_WIDER = {("integer", "number"): "number", ("number", "integer"): "number"}


def read_csv(stream: IO[bytes], file: str) -> Iterator[tuple[list[int], pa.RecordBatch] | InputError]:
    """Read batches with the numbers of their rows; an error stands where a row has the wrong number of cells."""
    import pyarrow as pa

    try:
        _check_encoding(stream, file)
        names = _open(stream, {}, []).schema.names
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            yield DuplicateKey(InputPlace(file, 1), f"Expected each column once, but got {twice[0]!r} twice")
            return
        types = _infer(stream, names)
        yield from _read(stream, file, types)
    except WrongEncoding as error:
        yield error
    except pa.ArrowInvalid as error:
        yield WrongFormat(InputPlace(file), f"Expected a CSV file, but got: {str(error).splitlines()[0]}")


def _read(
    stream: IO[bytes], file: str, types: dict[str, pa.DataType]
) -> Iterator[tuple[list[int], pa.RecordBatch] | InputError]:
    invalid: list[pyarrow.csv.InvalidRow] = []
    skipped: set[int] = set()
    row = 0
    for batch in _open(stream, types, invalid):
        skipped.update(_row(found) for found in invalid)
        rows: list[int] = []
        while len(rows) < batch.num_rows:
            if row not in skipped:
                rows.append(row)
            row += 1
        skipped = {number for number in skipped if number >= row}  # Arrow reads ahead
        yield from (_wrong_columns(file, found) for found in invalid)
        invalid.clear()
        yield rows, batch
    yield from (_wrong_columns(file, found) for found in invalid)


def _row(found: pyarrow.csv.InvalidRow) -> int:
    return int(found.number) - 2  # numbers count from 1, the header included


def _wrong_columns(file: str, found: pyarrow.csv.InvalidRow) -> InputError:
    place = InputPlace(file, row=_row(found))
    if found.text.count('"') % 2:
        return FileTruncated(place, "Expected a closing quote, but the file ends without one", found.text[:1_000])
    problem = f"Expected {found.expected_columns} cells, but got {found.actual_columns}"
    return WrongColumns(place, problem, found.text)


def _open(
    stream: IO[bytes], types: dict[str, pa.DataType], invalid: list[pyarrow.csv.InvalidRow]
) -> pyarrow.csv.CSVStreamingReader:
    import pyarrow as pa
    from pyarrow import csv

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        invalid.append(row)
        return "skip"

    stream.seek(0)
    return csv.open_csv(
        pa.PythonFile(_Unclosed(stream), mode="r"),
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


class _Unclosed:
    """A stream that Arrow may read and not close."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.read = stream.read
        self.seek = stream.seek
        self.tell = stream.tell
        self.closed = False

    def close(self) -> None:
        """Leave the stream open for the next pass."""


def _infer(stream: IO[bytes], names: list[str]) -> dict[str, pa.DataType]:
    import pyarrow as pa

    kinds: dict[str, str] = {}
    wide: set[str] = set()
    for batch in _open(stream, dict.fromkeys(names, pa.string()), []):
        for name, cells in zip(names, batch.columns, strict=True):
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

    for kind, regex in (("integer", _INTEGER), ("number", _NUMBER), ("boolean", _BOOLEAN)):
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


def _check_encoding(stream: IO[bytes], file: str) -> None:
    """Raise WrongEncoding at the first byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    stream.seek(0)
    lines, line_start, offset = 1, 0, 0
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
            raise WrongEncoding(place, f"Expected text in UTF-8, but got the byte 0x{byte:02x}") from None
        lines += chunk.count(b"\n")
        line_start = offset + chunk.rfind(b"\n") + 1 if b"\n" in chunk else line_start
        offset += len(chunk)
    if decoder.getstate()[0]:
        raise WrongEncoding(InputPlace(file, lines), "Expected text in UTF-8, but the file ends within a character")
