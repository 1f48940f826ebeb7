"""JSON lines: one object per line. A key that comes twice in an object is refused, which fast decoders do not notice.

A stream is cut into pieces of whole lines, as many as are there, up to a few megabytes. So memory is bounded, and a
line of a slow pipe is answered at once.
"""

from __future__ import annotations

import io
import re
import select
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedReader
from typing import Generic, NamedTuple, TypeVar

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

T = TypeVar("T")
Line = tuple[InputPlace, T | InputError]

_PIECE = 4 << 20  # bytes that are read at once, at most
_SHOWN = 64  # bytes that are shown of a line that is too long
_BESIDE = 4  # bytes of a line that are no part of its object: a byte order mark, a carriage return
_BLANK = b" \t\r" + BOM
_PER_LINE = "Expected a JSON object per line"
_WHOLE_FILES = {
    b"[": "an array over several lines (jq -c '.[]' writes its members as lines)",
    b"{": "an object over several lines (jq -c . writes it as one line)",
}
"""First lines of files that are one JSON value, and what those files are."""
_WHOLE_FILE = re.compile(rb"[ \t\r\n\xef\xbb\xbf]*+([\[{])[ \t\r\xef\xbb\xbf]*+(?:\n|\Z)")


class LinePiece(NamedTuple):
    """Whole lines of a stream, of which the first has this number, from 1; or the beginning of one that is too long."""

    content: bytes
    number: int
    size: int = 0
    """Bytes of the line that is too long; 0 if lines are whole."""


class PlacedItems(Generic[T]):
    """Items of a file that follow each other without a gap. Only the first place is kept; iterating gives all."""

    def __init__(self, first: InputPlace, items: Sequence[T]) -> None:
        self.first = first
        self.items = items

    def __iter__(self) -> Iterator[Line[T]]:
        return ((self.first.below(number), item) for number, item in enumerate(self.items))


def line_pieces(stream: BufferedReader, longest: int) -> Iterator[LinePiece]:
    """Cut a stream behind line breaks. Of a line longer than `longest` bytes only the beginning is kept."""
    number, rest, dropped = 1, b"", 0
    while chunk := _read_available(stream):
        if dropped:
            end = chunk.find(b"\n")
            if end < 0:
                dropped += len(chunk)
                continue
            yield LinePiece(rest, number, dropped + end)
            number, rest, dropped, chunk = number + 1, b"", 0, chunk[end + 1 :]
        cut = chunk.rfind(b"\n") + 1
        if cut:
            content = rest + chunk[:cut]
            yield _unmarked(content, number)
            number += content.count(b"\n")
            rest = chunk[cut:]
        else:
            rest += chunk
        if len(rest) > longest + _BESIDE:
            dropped, rest = len(rest), rest[:_SHOWN]
    if rest:
        yield LinePiece(rest, number, dropped) if dropped else _unmarked(rest, number)


def _unmarked(content: bytes, number: int) -> LinePiece:
    """A piece of whole lines. One that is not the first and begins with a byte order mark gets a blank line before it.

    Readers skip a mark where a text begins; behind a blank line they refuse it.
    """
    is_wrong = number > 1 and content.startswith(BOM)
    return LinePiece(b"\n" + content, number - 1) if is_wrong else LinePiece(content, number)


def _read_available(stream: BufferedReader) -> bytes:
    """Wait for bytes, then read those that are there, up to the size of a piece; none at the end."""
    read = [stream.read1(_PIECE)]
    size = len(read[0])
    while read[-1] and size < _PIECE and _is_ready(stream):
        read.append(stream.read1(_PIECE - size))
        size += len(read[-1])
    return b"".join(read)


def _is_ready(stream: BufferedReader) -> bool:
    """Whether reading will not wait."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (io.UnsupportedOperation, ValueError):  # a stream without a file descriptor, or with one above 1,023
        return not isinstance(stream.raw, io.FileIO)


def read_json_lines(
    stream: BufferedReader,
    file: str,
    limit: Limit,
    longest: int,
    decode: Callable[[bytes], T | None],
    decode_all: Callable[[bytes], Sequence[T] | None] | None = None,
) -> Iterator[Iterable[Line[T | JsonObject]]]:
    """Read batches of (place, object or error), one for each line that is not blank; rows count from 0.

    `decode` reads a line quickly, or returns None where it may be wrong: then it is read exactly. `decode_all` reads
    lines of which none is blank, or returns None where one may be wrong; a batch of them is a `PlacedItems`. A line
    longer than `longest` bytes is refused by `limit`.
    """
    row = 0
    for piece in line_pieces(stream, longest):
        items = None
        if decode_all is not None and not piece.size and len(piece.content) <= longest:
            items = decode_all(piece.content)
        if items is not None:
            yield PlacedItems(InputPlace(file, piece.number, row=row), items)
            row += len(items)
            continue
        found: list[Line[T | JsonObject]] = []
        is_last = not piece.content.endswith(b"\n")
        lines = [piece.content] if piece.size else piece.content.split(b"\n")
        for number, line in enumerate(lines, piece.number):
            if not line or not line.strip(_BLANK):
                continue
            if row == 0 and (problem := check_first_line(line, file)) is not None:
                yield [*found, (problem.place, problem)]
                return
            place = InputPlace(file, number, row=row)
            row += 1
            if piece.size or len(line) > longest:
                found.append((place, too_long(place, line, piece.size or len(line), limit)))
                continue
            item = decode(line)
            found.append((place, read_line(line, place, is_last) if item is None else item))
        yield found
    if not row:
        yield [(InputPlace(file), blank_file(file))]


def check_first_line(content: bytes, file: str) -> InputError | None:
    """Return the error of a file that is one JSON value over many lines; None for other files."""
    found = _WHOLE_FILE.match(content)
    return None if found is None else WrongFormat(InputPlace(file), f"{_PER_LINE}, but got {_WHOLE_FILES[found[1]]}")


def blank_file(file: str) -> InputError:
    """The error of a file that has no lines, or blank ones only."""
    return FileEmpty(InputPlace(file), f"{_PER_LINE}, but the file is blank")


def too_long(place: InputPlace, line: bytes, size: int, limit: Limit) -> InputError:
    """The error of a line above a limit, which is shown by its beginning."""
    cause = LimitExceeded(limit.name, size, limit.value, limit.unit)
    return RefusedInput(place, cause, line.removeprefix(BOM)[:_SHOWN].decode(errors="replace"))


def read_line(line: bytes, place: InputPlace, is_last: bool) -> JsonObject | InputError:
    """Parse a line exactly; `is_last` if the file ends with it, perhaps too early."""
    raw = line.removeprefix(BOM) if place.line == 1 else line
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        at = InputPlace(place.file, place.line, error.start + 1, place.row)
        problem = f"Expected text in UTF-8, but got the byte 0x{raw[error.start]:02x}"
        return WrongEncoding(at, problem, raw.decode(errors="replace"))
    return parse_object(text, place, is_last)


def parse_object(text: str, place: InputPlace, is_last: bool = False) -> JsonObject | InputError:
    """Parse a JSON object; `is_last` if the file ends with this text, perhaps too early."""
    try:
        return parse_text(text)
    except LimitExceeded as error:
        return RefusedInput(place, error, text)
    except JsonError as error:
        return json_problem(error, text, place, is_last)


def json_problem(error: JsonError, text: str, place: InputPlace, is_last: bool = False) -> InputError:
    """Return the error of a text that is no JSON object, at its place in the file."""
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
