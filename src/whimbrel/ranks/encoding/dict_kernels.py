"""Reads a dict in one compiled loop, which gets its items from the interpreter (`compiled.python_objects`).

The loop reads the usual values: texts, integers, floats, booleans, None, and lists, tuples and dicts of these, each of
exactly that type. It looks at every value, because a bad one is refused wherever it is; only names that filters mention
(`name_table`) cost more than that. Other values at the top level go into a dict that `flat_events` reads. If there are
others below it, or something may be wrong, the loop gives up: it raises no errors itself.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled import python_objects as py
from whimbrel.compiled.array_types import Bytes, Int64Matrix, Int64s
from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.intrinsics import prefetch_at
from whimbrel.compiled.jit import helper, inlined, quick_kernel
from whimbrel.compiled.python_objects import ASCII, DICT, LIST, STATE_AT, TEXT, TUPLE, TYPE_AT, set_word, word_at
from whimbrel.compiled.views import view
from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_DEPTH
from whimbrel.ranks.cells import RANK
from whimbrel.ranks.encoding.dict_value_kernels import FAILED, NESTED, write_cell
from whimbrel.ranks.encoding.name_table import ATTR, BELOW, BIT_SHIFT, FLAGS, LAST, SEEN
from whimbrel.ranks.kernel_arrays import (
    ARRAY_BITS,
    ARRAYS,
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
    RESULTS,
    TEXTS,
    Entries,
    Numbers,
    Reading,
)

_UNMENTIONED = -1
"""In place of a code: no filter mentions the name."""
_WORDS = 6
"""Words of an item in the queue."""
_MOST = EVENT_ATTRIBUTES.value
"""Dicts with more names and values are read by Python, which checks the limits."""
_DEEP = EVENT_DEPTH.value - 4
"""Dicts with deeper lists or objects are read by Python, which checks the limit."""

_reading, _entries, _numbers = view(READING), view(ENTRIES), view(NUMBERS)


@inlined
def _push(
    items: Int64s, count: int, code: int, value: int, key: Integer, depth: int, within: Integer, element: Integer
) -> int:
    """Append an item to the queue, which has `count` words; return its new length, or FOR_PYTHON without space.

    An item is a code, a value, its key (0 below the top level), its depth, the bits of the arrays around it, and the
    element of an array that it is in (`Entries.elements`).
    """
    if count + _WORDS > items.size:
        return FOR_PYTHON
    items[count], items[count + 1], items[count + 2] = code, value, key
    items[count + 3], items[count + 4], items[count + 5] = depth, within, element
    return count + _WORDS


@helper
def _push_items(
    value: int, names: Integer, depth: int, within: Integer, element: Integer, kinds: Int64s, items: Int64s,
    count: int, place: int,
) -> int:  # fmt: skip
    """Append the items of a dict to the queue, and prefetch their values; FOR_PYTHON if some key is no plain text."""
    set_word(place, 0)
    while py.next_item(value, place, place + 8, place + 16):
        key, member = word_at(place + 8), word_at(place + 16)
        prefetch_at(member)
        if word_at(key + TYPE_AT) != kinds[TEXT]:
            return FOR_PYTHON
        found = py.find_item(names, key) if names else 0
        code = _UNMENTIONED
        if found:
            code = py.integer(found, place + 24)
        elif not word_at(key + STATE_AT) & kinds[ASCII]:
            made = py.encoded(key)
            if made == 0:
                py.clear_error()
                return FOR_PYTHON
            py.release(made)
        count = _push(items, count, code, member, key if depth == 1 else 0, depth, within, element)
        if count == FOR_PYTHON:
            return FOR_PYTHON
    return count


@helper
def _group_entries(entries: Entries, rows: Int64Matrix, first: int, n: int, first_text: int) -> bool:
    """Make the entries of each attribute adjacent, from entry `first` to `n`; False if there is no space for that."""
    attrs, _, bits, elements, items, text_entries, _, _ = entries
    size = n - first
    if RESULTS + 6 * size > items.size:
        return False
    following, heads = RESULTS, RESULTS + size
    moved, old_attrs, old_bits = RESULTS + 2 * size, RESULTS + 3 * size, RESULTS + 4 * size
    old_elements = RESULTS + 5 * size
    mark = -rows[rows.shape[0] - 1, SEEN]
    count = 0
    for i in range(size):
        attr = attrs[first + i]
        items[old_attrs + i], items[old_bits + i], items[following + i] = attr, bits[first + i], -1
        items[old_elements + i] = elements[first + i]
        if rows[attr, SEEN] == mark:
            items[following + rows[attr, LAST]] = i
        else:
            rows[attr, SEEN] = mark
            items[heads + count] = i
            count += 1
        rows[attr, LAST] = i
    at = first
    for head in range(count):
        i = items[heads + head]
        while i >= 0:
            attrs[at], bits[at], items[moved + i] = items[old_attrs + i], items[old_bits + i], at
            elements[at] = items[old_elements + i]
            i = items[following + i]
            at += 1
    for t in range(first_text, items[TEXTS]):
        text_entries[t] = items[moved + text_entries[t] - first]
    return True


@inlined
def _push_nested(
    member: int, is_member: bool, code: int, below: Integer, bit: Integer, depth: int, within: Integer,
    element: Integer, made: Integer, kinds: Int64s, items: Int64s, count: int, place: int,
) -> tuple[int, Integer]:  # fmt: skip
    """Append a nested object or list to the queue: a value, or with `is_member` a member of a list.

    `made` counts the elements of arrays. Returns the new length of the queue, or FOR_PYTHON, and the new count.
    """
    if word_at(member + TYPE_AT) != kinds[DICT]:
        return _push(items, count, code, member, np.int64(0), depth + 1, within, element), made
    if is_member:
        within |= 1 << bit
        if below:
            made += 1
            element = -1 if element else made << ARRAY_BITS | bit
    return _push_items(member, below, depth + 1 + is_member, within, element, kinds, items, count, place), made


@inlined
def _read(
    event: int, rows: Int64Matrix, rest: int, reading: Reading, numbers: Numbers, entries: Entries, place: int,
    first: int,
) -> int:  # fmt: skip
    """Write the entries of the dict `event` from entry `first` on; return where they end, FOR_PYTHON or FULL."""
    attrs, _, bits, elements, items, _, _, _ = entries
    kinds, last, first_text = reading.kinds, rows.shape[0] - 1, items[TEXTS]
    rows[last, SEEN] += 1
    arrays, is_scattered = np.int64(0), False
    values, at = 0, RESULTS
    zero: Integer = np.int64(0)  # not a literal, for which helpers would be compiled once more
    n = int(zero + first)
    made = zero  # the elements of arrays so far
    count = _push_items(event, rows[last, BELOW], int(zero + 1), zero, zero, kinds, items, int(zero + at), place)
    while at < count:
        code, value, key, depth, within = items[at], items[at + 1], items[at + 2], items[at + 3], items[at + 4]
        element = items[at + 5]
        at += _WORDS
        attr, flags, below = np.int64(-1), np.int64(0), np.int64(0)
        if code >= 0:
            attr, flags, below = rows[code, ATTR], rows[code, FLAGS], rows[code, BELOW]
        kind = word_at(value + TYPE_AT)
        is_list, is_tuple = kind == kinds[LIST], kind == kinds[TUPLE]
        size = py.list_size(value) if is_list else (py.tuple_size(value) if is_tuple else 1)
        values += 1 + size
        if values > _MOST or depth > _DEEP:
            return FOR_PYTHON
        if n + (size if attr >= 0 else 1) > attrs.size:
            return FULL
        begin, queued, text, i = n, count, items[TEXTS], 0
        if attr >= 0:
            is_scattered |= rows[code, SEEN] == rows[last, SEEN] and (n == first or attrs[n - 1] != attr)
            rows[code, SEEN] = rows[last, SEEN]
        rank: Integer = 0
        while i < size and rank >= 0:
            member = py.list_member(value, i) if is_list else (py.tuple_member(value, i) if is_tuple else value)
            i += 1
            rank = write_cell(member, attr, flags, reading, numbers, entries, n, place + 24)
            if rank >= 0 and attr >= 0:
                attrs[n], elements[n] = attr, element
                arrays |= within if bits[n] != RANK else 0
                n += 1
            elif rank == NESTED:
                rank = 0
                count, made = _push_nested(
                    member, is_list or is_tuple, code, below, flags >> BIT_SHIFT, depth, within, element, made, kinds,
                    items, count, place,
                )  # fmt: skip
                if count == FOR_PYTHON or rows[last, FLAGS]:
                    return FOR_PYTHON
        if rank < 0:
            if rank == FULL:
                return FULL
            n, count, items[TEXTS] = begin, queued, text
            if rank == FAILED or key == 0 or py.set_item(rest, key, value) < 0:
                py.clear_error()
                return FOR_PYTHON
    if is_scattered and (py.dict_size(rest) or not _group_entries(entries, rows, first, n, first_text)):
        return FOR_PYTHON
    items[ARRAYS] |= arrays
    return FOR_PYTHON if count == FOR_PYTHON else n


@quick_kernel
def read_dict(words: Int64s, event: int, rows: Int64Matrix, rest: int) -> int:
    """Write the entries of the dict `event`, attribute by attribute; return their number, FOR_PYTHON or FULL.

    `event` and `rest` are addresses of dicts, `rows` the table of names. Items that Python must read are put into
    `rest`. IN_ARRAYS or HAS_TEXTS is added to the number if `Entries.items` has more in its places `ARRAYS` or `TEXTS`.
    """
    reading, entries = _reading(words, READING_AT), _entries(words, ENTRIES_AT)
    items = entries.items
    items[ARRAYS] = items[TEXTS] = 0
    n: int = _read(event, rows, rest, reading, _numbers(words, NUMBERS_AT), entries, py.stack_words(), 0)
    if n >= 0:
        n += IN_ARRAYS * (items[ARRAYS] != 0) + HAS_TEXTS * (items[TEXTS] != 0)
    return n


@quick_kernel
def read_dicts(
    words: Int64s, events: int, first: int, ends: Int64s, coupled: Bytes, rows: Int64Matrix, rest: int
) -> tuple[int, int]:
    """Read the dicts of the list `events` from number `first` on, one after another, as `read_dict` does.

    The entries of event e end at ends[e + 1], and coupled[e] becomes 1 if values that filters mention are in arrays of
    objects. The items `ARRAYS` and `TEXTS` accumulate over all events. Stops at an event of which Python must read
    something, and at the end of `ends`; returns the number of the event, and 0, FOR_PYTHON or FULL.
    """
    reading, numbers, entries = _reading(words, READING_AT), _numbers(words, NUMBERS_AT), _entries(words, ENTRIES_AT)
    items = entries.items
    place = py.stack_words()
    for e in range(first, ends.size - 1):
        event = py.list_member(events, e)
        text, arrays = items[TEXTS], items[ARRAYS]
        items[ARRAYS] = 0
        n = FOR_PYTHON
        if word_at(event + TYPE_AT) == reading.kinds[DICT]:
            n = _read(event, rows, rest, reading, numbers, entries, place, ends[e])
        coupled[e] = items[ARRAYS] != 0
        items[ARRAYS] |= arrays
        ends[e + 1] = ends[e] if n < 0 else n
        if n < 0:
            items[TEXTS] = text
            return e, n
        if py.dict_size(rest):
            return e, 0
    return ends.size - 1, 0
