"""JSON texts as events: the exact reader, which says what is wrong and where.

It is strict: a key that comes twice in an object, NaN and Infinity are refused, which Python's own decoder takes.
Compiled readers (`ranks.encoding.json_reader`) are quicker, agree with it, and leave to it what they do not read.
"""

from __future__ import annotations

import json
import re
from collections import deque
from enum import StrEnum
from typing import NamedTuple

from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.model.limits import EVENT_BYTES, EVENT_DEPTH, INTEGER_DIGITS

JsonObject = dict[str, object]


class JsonProblem(StrEnum):
    """Why a text is no JSON object."""

    SYNTAX = "syntax"
    ENCODING = "encoding"
    CONSTANT = "constant"
    DUPLICATE = "duplicate key"
    NOT_AN_OBJECT = "not an object"


class TextPlace(NamedTuple):
    """A place in a text: line and column, from 1, and byte, from 0."""

    line: int
    column: int
    byte: int


class JsonError(EventError):
    """A text is no JSON object: what was expected, what was found, and the `place` if it is known."""

    def __init__(
        self,
        problem: JsonProblem,
        expected: str,
        found: str,
        path: str = "$",
        row: int | None = None,
        place: TextPlace | None = None,
    ) -> None:
        self.problem = problem
        self.place = place
        self.message = found
        """What is wrong, without the place."""
        if place is not None:
            found += f" at line {place.line}, column {place.column} (byte {place.byte})"
        super().__init__(expected, found, path, row)

    def at_row(self, row: int | None) -> JsonError:
        return JsonError(self.problem, self.expected, self.message, self.path, row, self.place)


def parse_json(text: bytes | str) -> JsonObject:
    """The object that a JSON text is; JsonError or LimitExceeded if it is none.

    >>> parse_json(b'{"price": 3}')
    {'price': 3}
    """
    size = len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    EVENT_BYTES.check(size)
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            before, bad = error.object[: error.start], error.object[error.start]
            place = TextPlace(before.count(b"\n") + 1, error.start - before.rfind(b"\n"), error.start)
            found = f"the byte 0x{bad:02x}"
            raise JsonError(JsonProblem.ENCODING, "text in UTF-8", found, place=place) from None
    return parse_text(text)


def parse_text(text: str) -> JsonObject:
    """`parse_json` of a text of any length."""
    try:
        item = _decode(_DECODER, text)
    except _KeyTwice:
        path, key = _find_duplicate(_decode(_PAIRS_DECODER, text))  # unless the rest of the text is no JSON
        raise JsonError(JsonProblem.DUPLICATE, "each key once", f"{key!r} twice", path) from None
    if not isinstance(item, dict):
        raise JsonError(JsonProblem.NOT_AN_OBJECT, "a JSON object", _NAMES.get(type(item), "null"))
    return item


def _decode(decoder: json.JSONDecoder, text: str) -> object:
    """Decode a text; raise JsonError or LimitExceeded if it is no JSON."""
    try:
        item: object = decoder.decode(text)
    except json.JSONDecodeError as error:
        byte = len(text[: error.pos].encode("utf-8", "surrogatepass"))
        raise JsonError(
            JsonProblem.SYNTAX, "JSON", error.msg, place=TextPlace(error.lineno, error.colno, byte)
        ) from None
    except _NotANumber as error:
        found = f"{error}, which JSON has no number for"
        raise JsonError(JsonProblem.CONSTANT, "JSON", found) from None
    except RecursionError:
        raise LimitExceeded(EVENT_DEPTH.name, _depth(text), EVENT_DEPTH.value, EVENT_DEPTH.unit) from None
    except ValueError:  # the interpreter's own limit on digits
        digits = max(map(len, re.findall(r"[0-9]+", text)))
        raise LimitExceeded(INTEGER_DIGITS.name, digits, INTEGER_DIGITS.value, INTEGER_DIGITS.unit) from None
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
    if len(item) < len(pairs):
        raise _KeyTwice
    return item


def _refuse_constant(name: str) -> float:
    raise _NotANumber(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
_PAIRS_DECODER = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_refuse_constant)


def _find_duplicate(whole: object) -> tuple[str, str]:
    """The path of the first object with a key twice, and that key."""
    pending = deque([(whole, "$")])
    while pending:
        item, path = pending.popleft()
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
