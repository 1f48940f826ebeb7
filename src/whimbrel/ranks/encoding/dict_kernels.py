"""Reading a dict in one compiled loop, which gets its items from the interpreter (`compiled.python_objects`).

The loop reads what nearly all values are: texts, integers that a float holds exactly, floats, booleans, None, and lists
of these, each of exactly that type. It puts every other item, and every item that may be wrong, into a dict that
`flat_events` reads: the loop itself raises no errors.
"""

from __future__ import annotations

import math

import numpy as np

from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.intrinsics import prefetch_at
from whimbrel.compiled.jit import inlined, quick_kernel
from whimbrel.compiled.python_objects import (
    ASCII,
    DICT,
    FALSE,
    FLOAT,
    INTEGER,
    LIST,
    NONE,
    STATE_AT,
    TEXT,
    TRUE,
    TYPE_AT,
    ascii_bytes,
    bytes_at,
    bytes_begin,
    bytes_size,
    clear_error,
    dict_size,
    encoded,
    find_item,
    float_number,
    integer,
    list_member,
    list_size,
    next_item,
    release,
    set_item,
    set_word,
    stack_words,
    word_at,
)
from whimbrel.compiled.views import view
from whimbrel.model.limits import EVENT_ATTRIBUTES
from whimbrel.ranks.cells import RANK
from whimbrel.ranks.kernel_arrays import ENTRIES, ENTRIES_AT, READING, READING_AT, Entries, Reading
from whimbrel.ranks.lookup import EXACT_FLOAT
from whimbrel.ranks.string_kernels import rank_string

UNMENTIONED, FOR_PYTHON = -1, -2
"""In place of the number of an attribute: no filter mentions the name; Python must read its values."""
GIVEN_UP, FULL = -1, -2
"""In place of a number of entries: Python must read the whole dict; there is no space for its entries."""

_LONG = 256
"""Longer texts, in bytes, are read by Python: it may have their hash already."""
_MOST = EVENT_ATTRIBUTES.value
"""Dicts with more names and values are read by Python, which checks the limits."""
_OVERFLOW = 0xFFFF_FFFF
"""The half of a word that says whether an integer has more than 64 bits."""

_reading, _entries = view(READING), view(ENTRIES)


@inlined
def _rank_text(value: int, attr: int, reading: Reading, words: int) -> Integer:  # pragma: no cover
    """The rank of a text, FOR_PYTHON, or FOR_PYTHON - 1 after an error, which may have changed the dict."""
    made = 0
    if word_at(value + STATE_AT) & reading.kinds[ASCII]:
        begin = ascii_bytes(value, words)
        size = word_at(words)
    else:
        made = encoded(value)
        if made == 0:  # it has a lone surrogate, and there is an error to clear
            return FOR_PYTHON - 1
        begin, size = bytes_begin(made), bytes_size(made)
    rank: Integer = 0
    if attr >= 0:
        first, last = reading.first[attr], reading.first[attr + 1]
        if size > _LONG and first < last:
            rank = FOR_PYTHON
        else:
            rank = rank_string(
                bytes_at(begin, size), size, reading.table, reading.table_first[attr], reading.table_first[attr + 1],
                first, last, reading.offsets, reading.data, reading.bases[attr, 2], reading.ordered[attr],
            )  # fmt: skip
    if made:
        release(made)
    return rank


@inlined
def _items_of(event: int, attributes: int, kinds: np.ndarray, items: np.ndarray, place: int) -> int:  # pragma: no cover
    """Write attribute, key and value of each item, and prefetch the values; return the number of words written.

    GIVEN_UP if some key is no plain text, or if there are too many.
    """
    count = 0
    set_word(place, 0)
    while next_item(event, place, place + 8, place + 16):
        key, value = word_at(place + 8), word_at(place + 16)
        prefetch_at(value)
        if word_at(key + TYPE_AT) != kinds[TEXT] or count + 3 > items.size:
            return GIVEN_UP
        found = find_item(attributes, key)
        attr = UNMENTIONED
        if found:
            attr = integer(found, place + 24)
        elif not word_at(key + STATE_AT) & kinds[ASCII]:
            attr = FOR_PYTHON
        items[count], items[count + 1], items[count + 2] = attr, key, value
        count += 3
    return count


