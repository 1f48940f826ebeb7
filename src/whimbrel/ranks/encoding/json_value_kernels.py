"""Reads the values of JSON objects in compiled code: each becomes a rank, or a number in its cell."""

from __future__ import annotations

from whimbrel.compiled.array_types import Bytes, Floats
from whimbrel.compiled.jit import inlined
from whimbrel.compiled.python_objects import bytes_at
from whimbrel.ranks.encoding.json_number_kernels import HUGE, INTEGER, UNREAD, scan_number
from whimbrel.ranks.encoding.json_scan_kernels import BAD, byte_at, four_bytes, scan_string, unescape
from whimbrel.ranks.encoding.json_state import NOTES, TEXT_BYTES, UNREAD_FLOATS, JsonState
from whimbrel.ranks.encoding.name_table import EXACT_NUMBER, EXACT_TIME, SOURCE, TIME
from whimbrel.ranks.kernel_arrays import EXACT_FLOAT, FOR_PYTHON, FULL, Numbers, Reading
from whimbrel.ranks.rank_kernels import rank_large, rank_time
from whimbrel.ranks.string_kernels import rank_string
from whimbrel.ranks.timestamps import ODD_TIME, parse_time

_TRUE, _FALS, _NULL = (int.from_bytes(text, "little") for text in (b"true", b"fals", b"null"))


@inlined
def read_text(
    data: Bytes, at: int, end: int, attr: int, flags: int, state: JsonState, reading: Reading
) -> tuple[int, int, int, int]:
    """Read the string at `at`; return the place after it, or FOR_PYTHON; its rank; the place and length of its text.

    The length is -1 if patterns do not look at the text.
    """
    stop, escaped = scan_string(data, at, end)
    if stop < 0:
        return FOR_PYTHON, BAD, 0, -1
    if attr < 0 and not flags & TIME:
        return stop + 1, BAD, 0, -1
    begin, length, source, first = at, stop - at, data, at
    if escaped:
        used = state.counters[TEXT_BYTES]
        length = unescape(data, at, stop, state.texts, used)
        if length < 0:
            return FULL, BAD, 0, -1
        begin, source, first = -1 - used, bytes_at(state.texts.ctypes.data, state.texts.size), used
        if flags & SOURCE:
            state.counters[TEXT_BYTES] += length
    if not flags & TIME:
        return stop + 1, rank_string(source, first, length, attr, reading), begin, length
    time = int(parse_time(source, first, first + length))
    if time == ODD_TIME or flags & EXACT_TIME:
        return FOR_PYTHON, BAD, 0, -1
    if attr < 0:
        return stop + 1, BAD, 0, -1
    return stop + 1, rank_time(time, attr, reading), 0, -1


@inlined
def read_number(
    data: Bytes, at: int, end: int, attr: int, flags: int, entry: int, state: JsonState, numbers: Numbers,
    cells: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Read a number; return the place after it, FOR_PYTHON or FULL; and its rank, or BAD if it is in its cell."""
    stop, kind, whole, real = scan_number(data, at, end)
    if stop < 0:
        return FOR_PYTHON, BAD
    if attr < 0:
        return stop, BAD
    if kind == HUGE or flags & EXACT_NUMBER:
        return FOR_PYTHON, BAD
    if kind == INTEGER:
        cells[entry] = float(whole)
        if not -EXACT_FLOAT <= whole <= EXACT_FLOAT:
            rank = rank_large(whole, attr, numbers)
            return stop if rank >= 0 else FOR_PYTHON, rank
        return stop, BAD
    cells[entry] = real
    if kind == UNREAD:
        left = state.counters[UNREAD_FLOATS]
        if left >= state.unread.shape[0]:
            return FULL, BAD
        state.unread[left, 0], state.unread[left, 1], state.unread[left, 2] = entry, at, stop
        state.counters[UNREAD_FLOATS] += 1
    return stop, BAD


@inlined
def read_word(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read true, false or null; return the place after it, or FOR_PYTHON; and its rank."""
    four = four_bytes(data, at, end)
    if four == _NULL:
        return at + 4, 0
    if four == _TRUE:
        return at + 4, 4
    is_false = four == _FALS and byte_at(data, at + 4, end) == 0x65
    return at + 5 if is_false else FOR_PYTHON, 2


@inlined
def note(state: JsonState, entry: int, begin: int, length: int) -> bool:
    """Note where the text of an entry is; False if there is no place for the note."""
    note = state.counters[NOTES]
    if note >= state.notes.shape[0]:
        return False
    state.notes[note, 0], state.notes[note, 1], state.notes[note, 2] = entry, begin, length
    state.counters[NOTES] += 1
    return True
