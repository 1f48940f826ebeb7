"""Many objects to entries: dicts several at once by a compiled loop, everything else one by one.

The loop (`dict_kernels.read_dicts`) keeps the GIL, so it reads some hundred dicts at a time. It stops at an object of
which Python must read something, and goes on behind it.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from whimbrel.compiled.python_objects import READABLE
from whimbrel.compiled.views import words_of
from whimbrel.model.errors import RowError
from whimbrel.model.event import Event
from whimbrel.ranks.encoding.dict_kernels import FULL, GIVEN_UP, read_dicts
from whimbrel.ranks.encoding.single_events import SingleEventEncoder
from whimbrel.ranks.kernel_arrays import END_AT, ENTRIES, ENTRIES_AT, NUMBERS_AT, READING, READING_AT, Entries, Reading

Refused: TypeAlias = dict[int, RowError]
"""The errors of events that were refused, by number of the event."""

_AT_ONCE = 512
"""Dicts that are read without giving up the GIL: some milliseconds."""
_ITEMS = 1 << 12
"""Words of memory for the items of one dict."""


class ObjectBatch:
    """The entries of some objects: event e has the entries ends[e]:ends[e + 1] of `attrs` and `cells`."""

    def __init__(self, events: Sequence[Event | Mapping[str, object]]) -> None:
        self._events = list(events)  # a copy: kernels read it, and nobody else may change it
        self.ends = np.zeros(len(events) + 1, np.int64)
        self.coupled = np.zeros(len(events), np.uint8)
        self._attrs = np.empty(8 * len(events) + 64, np.int32)
        self._cells = np.empty(len(self._attrs), np.float64)

    @property
    def attrs(self) -> np.ndarray:
        """The attribute of each entry."""
        return self._attrs[: self.ends[-1]]

    @property
    def cells(self) -> np.ndarray:
        """The cell of each entry (`ranks.cells`)."""
        return self._cells[: self.ends[-1]]

    def read(
        self, encoder: SingleEventEncoder, reading: Reading, timestamps: Collection[str], refused: Refused | None
    ) -> None:
        """Read all objects. A bad one is raised with its number, or put into `refused` and has no entries."""
        words, items = np.zeros(END_AT, np.int64), np.empty(_ITEMS, np.int64)
        words[READING_AT:] = words_of(READING, reading)
        names = encoder.names_for(timestamps)
        at_once = 1 if encoder.has_fragments else _AT_ONCE
        at, count = 0, len(self._events)
        while at < count:
            left: dict[str, object] = {}
            done = False
            if READABLE and type(self._events[at]) is dict:
                words[ENTRIES_AT:NUMBERS_AT] = words_of(ENTRIES, self._entries(items))
                ends = self.ends[: min(count, at + at_once) + 1]
                at, why = read_dicts(words, id(self._events), at, ends, id(names.attributes), id(left))
                if why == FULL:
                    self._grow()
                    continue
                done = why != GIVEN_UP
                if at == len(ends) - 1 and not encoder.has_fragments:
                    continue
                at -= at == len(ends) - 1
            attrs, cells = array("i"), list[float]()
            try:
                rest = left if done else None
                self.coupled[at], is_whole = encoder.append_rest(self._events[at], rest, timestamps, attrs, cells)
            except RowError as error:
                if refused is None:
                    raise error.at_row(at) from error
                refused.setdefault(at, error)
                is_whole = True
            self._append(at, attrs, cells, is_whole)
            at += 1

    def _append(self, event: int, attrs: array[int], cells: list[float], is_whole: bool) -> None:
        """Append entries to an event; if `is_whole`, they are all that it has."""
        begin = self.ends.item(event) if is_whole else self.ends.item(event + 1)
        end = begin + len(attrs)
        while end > len(self._attrs):
            self._grow()
        if attrs:
            self._attrs[begin:end] = attrs
            self._cells[begin:end] = cells
        self.ends[event + 1] = end

    def _entries(self, items: np.ndarray) -> Entries:
        return Entries(self._attrs, self._cells, self._cells.view(np.int64), items)

    def _grow(self) -> None:
        self._attrs = np.concatenate([self._attrs, np.empty_like(self._attrs)])
        self._cells = np.concatenate([self._cells, np.empty_like(self._cells)])
