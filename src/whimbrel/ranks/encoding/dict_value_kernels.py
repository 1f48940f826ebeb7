"""Reads the scalar values of a dict in compiled code: each becomes a rank, or a number in its cell."""

from __future__ import annotations

import math

from whimbrel.compiled import python_objects as py
from whimbrel.compiled.array_types import Bytes
from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.jit import inlined
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
    TUPLE,
    TYPE_AT,
    word_at,
)
from whimbrel.ranks.cells import RANK
from whimbrel.ranks.encoding.name_table import EXACT_NUMBER, EXACT_TIME, SOURCE, TIME
from whimbrel.ranks.kernel_arrays import EXACT_FLOAT, FOR_PYTHON, FULL, TEXTS, Entries, Numbers, Reading
from whimbrel.ranks.rank_kernels import rank_large, rank_time
from whimbrel.ranks.string_kernels import rank_string
from whimbrel.ranks.timestamps import ODD_TIME, parse_time

FAILED, NESTED = -3, -4
"""In place of a rank, beside FOR_PYTHON and FULL: an error, after which the dict may have changed; no scalar."""
LONG = 1 << 16
"""Python reads texts of more bytes, if an attribute is derived from them."""
_OVERFLOW = 0xFFFF_FFFF
"""The half of a word that says whether an integer has more than 64 bits."""


@inlined
def _rank_bytes(data: Bytes, size: int, attr: Integer, flags: Integer, reading: Reading) -> Integer:
    """The rank of a text or, if its flags say so, of a timestamp; any rank if no filter mentions the attribute."""
    rank: Integer = 0
    if flags & TIME:
        time = parse_time(data, 0, size)
        if time == ODD_TIME or flags & EXACT_TIME:
            rank = FOR_PYTHON
        elif attr >= 0:
            rank = rank_time(time, attr, reading)
    elif attr >= 0:
        rank = rank_string(data, 0, size, attr, reading)
    return rank


@inlined
def _rank_text(
    value: int, attr: Integer, flags: Integer, reading: Reading, entries: Entries, n: int, spare: int
) -> Integer:
    """The rank of a text, or why there is none. Keeps the text for entry `n` if an attribute is derived from it."""
    made = 0
    if word_at(value + STATE_AT) & reading.kinds[ASCII]:
        if attr < 0 and not flags:
            return 0
        begin = py.ascii_bytes(value, spare)
        size = word_at(spare)
    else:
        made = py.encoded(value)
        if made == 0:  # the text has a lone surrogate, and the interpreter has an error to clear
            return FAILED
        begin, size = py.bytes_begin(made), py.bytes_size(made)
    data = py.bytes_at(begin, size)
    rank = _rank_bytes(data, size, attr, flags, reading)
    if flags & SOURCE and rank >= 0 and not flags & TIME:
        t = entries.items[TEXTS]
        at = entries.text_ends[t]
        if size > LONG:
            rank = FOR_PYTHON
        elif t == entries.text_entries.size or at + size > entries.text_data.size:
            rank = FULL
        else:
            for i in range(size):
                entries.text_data[at + i] = data[i]
            entries.text_entries[t], entries.text_ends[t + 1] = n, at + size
            entries.items[TEXTS] = t + 1
    if made:
        py.release(made)
    return rank


@inlined
def write_cell(
    value: int, attr: Integer, flags: Integer, reading: Reading, numbers: Numbers, entries: Entries, n: int, spare: int
) -> Integer:
    """Write the cell of a scalar to entry `n`; return its rank, if it has one already, or why there is none."""
    kinds = reading.kinds
    kind = word_at(value + TYPE_AT)
    number = math.nan
    rank: Integer = 0
    if kind == kinds[TEXT]:
        rank = _rank_text(value, attr, flags, reading, entries, n, spare)
    elif kind == kinds[INTEGER]:
        whole = py.integer(value, spare)
        number = float(whole)
        if word_at(spare) & _OVERFLOW or flags & EXACT_NUMBER:
            return FOR_PYTHON
        if attr >= 0 and not -EXACT_FLOAT <= whole <= EXACT_FLOAT:
            rank = rank_large(whole, attr, numbers)
            number = math.nan
    elif kind == kinds[FLOAT]:
        number = py.float_number(value)
        if flags & EXACT_NUMBER:
            return FOR_PYTHON
    elif value == kinds[TRUE]:
        rank = 4
    elif value == kinds[FALSE]:
        rank = 2
    elif kind == kinds[DICT] or kind == kinds[LIST] or kind == kinds[TUPLE]:
        return NESTED
    elif value != kinds[NONE]:
        return FOR_PYTHON
    if number != number:  # noqa: PLR0124 - NaN
        entries.bits[n] = RANK | rank
    else:
        entries.cells[n] = number
    return rank
