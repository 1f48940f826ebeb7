"""JSON lines: one object per line. A key that comes twice in an object is refused, which fast decoders do not notice.

A file is read in chunks, and the complete lines of a chunk are one batch. So memory is bounded, and a line of a slow
pipe is answered at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from typing import NamedTuple

from whimbrel.model.errors import LimitExceeded
from whimbrel.model.event_tables import BOM
from whimbrel.model.json_text import JsonError, JsonObject, JsonProblem, parse_text
from whimbrel.model.limits import Limit
from whimbrel.readers.errors import (
    DuplicateKey,
    FileEmpty,
    FileTruncated,
    InputError,
    InputPlace,
    NotAnObject,
    NotJson,
    RefusedInput,
    WrongEncoding,
    WrongFormat,
)

Line = tuple[InputPlace, JsonObject | InputError]

_CHUNK = 1 << 20
SHOWN = 64
"""Bytes that are shown of a line that is too long."""
_BLANK = b" \t\r" + BOM
_PER_LINE = "Expected a JSON object per line"
_WHOLE_FILES = {
    b"[": "an array over several lines (jq -c '.[]' writes its members as lines)",
    b"{": "an object over several lines (jq -c . writes it as one line)",
}
"""First lines of files that are one JSON value, and what those files are."""


class RawLine(NamedTuple):
    """A line of the file; `is_last` if the file ends without a line break after it."""

    number: int
    content: bytes
    size: int
    is_last: bool


def read_json_lines(stream: BufferedReader, file: str, limit: Limit, longest: int) -> Iterator[list[Line]]:
    """Read batches of (place, object or error), one for each line that is not blank; rows count from 0.

    A line longer than `longest` bytes is refused by `limit`.
    """
    row = 0
    for batch in _batches(stream, longest):
        lines: list[Line] = []
        for line in batch:
            if not line.content.strip(_BLANK):
                continue
            place = InputPlace(file, line.number, row=row)
            if row == 0 and (problem := check_first_line(line.content, file)) is not None:
                lines.append((problem.place, problem))
                yield lines
                return
            row += 1
            lines.append((place, _read_line(line, place, limit, longest)))
        yield lines
    if not row:
        yield [(InputPlace(file), blank_file(file))]


def check_first_line(line: bytes, file: str) -> InputError | None:
    """What is wrong with a file whose first line is this; None if that is a JSON text, or a broken one."""
    found = _WHOLE_FILES.get(line.strip(_BLANK))
    return None if found is None else WrongFormat(InputPlace(file), f"{_PER_LINE}, but got {found}")


def blank_file(file: str) -> InputError:
    """The error of a file that has no lines, or blank ones only."""
    return FileEmpty(InputPlace(file), f"{_PER_LINE}, but the file is blank")


def _batches(stream: BufferedReader, longest: int) -> Iterator[list[RawLine]]:
    """The lines of each chunk. Of a line that is too long only the beginning and the size are kept."""
    number, dropped, rest = 0, 0, b""
    while chunk := stream.read1(_CHUNK):
        pieces = chunk.split(b"\n")
        pieces[0] = rest + pieces[0]
        rest = pieces.pop()
        batch = []
        for piece in pieces:
            number += 1
            batch.append(RawLine(number, piece, len(piece) + dropped, False))
            dropped = 0
        if len(rest) > longest:
            dropped += len(rest) - SHOWN
            rest = rest[:SHOWN]
        if batch:
            yield batch
    if rest:
        yield [RawLine(number + 1, rest, len(rest) + dropped, True)]


def _read_line(line: RawLine, place: InputPlace, limit: Limit, longest: int) -> JsonObject | InputError:
    raw = line.content.removeprefix(BOM) if line.number == 1 else line.content
    if line.size > longest:
        cause = LimitExceeded(limit.name, line.size, limit.value, limit.unit)
        return RefusedInput(place, cause, raw[:SHOWN].decode(errors="replace"))
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        at = InputPlace(place.file, place.line, error.start + 1, place.row)
        problem = f"Expected text in UTF-8, but got the byte 0x{raw[error.start]:02x}"
        return WrongEncoding(at, problem, raw.decode(errors="replace"))
    return parse_object(text, place, line.is_last)


def parse_object(text: str, place: InputPlace, is_last: bool = False) -> JsonObject | InputError:
    """Parse a JSON object; `is_last` if the file ends with this text, perhaps too early."""
    try:
        return parse_text(text)
    except LimitExceeded as error:
        return RefusedInput(place, error, text)
    except JsonError as error:
        return json_problem(error, text, place, is_last)


def json_problem(error: JsonError, text: str, place: InputPlace, is_last: bool = False) -> InputError:
    """What is wrong with a text that is no JSON object."""
    if error.problem is JsonProblem.DUPLICATE:
        at = InputPlace(place.file, place.line, None, place.row, error.path)
        return DuplicateKey(at, f"Expected each key once, but got {error.found} - at {error.path}", text)
    if error.problem is JsonProblem.NOT_AN_OBJECT:
        hint = "; each object stands on a line of its own" if error.found == "an array" and place.line == 1 else ""
        return NotAnObject(place, f"Expected a JSON object, but got {error.found}{hint}", text)
    if error.place is None:
        return NotJson(place, f"Expected JSON, but got {error.found}", text)
    at = InputPlace(place.file, (place.line or 1) + error.place.line - 1, error.place.column, place.row)
    if error.problem is JsonProblem.ENCODING:
        return WrongEncoding(at, f"Expected text in UTF-8, but got {error.message}", text)
    ends_there = error.place.byte >= len(text.rstrip().encode("utf-8", "surrogatepass"))
    if is_last and (ends_there or error.message.startswith("Unterminated")):
        return FileTruncated(at, "Expected a whole JSON object, but the file ends within it", text)
    return NotJson(at, f"Expected JSON, but got: {error.message}", text)
