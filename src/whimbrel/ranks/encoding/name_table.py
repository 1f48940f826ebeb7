"""The table by which compiled readers find the names of attributes in nested objects.

A name is found level by level. Each level has a dict of the names that may come there: the top level has all names that
filters mention, the level below `a` the rest of every name that begins with `a.`. So `{"a": {"b": 1}}`, `{"a.b": 1}`
and mixtures of the two lead to one *code*, which is a row of the table. No filter mentions names that lead to none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from whimbrel.model.event_tables import dots
from whimbrel.ranks.dictionary import Dictionary

ATTR, BELOW, FLAGS, SEEN, LAST = range(5)
"""The columns of the table: the attribute of a code or -1; the address of the dict of names below it, or 0; flags and
the bit of its arrays; the last event that had it, and its last entry there, which only readers use.

The last row is no code: it has the number of the last event, the address of the dict of the top level, and as flags
whether Python must read nested objects.
"""
TIME, EXACT_TIME, EXACT_NUMBER, SOURCE = 1, 2, 4, 8
"""Flags of a name: its texts are timestamps; Python must rank its timestamps, or its numbers; attributes are derived
from its texts."""
BIT_SHIFT, BITS = 8, 62
"""Where the number of a name's bit begins in the flags, and how many such bits there are. Names may share one."""

_MOST_DOTS, _MOST_LETTERS = 32, 1_024
"""Dotted names with more are not found in nested objects: every beginning of a name takes memory."""


def name_flags(dictionary: Dictionary, timestamps: Collection[str], sources: Collection[str]) -> dict[str, int]:
    """The flags of names that have some. `sources` are the attributes from whose texts others are derived."""
    names, meta = dictionary.names, dictionary.meta
    flags = dict.fromkeys(timestamps, TIME)
    marked = [(names[int(attr)], EXACT_NUMBER) for attr in meta.exact_numbers]
    marked += [(names[int(attr)], EXACT_TIME) for attr in meta.exact_times]
    for name, flag in (*marked, *((name, SOURCE) for name in sources)):
        flags[name] = flags.get(name, 0) | flag
    return flags


class NameTable:
    """The names that filters mention or that are read as timestamps. Readers that keep the GIL write to `rows`."""

    def __init__(self, attributes: Mapping[str, int], size: int, flags: Mapping[str, int]) -> None:
        """`attributes` are the numbers, below `size`, of names that filters mention; others may have flags too."""
        self._is_nested = True  # whether names below others are in the table
        self._codes: dict[str, int] = dict(attributes)
        self._size = size
        self._below: dict[str, dict[str, int]] = {}
        for name in [*attributes, *(name for name in flags if name not in attributes)]:
            self._enter(name)
        self.rows = np.zeros((self._size + 1, 5), np.int64)
        self.rows[:, ATTR] = -1
        numbers = np.fromiter(attributes.values(), np.int64, len(attributes))
        self.rows[numbers, ATTR] = numbers
        for name, bits in flags.items():
            self.rows[self._codes[name], FLAGS] = bits
        self._arrays: list[list[str]] = [[] for _ in range(BITS)]
        for place, (name, names) in enumerate(self._below.items()):
            self.rows[self._codes[name], BELOW] = id(names)
            self.rows[self._codes[name], FLAGS] |= place % BITS << BIT_SHIFT
            self._arrays[place % BITS].append(name)
        self.has_elements = len(self._below) <= BITS
        """Whether each array has a bit of its own, so that elements of different arrays are told apart."""
        self._last: tuple[int, Collection[str]] = 0, ()
        self.rows[-1, BELOW], self.rows[-1, FLAGS] = id(self._codes), not self._is_nested

    def arrays(self, bits: int) -> Collection[str]:
        """The names whose bits are set: arrays of objects were found there, or at another name of the same bit."""
        last = self._last
        if last[0] == bits:
            return last[1]
        found, given = list[str](), bits
        while bits:
            found += self._arrays[(bits & -bits).bit_length() - 1]
            bits &= bits - 1
        self._last = given, found
        return found

    def _enter(self, name: str) -> None:
        code = self._code(name)
        ends = list(dots(name))
        if len(ends) > _MOST_DOTS or (ends and len(name) > _MOST_LETTERS):
            self._is_nested = False
            return
        for number, end in enumerate(ends):
            above = name[:end]
            self._code(above)
            below = self._below.setdefault(above, {})
            below[name[end + 1 :]] = code
            for other in ends[number + 1 :]:
                below[name[end + 1 : other]] = self._code(name[:other])

    def _code(self, name: str) -> int:
        code = self._codes.setdefault(name, self._size)
        self._size += code == self._size
        return code
