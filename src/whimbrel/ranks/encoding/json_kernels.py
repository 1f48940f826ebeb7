"""Reads JSON objects in one compiled loop: the values of attributes that filters mention become entries.

The loop checks the whole text as it goes: syntax, UTF-8, escapes, keys that come twice. It raises no errors, but leaves
some events to Python: texts with anything wrong, values of an attribute in several places (`{"a.b": 1, "a": {"b": 2}}`;
elements of an array are one place), and numbers that no int64 or float holds.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int64Matrix, Int64s
from whimbrel.compiled.helpers import item
from whimbrel.compiled.intrinsics import copy
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.compiled.python_objects import bytes_at
from whimbrel.compiled.views import view
from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_BYTES, EVENT_DEPTH, EVENT_VALUES
from whimbrel.ranks.cells import RANK
from whimbrel.ranks.encoding.dict_value_kernels import LONG
from whimbrel.ranks.encoding.json_names import ABOVE, NAMES, PYTHON_KEYS, JsonNames, find_key, find_short_key
from whimbrel.ranks.encoding.json_scan_kernels import BAD, QUOTE, byte_at, scan_string, signed, unescape
from whimbrel.ranks.encoding.json_state import (
    COUPLED,
    EVENT,
    IN_OBJECTS,
    JSON_STATE,
    LEFT,
    NOTES,
    OBJECT,
    OTHERS,
    READ,
    TEXT_BYTES,
    UNREAD_FLOATS,
    JsonState,
)
from whimbrel.ranks.encoding.json_value_kernels import note, read_number, read_text, read_word
from whimbrel.ranks.encoding.name_table import SOURCE
from whimbrel.ranks.kernel_arrays import (
    ARRAY_BITS,
    ENTRIES,
    ENTRIES_AT,
    FOR_PYTHON,
    FULL,
    HAS_TEXTS,
    IN_ARRAYS,
    NUMBERS,
    NUMBERS_AT,
    READING,
    READING_AT,
    TEXTS,
    Entries,
    Numbers,
    Reading,
)
from whimbrel.ranks.string_kernels import mixed

_IS_LIST, _TARGET, _NUMBER, _ELEMENT, _TAG = 0, 1, 2, 3, 4
"""Columns of the stack."""
_ARRAY_MASK = (1 << ARRAY_BITS) - 1
_MOST_SCATTERED = 1_024
"""Entries of an event, at most, that are grouped by attribute here."""
_MOST_LEVELS = EVENT_DEPTH.value
_MOST_VALUES, _MOST_KEYS = EVENT_VALUES.value, EVENT_ATTRIBUTES.value
_MOST_OTHERS = OTHERS // 4 * 3
_MOST_BYTES = EVENT_BYTES.value
_STATE_AT = NAMES.words
"""Where the words of the state begin, after those of the names."""

_reading, _entries, _numbers = view(READING), view(ENTRIES), view(NUMBERS)
_names, _state = view(NAMES), view(JSON_STATE)


@inlined
def _skip_spaces(data: Bytes, at: int, end: int) -> int:
    byte = byte_at(data, at, end)
    while byte <= 32 and (byte == 32 or byte == 10 or byte == 13 or byte == 9):  # noqa: PLR1714 - compiles faster
        at += 1
        byte = byte_at(data, at, end)
    return at


@inlined
def _is_new(stamps: Int64s, others: Int64s, event: int, hash: int) -> bool:
    """Whether the event has no other key of this hash yet; records the key."""
    mask = OTHERS - 1
    at = hash & mask
    while item(stamps, at) == event:
        if item(others, at) == hash:
            return False
        at = (at + 1) & mask
    stamps[at], others[at] = event, hash
    return True


@kernel
def read_json(words: Int64s, json_words: Int64s, address: int, size: int, first: int, last: int) -> int:
    """Read the events from `first` to `last`: write entries, where they begin, and the state of each event.

    `words` has the entries, numbers and strings (`kernel_arrays`), `json_words` the names and the state. The texts are
    in the `size` bytes at `address`. Returns the number of the event at which some buffer was full, or `last`. If
    `last` is -1, all bytes are one text: writes its entries, and the texts from which attributes are derived, and
    returns what `read_dict` does, FOR_PYTHON or FULL.
    """
    reading, numbers = _reading(words, READING_AT), _numbers(words, NUMBERS_AT)
    entries = _entries(words, ENTRIES_AT)
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
            n = _read_object(data, begin, end, n, names, state, reading, numbers, entries)
        is_coupled = counters[IN_OBJECTS] > 0
        if n >= 0 and is_coupled and not _group_entries(entries, before, n, state, notes, unread):
            n = FOR_PYTHON
        if is_single:
            if n >= 0 and counters[UNREAD_FLOATS] > 0:
                return FOR_PYTHON
            kept: int = _keep_texts(data, state, entries) if n >= 0 and counters[NOTES] > 0 else 0
            if n < 0 or kept < 0:
                return min(n, kept)
            n += HAS_TEXTS * (kept > 0) + IN_ARRAYS * is_coupled
            return n
        state.states[event] = COUPLED if is_coupled else READ
        if n < 0:
            counters[NOTES], counters[UNREAD_FLOATS], counters[TEXT_BYTES] = notes, unread, texts
            if n == FULL:
                return event
            state.states[event] = LEFT
            n = before
        state.offsets[event + 1] = n
    return last


@inlined
def _keep_texts(data: Bytes, state: JsonState, entries: Entries) -> int:
    """Copy the noted texts to `entries`, as `read_dict` does; return their number, FOR_PYTHON or FULL."""
    count = 0
    for i in range(state.counters[NOTES]):
        entry, begin, size = state.notes[i, 0], state.notes[i, 1], state.notes[i, 2]
        if size < 0:
            continue
        at = entries.text_ends[count]
        if size > LONG:
            return FOR_PYTHON
        if count == entries.text_entries.size or at + size > entries.text_data.size:
            return FULL
        if begin >= 0:
            for j in range(size):
                entries.text_data[at + j] = item(data, begin + j)
        else:
            copy(state.texts, -1 - begin, size, entries.text_data, at)
        entries.text_entries[count], entries.text_ends[count + 1] = entry, at + size
        count += 1
    entries.items[TEXTS] = count
    return count


@helper
def _group_entries(entries: Entries, first: int, end: int, state: JsonState, note: int, unread: int) -> bool:
    """Make the entries of each attribute adjacent, and fit the notes from `note` on; False if they are too many.

    Entries are few, and mostly in order of their elements, so insertion sorts them.
    """
    attrs, bits, elements = entries.attrs, entries.bits, entries.elements
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
def _read_key(
    data: Bytes, at: int, end: int, node: int, names: JsonNames, state: JsonState
) -> tuple[int, int, np.uint64]:
    """The target of the key at `at`, or -1; the place of its value, FOR_PYTHON or FULL; and the hash of the key."""
    if byte_at(data, at, end) != QUOTE:
        return -1, FOR_PYTHON, np.uint64(0)
    target, at, hash = _find_target(data, at + 1, end, node, names, state)
    if at >= 0:
        at = _skip_spaces(data, at, end)
        at = _skip_spaces(data, at + 1, end) if byte_at(data, at, end) == 0x3A else FOR_PYTHON
    return target, at, hash


@inlined
def _find_target(
    data: Bytes, at: int, end: int, node: int, names: JsonNames, state: JsonState
) -> tuple[int, int, np.uint64]:
    """The target of the key that begins at `at`, or -1; the place after its quote, FOR_PYTHON or FULL; and its hash."""
    target, stop, hash = find_short_key(data, at, node, names.slots)
    if stop >= 0:
        return target, stop + 1, hash
    stop, escaped = scan_string(data, at, end)
    if stop < 0:
        return -1, FOR_PYTHON, hash
    source, first, length = data, at, stop - at
    if escaped:
        source, first = bytes_at(state.texts.ctypes.data, state.texts.size), state.counters[TEXT_BYTES]
        length = unescape(data, at, stop, state.texts, first)
        if length < 0 or item(names.flags, 0) & PYTHON_KEYS:
            return -1, FULL if length < 0 else FOR_PYTHON, hash
    target, hash = find_key(source, first, length, node, names.slots, names.keys)
    return target, stop + 1, hash


@inlined
def _read_value(
    byte: int, data: Bytes, at: int, end: int, target: int, flags: int, n: int, tag: int, names: JsonNames,
    state: JsonState, reading: Reading, numbers: Numbers, entries: Entries,
) -> tuple[int, int]:  # fmt: skip
    """Read the scalar that begins with `byte`, as entry `n` if its target has an attribute; `tag` is its element.

    Returns the place after it, FOR_PYTHON or FULL; and the number of entries.
    """
    attr: int = item(names.attr, target) if target >= 0 else -1
    if attr >= 0 and n >= entries.attrs.size:
        return FULL, n
    rank = BAD
    begin, length = 0, -1
    if byte == QUOTE:
        at, rank, begin, length = read_text(data, at + 1, end, attr, flags, state, reading)
    elif byte == 0x2D or 48 <= byte <= 57:
        at, rank = read_number(data, at, end, attr, flags, n, state, numbers, entries.cells)
    else:
        at, rank = read_word(data, at, end)
    if at < 0 or attr < 0:
        return at, n
    entries.attrs[n], entries.elements[n] = attr, tag
    if rank >= 0:
        entries.bits[n] = RANK | rank
    state.counters[IN_OBJECTS] += tag != 0 and rank != 0
    if flags & SOURCE and not note(state, n, begin, length):
        return FULL, n
    return at, n + 1


@inlined
def _is_allowed(
    target: int, hash: np.uint64, others: int, number: int, opened: int, element: int, array: int, state: JsonState
) -> bool:
    """Whether a key may come here; records it. A target may come again in another element of an array.

    Keys that lead to no target are told apart by their hashes, as long as these `others` are not too many.
    """
    if target < 0:
        own = signed(mixed(hash ^ np.uint64(number)))
        return others <= _MOST_OTHERS and _is_new(state.stamps, state.others, state.counters[EVENT], own)
    last = item(state.seen, target)
    state.seen[target] = number
    return bool(last < opened or (element != 0 and array < last < element))


@inlined
def _after_value(data: Bytes, at: int, end: int, stack: Int64Matrix, level: int) -> tuple[int, int]:
    """The place after the comma that follows a value, and the level there: objects and lists may end before the comma.

    The level is -1 at the end of the text. The place is FOR_PYTHON if something else follows.
    """
    while True:
        at = _skip_spaces(data, at, end)
        byte = byte_at(data, at, end)
        at += 1
        if byte == 0x2C:
            return at, level
        if byte != (0x5D if stack[level, _IS_LIST] else 0x7D):
            return FOR_PYTHON, level
        level -= 1
        if level < 0:
            return at if _skip_spaces(data, at, end) == end else FOR_PYTHON, level


@inlined
def _read_object(
    data: Bytes, at: int, end: int, n: int, names: JsonNames, state: JsonState, reading: Reading,
    numbers: Numbers, entries: Entries,
) -> int:  # fmt: skip
    """Read one event: write its entries from number `n` on. Returns the number of entries, FOR_PYTHON or FULL."""
    stack, counters = state.stack, state.counters
    at = _skip_spaces(data, at, end)
    if byte_at(data, at, end) != 0x7B or end - at > _MOST_BYTES:
        return FOR_PYTHON
    at += 1
    level = keys = others = values = node = target = 0
    is_list, is_first = False, True  # the first of its object or list, which may only then end here
    counters[OBJECT] += 1
    number = opened = counters[OBJECT]
    # The number of the innermost object that is an element of an array, of the last object before the outermost such
    # element, and what entries say of their element.
    element = array = tag = 0
    _push(stack, 0, False, 0, number, 0, 0)
    while True:
        at = _skip_spaces(data, at, end)
        is_empty, is_first = is_first and byte_at(data, at, end) == (0x5D if is_list else 0x7D), False
        if not is_list and not is_empty:
            target, at, hash = _read_key(data, at, end, node, names, state)
            if at < 0:
                return at
            keys += 1
            others += target < 0
            if keys > _MOST_KEYS or not _is_allowed(target, hash, others, number, opened, element, array, state):
                return FOR_PYTHON
        if not is_empty:
            byte = byte_at(data, at, end)
            flags: int = item(names.flags, target) if target >= 0 else 0
            if byte | 0x20 == 0x7B:  # an object or a list begins
                level += 1
                if level > _MOST_LEVELS:
                    return FOR_PYTHON
                if is_list and byte == 0x7B and flags & ABOVE:
                    state.arrays[target] = 1
                    tag = -1 if element else ((counters[OBJECT] + 1 - opened) << ARRAY_BITS) | (target & _ARRAY_MASK)
                    array, element = array if element else stack[level - 1, _NUMBER], counters[OBJECT] + 1
                is_list, is_first = byte == 0x5B, True
                if not is_list:
                    counters[OBJECT] += 1
                    number, node = counters[OBJECT], target if flags & ABOVE else -1
                _push(stack, level, is_list, target if is_list else node, counters[OBJECT], element, tag)
                at += 1
                continue
            values += 1
            at, n = _read_value(byte, data, at, end, target, flags, n, tag, names, state, reading, numbers, entries)
            if at < 0 or values > _MOST_VALUES:
                return min(at, FOR_PYTHON)
        before = level
        at, level = _after_value(data, at, end, stack, level)
        if at < 0 or level < 0:
            return n if at >= 0 else FOR_PYTHON
        if level < before:
            is_list, element, tag = stack[level, _IS_LIST] != 0, stack[level, _ELEMENT], stack[level, _TAG]
            if is_list:
                target = stack[level, _TARGET]
            else:
                node, number = stack[level, _TARGET], stack[level, _NUMBER]


@inlined
def _push(stack: Int64Matrix, level: int, is_list: bool, target: int, number: int, element: int, tag: int) -> None:
    """Push the state of an object or list that begins."""
    stack[level, _IS_LIST], stack[level, _TARGET], stack[level, _NUMBER] = is_list, target, number
    stack[level, _ELEMENT], stack[level, _TAG] = element, tag
