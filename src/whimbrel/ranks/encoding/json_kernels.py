"""Reading JSON objects in one compiled loop: the values of attributes that filters mention become entries.

The loop checks the whole text as it goes: syntax, UTF-8, escapes, keys that come twice. What it does not read itself it
leaves to Python, event by event, and so it raises no errors: whatever may be wrong, values of an attribute in several
places (`{"a.b": 1, "a": {"b": 2}}`; elements of an array are one place), escapes in keys, numbers that no int64 or
float holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.helpers import lower_bound
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.compiled.python_objects import bytes_at
from whimbrel.compiled.views import tuple_of_arrays, view
from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_BYTES, EVENT_DEPTH, EVENT_VALUES
from whimbrel.ranks.cells import RANK
from whimbrel.ranks.encoding.dict_kernels import HAS_TEXTS, IN_ARRAYS
from whimbrel.ranks.encoding.json_names import (
    ABOVE,
    NAMES,
    NOTED,
    PYTHON_NUMBERS,
    PYTHON_TEXTS,
    TIME,
    JsonNames,
    mixed,
    read_key,
)
from whimbrel.ranks.encoding.json_scan_kernels import (
    BAD,
    HUGE,
    INTEGER,
    QUOTE,
    UNREAD,
    byte_at,
    scan_number,
    scan_string,
    signed,
    unescape,
)
from whimbrel.ranks.kernel_arrays import (
    ARRAY_BITS,
    ENTRIES,
    ENTRIES_AT,
    NUMBERS,
    NUMBERS_AT,
    READING,
    READING_AT,
    Numbers,
    Reading,
)
from whimbrel.ranks.lookup import EXACT_FLOAT, INTEGERS, NO_NUMBERS
from whimbrel.ranks.string_kernels import rank_string
from whimbrel.ranks.timestamps import ODD_TIME, parse_time

FOR_PYTHON, FULL = -1, -2
"""In place of a number of entries: Python must read the event; some buffer is full."""
READ, LEFT, COUPLED = 0, 1, 2
"""States of an event: its entries are there; Python must read it; its entries are there, some are of values in arrays
of objects."""
EVENT, OBJECT, NOTES, UNREAD_FLOATS, TEXT_BYTES, IN_OBJECTS = 0, 1, 2, 3, 4, 5
"""Counters: the events and objects so far, the rows of `notes` and of `unread`, the bytes of `texts`, and the values
that are in arrays of objects."""
OTHERS = 1 << 13
"""Places for the other keys of an event, at most three quarters of which are used."""

_OBJECT, _LIST = 0, 1
_KIND, _TARGET, _NUMBER, _ELEMENT, _TAG = 0, 1, 2, 3, 4
_ARRAY_MASK = (1 << ARRAY_BITS) - 1
_MOST_SCATTERED = 1_024
"""Entries of an event, at most, that are brought together by attribute here."""
_MOST_LEVELS = EVENT_DEPTH.value
_MOST_VALUES, _MOST_KEYS = EVENT_VALUES.value, EVENT_ATTRIBUTES.value
_MOST_OTHERS = OTHERS // 4 * 3
_MOST_BYTES = EVENT_BYTES.value
_TRUE, _FALS, _NULL = (int.from_bytes(text, "little") for text in (b"true", b"fals", b"null"))


class JsonState(NamedTuple):
    """What a reader writes, and which texts it reads."""

    begins: np.ndarray  # int64[e]: where the texts begin, -1 for an event without attributes
    ends: np.ndarray  # int64[e]
    offsets: np.ndarray  # int64[e + 1]: where the entries of each event begin
    states: np.ndarray  # uint8[e]: READ or LEFT
    counters: np.ndarray  # int64[6]
    seen: np.ndarray  # int64[t]: the number of the last object that had the target
    arrays: np.ndarray  # uint8[t]: whether an array of objects has been the value of the target
    stack: np.ndarray  # int64[64 + 2, 5]: of each open object or list its kind, its target, its number if it is an
    # object, the number of the element of an array of objects that it is in, and what `Entries.elements` has of it
    stamps: np.ndarray  # int64[OTHERS]: the event of the key at this place
    others: np.ndarray  # int64[OTHERS]: the hash of a key that leads to no target, and of the object it is in
    texts: np.ndarray  # uint8: strings without their escapes
    notes: np.ndarray  # int64[n, 3]: entry, begin and size of the values of NOTED targets, size -1 if it is no string;
    # begin is negative in `texts`: -1 - place
    unread: np.ndarray  # int64[m, 3]: entry, begin and end of floats that Python must read


JSON_STATE = tuple_of_arrays(
    JsonState,
    True,
    {
        "states": ("uint8", 1),
        "arrays": ("uint8", 1),
        "texts": ("uint8", 1),
        "stack": ("int64", 2),
        "notes": ("int64", 2),
        "unread": ("int64", 2),
        **dict.fromkeys(("begins", "ends", "offsets", "counters", "seen", "stamps", "others"), ("int64", 1)),
    },
)
_STATE_AT = NAMES.words
"""Where the words of the state begin, after those of the names."""

_reading, _entries, _numbers = view(READING), view(ENTRIES), view(NUMBERS)
_names, _state = view(NAMES), view(JSON_STATE)


@inlined
def _skip_spaces(data: np.ndarray, at: int, end: int) -> int:  # pragma: no cover
    byte = byte_at(data, at, end)
    while byte <= 32 and (byte == 32 or byte == 10 or byte == 13 or byte == 9):  # noqa: PLR1714 - compiles faster
        at += 1
        byte = byte_at(data, at, end)
    return at


@helper
def _is_new(state: JsonState, hash: int, used: int) -> bool:  # pragma: no cover
    """Whether an object has no other key of this hash yet; the key is put down."""
    mask = OTHERS - 1
    at = hash & mask
    event = state.counters[EVENT]
    while state.stamps[at] == event:
        if state.others[at] == hash:
            return False
        at = (at + 1) & mask
    state.stamps[at], state.others[at] = event, hash
    return used <= _MOST_OTHERS


@inlined
def _rank_whole(whole: int, attr: int, numbers: Numbers) -> int:  # pragma: no cover
    """The rank of an integer that may be no float, or BAD if Python must find it."""
    kinds, starts, integers, bases = numbers.kinds, numbers.starts, numbers.integers, numbers.bases
    begin, end = starts[attr], starts[attr + 1]
    if kinds[attr] != INTEGERS and kinds[attr] != NO_NUMBERS:
        return BAD
    low = lower_bound(integers, begin, end, whole)
    rank: int = bases[attr, 1] + 2 * (low - begin) + (low < end and integers[low] == whole)
    return rank


@inlined
def _rank_time(time: int, attr: int, reading: Reading) -> int:  # pragma: no cover
    begin, end = reading.time_first[attr], reading.time_first[attr + 1]
    low = lower_bound(reading.times, begin, end, time)
    rank: int = reading.bases[attr, 3] + 2 * (low - begin) + (low < end and reading.times[low] == time)
    return rank


@inlined
def _rank_text(address: int, size: int, attr: int, reading: Reading) -> int:  # pragma: no cover
    rank = rank_string(
        bytes_at(address, size), size, reading.table, reading.table_first[attr], reading.table_first[attr + 1],
        reading.first[attr], reading.first[attr + 1], reading.offsets, reading.data, reading.bases[attr, 2],
        reading.ordered[attr],
    )  # fmt: skip
    return int(rank)


@inlined
def _read_text(
    data: np.ndarray,
    address: int,
    at: int,
    end: int,
    attr: int,
    flags: int,
    state: JsonState,
    reading: Reading,
) -> tuple[int, int, int, int]:  # pragma: no cover
    """Read the string that begins at `at`: the place after it, or FOR_PYTHON; its rank; where its text is, its length.

    The length is -1 if patterns do not look at the text.
    """
    stop, escaped = scan_string(data, at, end)
    if stop < 0:
        return FOR_PYTHON, BAD, 0, -1
    if attr < 0 and not flags & TIME:
        return stop + 1, BAD, 0, -1
    begin, length, place = at, stop - at, address + at
    if escaped:
        used = state.counters[TEXT_BYTES]
        length = unescape(data, at, stop, state.texts, used)
        if length < 0:
            return FULL, BAD, 0, -1
        begin, place = -1 - used, state.texts.ctypes.data + used
        if flags & NOTED:
            state.counters[TEXT_BYTES] += length
    if not flags & TIME:
        return stop + 1, _rank_text(place, length, attr, reading), begin, length
    time = int(parse_time(bytes_at(place, length), 0, length))
    if time == ODD_TIME or flags & PYTHON_TEXTS:
        return FOR_PYTHON, BAD, 0, -1
    if attr < 0:
        return stop + 1, BAD, 0, -1
    return stop + 1, _rank_time(time, attr, reading), 0, -1


@inlined
def _read_number(
    data: np.ndarray,
    at: int,
    end: int,
    attr: int,
    flags: int,
    entry: int,
    state: JsonState,
    numbers: Numbers,
    cells: np.ndarray,
) -> tuple[int, int]:  # pragma: no cover
    """Read a number: the place after it, FOR_PYTHON or FULL; and its rank, or BAD and it is in its cell."""
    stop, kind, whole, real = scan_number(data, at, end)
    if stop < 0:
        return FOR_PYTHON, BAD
    if attr < 0:
        return stop, BAD
    if kind == HUGE or flags & PYTHON_NUMBERS:
        return FOR_PYTHON, BAD
    if kind == INTEGER:
        cells[entry] = float(whole)
        if not -EXACT_FLOAT <= whole <= EXACT_FLOAT:
            rank = _rank_whole(whole, attr, numbers)
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
def _read_word(data: np.ndarray, at: int, end: int) -> tuple[int, int]:  # pragma: no cover
    """Read true, false or null: the place after it, or FOR_PYTHON; and its rank."""
    four = 0
    for i in range(4):
        four |= byte_at(data, at + i, end) << (8 * i)
    if four == _NULL:
        return at + 4, 0
    if four == _TRUE:
        return at + 4, 4
    is_false = four == _FALS and byte_at(data, at + 4, end) == 0x65
    return at + 5 if is_false else FOR_PYTHON, 2


@inlined
def _note(state: JsonState, entry: int, begin: int, length: int) -> bool:  # pragma: no cover
    """Note where the text of an entry is; False if there is no place for the note."""
    note = state.counters[NOTES]
    if note >= state.notes.shape[0]:
        return False
    state.notes[note, 0], state.notes[note, 1], state.notes[note, 2] = entry, begin, length
    state.counters[NOTES] += 1
    return True


@kernel
def read_json(
    words: np.ndarray, json_words: np.ndarray, address: int, size: int, first: int, last: int
) -> int:  # pragma: no cover
    """Read the events from `first` to `last`: write entries, where they begin, and the state of each event.

    `words` has the entries, numbers and strings (`kernel_arrays`), `json_words` the names and the state. The texts are
    in the `size` bytes at `address`. Returns the number of the event at which some buffer was full, or `last`. If
    `last` is -1, all bytes are one text: writes its entries and returns their number, FOR_PYTHON or FULL.
    """
    reading, numbers = _reading(words, READING_AT), _numbers(words, NUMBERS_AT)
    entries = _entries(words, ENTRIES_AT)
    attrs, cells, bits, elements = entries.attrs, entries.cells, entries.bits, entries.elements
    names, state = _names(json_words, 0), _state(json_words, _STATE_AT)
    data = bytes_at(address, size)
    counters = state.counters
    if first == 0:
        counters[NOTES] = counters[UNREAD_FLOATS] = counters[TEXT_BYTES] = 0
    is_single = last < 0
    n: int = 0 if is_single else state.offsets[first]
    for event in range(first, 1 if is_single else last):
        counters[EVENT] += 1
        counters[IN_OBJECTS] = 0
        before = n
        notes, unread, texts = counters[NOTES], counters[UNREAD_FLOATS], counters[TEXT_BYTES]
        begin, end = (0, size) if is_single else (state.begins[event], state.ends[event])
        if begin >= 0:
            n = _read_object(
                data, address, begin, end, n, names, state, reading, numbers, attrs, cells, bits, elements
            )  # fmt: skip
        is_coupled = counters[IN_OBJECTS] > 0
        if n >= 0 and is_coupled and not _group(attrs, bits, elements, before, n, state, notes, unread):
            n = FOR_PYTHON
        if is_single:
            if n >= 0 and counters[UNREAD_FLOATS] > 0:
                return FOR_PYTHON
            return n if n < 0 else n + HAS_TEXTS * (counters[NOTES] > 0) + IN_ARRAYS * is_coupled
        state.states[event] = COUPLED if is_coupled else READ
        if n < 0:
            counters[NOTES], counters[UNREAD_FLOATS], counters[TEXT_BYTES] = notes, unread, texts
            if n == FULL:
                return event
            state.states[event] = LEFT
            n = before
        state.offsets[event + 1] = n
    return last


@helper
def _group(
    attrs: np.ndarray,
    bits: np.ndarray,
    elements: np.ndarray,
    first: int,
    end: int,
    state: JsonState,
    note: int,
    unread: int,
) -> bool:  # pragma: no cover
    """Bring the entries of each attribute together, and change the notes from `note` on; False if they are too many.

    They are few, and mostly in order of their elements, so they are sorted by insertion.
    """
    size = end - first
    if size > _MOST_SCATTERED:
        return False
    order, place, cells = np.empty(size, np.int64), np.empty(size, np.int64), bits[first:end].copy()
    for i in range(size):
        attr, cell, element, at = attrs[first + i], cells[i], elements[first + i], i
        while at > 0 and attrs[first + at - 1] > attr:
            attrs[first + at], bits[first + at], order[at] = attrs[first + at - 1], bits[first + at - 1], order[at - 1]
            elements[first + at] = elements[first + at - 1]
            at -= 1
        attrs[first + at], bits[first + at], order[at], elements[first + at] = attr, cell, i, element
    for i in range(size):
        place[order[i]] = first + i
    for i in range(note, state.counters[NOTES]):
        state.notes[i, 0] = place[state.notes[i, 0] - first]
    for i in range(unread, state.counters[UNREAD_FLOATS]):
        state.unread[i, 0] = place[state.unread[i, 0] - first]
    return True


@inlined
def _read_object(  # noqa: PLR0915 - one loop with much state, which calls would have to carry
    data: np.ndarray,
    address: int,
    at: int,
    end: int,
    n: int,
    names: JsonNames,
    state: JsonState,
    reading: Reading,
    numbers: Numbers,
    attrs: np.ndarray,
    cells: np.ndarray,
    bits: np.ndarray,
    elements: np.ndarray,
) -> int:  # pragma: no cover
    """Read one event: write its entries from number `n` on. Returns the number of entries, FOR_PYTHON or FULL."""
    stack, counters, seen = state.stack, state.counters, state.seen
    at = _skip_spaces(data, at, end)
    if byte_at(data, at, end) != 0x7B or end - at > _MOST_BYTES:
        return FOR_PYTHON
    at += 1
    level = keys = others = values = 0
    node = target = 0
    is_list = False
    is_first = True  # of its object: only then it may end here
    counters[OBJECT] += 1
    number = opened = counters[OBJECT]
    tag = 0
    element = array = 0  # the innermost element of an array of objects, and the last object before the outermost array
    stack[0, _KIND], stack[0, _TARGET], stack[0, _NUMBER], stack[0, _ELEMENT] = _OBJECT, 0, number, 0
    stack[0, _TAG] = 0
    while True:
        at = _skip_spaces(data, at, end)
        is_empty = is_first and byte_at(data, at, end) == (0x5D if is_list else 0x7D)
        is_first = False
        if not is_list and not is_empty:  # a key: find its target
            if byte_at(data, at, end) != QUOTE or keys >= _MOST_KEYS:
                return FOR_PYTHON
            keys += 1
            target, at, hash = read_key(data, at + 1, end, node, names)
            if at < 0:
                return FOR_PYTHON
            if target >= 0:
                if seen[target] >= opened and not (element and array < seen[target] < element):
                    return FOR_PYTHON
                seen[target] = number
            else:
                others += 1
                if not _is_new(state, signed(mixed(hash ^ np.uint64(number))), others):
                    return FOR_PYTHON
            at = _skip_spaces(data, at + 1, end)
            if byte_at(data, at, end) != 0x3A:
                return FOR_PYTHON
            at = _skip_spaces(data, at + 1, end)
        if not is_empty:
            byte = byte_at(data, at, end)
            flags = names.flags[target] if target >= 0 else 0
            if byte | 0x20 == 0x7B:  # an object or a list begins
                level += 1
                if level > _MOST_LEVELS:
                    return FOR_PYTHON
                if is_list and byte == 0x7B and flags & ABOVE:
                    state.arrays[target] = 1
                    array = array if element else stack[level - 1, _NUMBER]
                    tag = -1 if element else ((counters[OBJECT] + 1 - opened) << ARRAY_BITS) | (target & _ARRAY_MASK)
                    element = counters[OBJECT] + 1
                stack[level, _TAG] = tag
                is_list = byte == 0x5B
                is_first = True
                if not is_list:
                    counters[OBJECT] += 1
                    number = counters[OBJECT]
                    node = target if flags & ABOVE else -1
                    stack[level, _KIND], stack[level, _TARGET] = _OBJECT, node
                    stack[level, _NUMBER], stack[level, _ELEMENT] = number, element
                else:
                    stack[level, _KIND], stack[level, _TARGET] = _LIST, target
                    stack[level, _NUMBER], stack[level, _ELEMENT] = counters[OBJECT], element
                at += 1
                continue
            values += 1
            if values > _MOST_VALUES:
                return FOR_PYTHON
            attr = names.attr[target] if target >= 0 else -1
            if attr >= 0 and n >= attrs.size:
                return FULL
            rank = BAD
            begin, length = 0, -1
            if byte == QUOTE:
                at, rank, begin, length = _read_text(data, address, at + 1, end, attr, flags, state, reading)
            elif byte == 0x2D or 48 <= byte <= 57:
                at, rank = _read_number(data, at, end, attr, flags, n, state, numbers, cells)
            else:
                at, rank = _read_word(data, at, end)
            if at < 0:
                return at
            if attr >= 0:
                attrs[n], elements[n] = attr, tag
                if rank >= 0:
                    bits[n] = RANK | rank
                counters[IN_OBJECTS] += element > 0 and rank != 0
                if flags & NOTED and not _note(state, n, begin, length):
                    return FULL
                n += 1
        while True:  # what follows a value
            at = _skip_spaces(data, at, end)
            byte = byte_at(data, at, end)
            at += 1
            if byte == 0x2C:
                break
            if byte != (0x5D if is_list else 0x7D):
                return FOR_PYTHON
            level -= 1
            if level < 0:
                return n if _skip_spaces(data, at, end) == end else FOR_PYTHON
            is_list, element, tag = stack[level, _KIND] == _LIST, stack[level, _ELEMENT], stack[level, _TAG]
            if is_list:
                target = stack[level, _TARGET]
            else:
                node, number = stack[level, _TARGET], stack[level, _NUMBER]
