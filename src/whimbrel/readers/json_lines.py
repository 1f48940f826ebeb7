"""JSON lines: one object per line. A key that comes twice in an object is refused, which fast decoders do not notice.

A file is read in chunks, and the complete lines of a chunk are one batch. So memory is bounded, and a line of a slow
pipe is answered at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import BufferedReader
from typing import NamedTuple

from whimbrel.model.errors import LimitExceeded
from whimbrel.model.limits import EVENT_DEPTH, INTEGER_DIGITS, Limit
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

JsonObject = dict[str, object]
Line = tuple[InputPlace, JsonObject | InputError]

_CHUNK = 1 << 20
_SHOWN = 64
_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r" + _BOM
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
            if row == 0 and (found := _WHOLE_FILES.get(line.content.strip(_BLANK))):
                lines.append((InputPlace(file), WrongFormat(InputPlace(file), f"{_PER_LINE}, but got {found}")))
                yield lines
                return
            row += 1
            lines.append((place, _read_line(line, place, limit, longest)))
        yield lines
    if not row:
        yield [(InputPlace(file), FileEmpty(InputPlace(file), f"{_PER_LINE}, but the file is blank"))]


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
            dropped += len(rest) - _SHOWN
            rest = rest[:_SHOWN]
        if batch:
            yield batch
    if rest:
        yield [RawLine(number + 1, rest, len(rest) + dropped, True)]


def _read_line(line: RawLine, place: InputPlace, limit: Limit, longest: int) -> JsonObject | InputError:
    raw = line.content.removeprefix(_BOM) if line.number == 1 else line.content
    if line.size > longest:
        cause = LimitExceeded(limit.name, line.size, limit.value, limit.unit)
        return RefusedInput(place, cause, raw[:_SHOWN].decode(errors="replace"))
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
        item = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        at = InputPlace(place.file, (place.line or 1) + error.lineno - 1, error.colno, place.row)
        if is_last and (error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")):
            return FileTruncated(at, "Expected a whole JSON object, but the file ends within it", text)
        return NotJson(at, f"Expected JSON, but got: {error.msg}", text)
    except _KeyTwice:
        path, key = _find_duplicate(json.loads(text, object_pairs_hook=_Pairs))
        at = InputPlace(place.file, place.line, None, place.row, path)
        return DuplicateKey(at, f"Expected each key once, but got {key!r} twice - at {path}", text)
    except _NotANumber as error:
        return NotJson(place, f"Expected JSON, but got {error}, which JSON has no number for", text)
    except RecursionError:
        return RefusedInput(
            place, LimitExceeded(EVENT_DEPTH.name, _depth(text), EVENT_DEPTH.value, EVENT_DEPTH.unit), text
        )
    except ValueError:  # the interpreter's own limit on digits
        digits = max(map(len, re.findall(r"[0-9]+", text)))
        return RefusedInput(
            place, LimitExceeded(INTEGER_DIGITS.name, digits, INTEGER_DIGITS.value, INTEGER_DIGITS.unit), text
        )
    if not isinstance(item, dict):
        found = _NAMES.get(type(item), "null")
        hint = "; each object stands on a line of its own" if isinstance(item, list) and place.line == 1 else ""
        return NotAnObject(place, f"Expected a JSON object, but got {found}{hint}", text)
    return item


class _KeyTwice(Exception):
    pass


class _NotANumber(Exception):
    pass


class _Pairs(list[tuple[str, object]]):
    """The members of an object, duplicates included."""


_NAMES = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean"}


def _unique(pairs: list[tuple[str, object]]) -> JsonObject:
    item = dict(pairs)
    if len(item) != len(pairs):
        raise _KeyTwice
    return item


def _refuse_constant(name: str) -> float:
    raise _NotANumber(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _find_duplicate(item: object, path: str = "$") -> tuple[str, str]:
    """The path of the first object with a key twice, and that key."""
    pending = [(item, path)]
    while pending:
        item, path = pending.pop(0)
        if isinstance(item, _Pairs):
            seen: set[str] = set()
            for key, value in item:
                if key in seen:
                    return path, key
                seen.add(key)
                pending.append((value, f"{path}.{key}"))
        elif isinstance(item, list):
            pending += ((member, f"{path}[{index}]") for index, member in enumerate(item))
    raise AssertionError("no object has a key twice")


def _depth(text: str) -> int:
    """How deep brackets nest in a text; brackets inside strings count, too."""
    depth = deepest = 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        deepest = max(deepest, depth)
    return deepest