@inlined
def _read_items(
    event: int, attributes: int, rest: int, reading: Reading, entries: Entries, place: int, n: int
) -> int:  # pragma: no cover
    """Write the entries of the dict `event` from entry `n` on; return where they end, GIVEN_UP or FULL."""
    attrs, cells, bits, items = entries
    kinds = reading.kinds
    spare = place + 24
    count = _items_of(event, attributes, kinds, items, place)
    if count == GIVEN_UP:
        return GIVEN_UP
    values = 0
    for at in range(0, count, 3):
        attr, key, value = items[at], items[at + 1], items[at + 2]
        is_list = word_at(value + TYPE_AT) == kinds[LIST]
        size = list_size(value) if is_list else 1
        values += 1 + size
        if values > _MOST:
            return GIVEN_UP
        if n + size > attrs.size:
            return FULL
        begin = n
        rank = attr if attr == FOR_PYTHON else 0
        i = 0
        while i < size and rank >= 0:
            member = list_member(value, i) if is_list else value
            i += 1
            number = math.nan
            rank = 0
            kind = word_at(member + TYPE_AT)
            if kind == kinds[TEXT]:
                rank = _rank_text(member, attr, reading, spare)
            elif kind == kinds[INTEGER]:
                whole = integer(member, spare)
                number = float(whole)
                if word_at(spare) & _OVERFLOW or (attr >= 0 and not -EXACT_FLOAT <= whole <= EXACT_FLOAT):
                    rank = FOR_PYTHON
            elif kind == kinds[FLOAT]:
                number = float_number(member)
            elif member == kinds[TRUE]:
                rank = 4
            elif member == kinds[FALSE]:
                rank = 2
            elif member != kinds[NONE]:
                rank = FOR_PYTHON
            if number != number:  # noqa: PLR0124 - NaN
                bits[n] = RANK | rank
            else:
                cells[n] = number
            attrs[n] = attr
            n += attr >= 0
        if rank < 0:
            n = begin
            if rank < FOR_PYTHON or set_item(rest, key, value) < 0:
                clear_error()
                return GIVEN_UP
    return n


@quick_kernel
def read_dict(words: np.ndarray, event: int, attributes: int, rest: int) -> int:  # pragma: no cover
    """Write the entries of the dict `event`, attribute by attribute; return their number, GIVEN_UP or FULL.

    `event`, `attributes` and `rest` are addresses of dicts. `attributes` has the number of every name that a filter
    mentions, or FOR_PYTHON. Items that Python must read are put into `rest`.
    """
    reading, entries = _reading(words, READING_AT), _entries(words, ENTRIES_AT)
    return _read_items(event, attributes, rest, reading, entries, stack_words(), 0)


@quick_kernel
def read_dicts(
    words: np.ndarray, events: int, first: int, ends: np.ndarray, attributes: int, rest: int
) -> tuple[int, int]:  # pragma: no cover
    """Read the dicts of the list `events` from number `first` on, one after another, as `read_dict` does.

    The entries of event e end at ends[e + 1]. Stops at an event of which Python must read something, and after the
    last place of `ends`; returns the number of the event, and 0, GIVEN_UP or FULL.
    """
    reading, entries = _reading(words, READING_AT), _entries(words, ENTRIES_AT)
    place = stack_words()
    for e in range(first, ends.size - 1):
        event = list_member(events, e)
        n = GIVEN_UP
        if word_at(event + TYPE_AT) == reading.kinds[DICT]:
            n = _read_items(event, attributes, rest, reading, entries, place, ends[e])
        ends[e + 1] = ends[e] if n < 0 else n
        if n < 0:
            return e, n
        if dict_size(rest):
            return e, 0
    return ends.size - 1, 0
