"""Many events as JSON texts in one piece of memory: lines, a list of texts, or an Arrow column."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from mmap import mmap

import numpy as np
import pyarrow as pa

from whimbrel.compiled.array_types import Bytes, Int64s
from whimbrel.compiled.helpers import load_word
from whimbrel.compiled.jit import kernel
from whimbrel.compiled.views import read_only
from whimbrel.model.event_tables import BOM
from whimbrel.model.json_text import JsonObject, parse_json
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.ranks.arrow import string_buffers
from whimbrel.ranks.encoding.json_scan_kernels import first_byte

_ONES, _TOPS = np.uint64(0x0101_0101_0101_0101), np.uint64(0x8080_8080_8080_8080)
_LINE_BREAKS = _ONES * np.uint64(10)
_TEXT_TYPES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)

_BLANKS = (32, 9, 13, 0xEF, 0xBB, 0xBF)


@dataclass(frozen=True, slots=True)
class JsonEvents:
    """Event e is the text data[begins[e]:ends[e]], or an event without attributes if `begins[e]` is negative."""

    data: Bytes  # read-only
    begins: Int64s
    ends: Int64s
    lines: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    """The line number of each event, from 1, if they are lines."""

    def __len__(self) -> int:
        return len(self.begins)

    def slice(self, start: int, stop: int) -> JsonEvents:
        """The events from `start` to `stop`."""
        return JsonEvents(self.data, self.begins[start:stop], self.ends[start:stop], self.lines[start:stop])

    def text(self, number: int) -> bytes:
        """The text of an event."""
        begin = int(self.begins[number])
        return b"{}" if begin < 0 else self.data[begin : int(self.ends[number])].tobytes()

    def parse(self, number: int) -> JsonObject:
        """The object of an event; JsonError or LimitExceeded if its text is none."""
        EVENT_BYTES.check(int(self.ends[number] - self.begins[number]))  # before the text is copied
        return parse_json(self.text(number))

    def within(self, first: int, count: int, size: int) -> int:
        """The end of a run of events from `first` on: at most `count` events and `size` bytes, but at least one."""
        stop = min(first + count, len(self))
        if stop <= first:
            return first
        enough = np.cumsum(self.ends[first:stop] - self.begins[first:stop])
        return first + max(1, int(np.searchsorted(enough, size, "right")))


def json_lines(text: bytes | bytearray | memoryview | mmap) -> JsonEvents:
    """The events of JSON lines. Blank lines are left out, and so is a byte order mark at the beginning."""
    lines = JsonLines(text)
    taken = lines.take(_count_lines(lines.data), len(lines.data) + 1)
    return JsonEvents(lines.data, *np.empty((3, 0), np.int64)) if taken is None else taken


class JsonLines:
    """JSON lines that are taken from the front."""

    def __init__(self, text: bytes | bytearray | memoryview | mmap) -> None:
        self.data = read_only(np.frombuffer(text, np.uint8))
        start = len(BOM) if self.data[: len(BOM)].tobytes() == BOM else 0
        self._place = np.array([start, 1], np.int64)  # the place of the next line, and its number
        self._taken: deque[tuple[int, JsonEvents]] = deque()  # batches, each with the number of its first event
        self._count = 0

    @property
    def done(self) -> int:
        """The bytes of the lines that were taken."""
        return self._place.item(0)

    def take(self, count: int, size: int) -> JsonEvents | None:
        """The next lines: at most `count`, and no more after `size` bytes; None at the end."""
        begins, ends, lines = np.empty((3, count), np.int64)
        found = _split_lines(self.data, self._place, size, begins, ends, lines)
        if not found:
            return None
        taken = JsonEvents(self.data, begins[:found], ends[:found], lines[:found])
        self._taken.append((self._count, taken))
        self._count += found
        return taken

    def find(self, number: int) -> JsonEvents:
        """The event of a number, counted from the first line taken, as a batch of one."""
        first, taken = next(one for one in reversed(self._taken) if one[0] <= number)
        return taken.slice(number - first, number - first + 1)

    def forget(self, number: int) -> None:
        """Forget where the events before a number are."""
        while self._taken and self._taken[0][0] + len(self._taken[0][1]) <= number:
            self._taken.popleft()


def json_texts(texts: Sequence[bytes | str]) -> JsonEvents:
    """The events of a list of texts, each one event."""
    encoded = [one if isinstance(one, bytes) else one.encode("utf-8", "surrogatepass") for one in texts]
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    return JsonEvents(np.frombuffer(b"".join(encoded), np.uint8), np.concatenate([[0], ends[:-1]]), ends)


def json_column(column: object) -> JsonEvents | None:
    """The events of an Arrow array, chunked or not; None if it has neither texts nor binary values."""
    if isinstance(column, pa.ChunkedArray):
        parts = [_wide(chunk) for chunk in column.chunks]
        if not parts:
            parts = [_wide(pa.array([], column.type))]
        if any(part is None for part in parts):
            return None
        array = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    elif isinstance(column, pa.Array):
        array = _wide(column)
    else:
        return None
    if array is None:
        return None
    offsets, data = string_buffers(array)
    begins, ends = offsets[:-1], offsets[1:]
    if array.null_count:
        begins = np.where(np.asarray(array.is_valid()), begins, -1)
    return JsonEvents(read_only(data), begins, ends)


def _wide(array: pa.Array) -> pa.Array | None:
    """Texts and binary values with 64-bit offsets; None for arrays of other types."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if not any(is_of(kind) for is_of in _TEXT_TYPES):
        return None
    return array.cast(kind).cast(pa.large_binary())


@kernel
def _count_lines(data: Bytes) -> int:
    count = 1
    for i in range(data.size):
        count += data[i] == 10
    return count


@kernel
def _split_lines(data: Bytes, place: Int64s, size: int, begins: Int64s, ends: Int64s, lines: Int64s) -> int:
    """Write begin, end and number of the next lines that are not blank; return how many there are."""
    n = 0
    at, line = place[0], place[1]
    stop = at + size
    while n < begins.size and at < data.size and at < stop:
        begin = at
        is_blank = True
        while at < data.size:
            if at + 8 <= data.size:
                unlike = load_word(data, at) ^ _LINE_BREAKS
                found = (unlike - _ONES) & ~unlike & _TOPS
                if found == np.uint64(0):
                    at += 8
                    continue
                at += first_byte(found)
                break
            if data[at] == 10:
                break
            at += 1
        for i in range(begin, at):
            if data[i] not in _BLANKS:
                is_blank = False
                break
        if not is_blank:
            begins[n], ends[n], lines[n] = begin, at, line
            n += 1
        line += 1
        at += 1
    place[0], place[1] = at, line
    return n
