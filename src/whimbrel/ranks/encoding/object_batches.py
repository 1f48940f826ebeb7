"""Reads many objects to entries: many dicts at once by a compiled loop, other objects one by one.

The loop (`dict_kernels.read_dicts`) keeps the GIL, so it reads some hundred dicts at a time. It stops at an object of
which Python must read something, and continues after it.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from whimbrel.compiled.python_objects import READABLE
from whimbrel.compiled.views import words_of
from whimbrel.model.errors import RowError
from whimbrel.model.event import AnyEvent, Event
from whimbrel.ranks.cells import DROPPED_BITS, RANK
from whimbrel.ranks.encoding.dict_kernels import read_dicts
from whimbrel.ranks.encoding.single_events import ITEMS, SingleEventEncoder
from whimbrel.ranks.kernel_arrays import (
    ARRAYS,
    END_AT,
    ENTRIES,
    ENTRIES_AT,
    FOR_PYTHON,
    FULL,
    NUMBERS,
    NUMBERS_AT,
    READING,
    TEXTS,
    Numbers,
    Reading,
    make_entries,
)
from whimbrel.ranks.links import EventLinks, kept_texts
from whimbrel.ranks.list_columns import ListRanks
from whimbrel.ranks.patterns.event_fragments import EventFragments, SeenValues

Refused: TypeAlias = dict[int, RowError]
"""The errors of events that were refused, by number of the event."""

_AT_ONCE = 512
"""Dicts that are read without giving up the GIL: some milliseconds."""


class ObjectBatch:
    """The entries of some objects: event e has the entries ends[e]:ends[e + 1] of `attrs` and `cells`."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        self._events = list(events)  # a copy: kernels read it, and nobody else may change it
        self.ends = np.zeros(len(events) + 1, np.int64)
        self.coupled = np.zeros(len(events), np.uint8)
        self.arrays: Collection[str] | None = ()
        self.is_whole = np.zeros(len(events), bool)
        """Whether Python has read all of the event, and appended what is derived from its texts."""

    @property
    def attrs(self) -> np.ndarray:
        """The attribute of each entry."""
        return self._entries.attrs[: self.ends[-1]]

    @property
    def cells(self) -> np.ndarray:
        """The cell of each entry (`ranks.cells`)."""
        return self._entries.cells[: self.ends[-1]]

    def elements(self) -> np.ndarray | None:
        """The elements (`EncodedEvents.elements`) of the entries that `rank_cells` keeps."""
        if not self._has_elements or not self.coupled.any():
            return None
        is_kept = (self.attrs >= 0) & (self.cells.view(np.int64) != DROPPED_BITS)
        elements: np.ndarray = self._entries.elements[: self.ends[-1]][is_kept]
        return elements

    @property
    def texts(self) -> tuple[np.ndarray, pa.Array]:
        """The texts from which other attributes are derived, and the entry of each."""
        _, _, _, _, items, of_entry, ends, data = self._entries
        count = items.item(TEXTS)
        buffers = pa.py_buffer(ends[: count + 1]), pa.py_buffer(data)
        return of_entry[:count], pa.LargeStringArray.from_buffers(count, *buffers, null_count=0)

    def read(
        self,
        encoder: SingleEventEncoder,
        numbers: Numbers,
        reading: Reading,
        timestamps: Collection[str],
        refused: Refused | None,
    ) -> None:
        """Read all objects. A bad one is raised with its number, or put into `refused` and has no entries."""
        words = np.zeros(END_AT, np.int64)
        words[NUMBERS_AT:] = [*words_of(NUMBERS, numbers), *words_of(READING, reading)]
        table = encoder.names_for(timestamps).table
        at, count = 0, len(self._events)
        self._entries = make_entries(encoder.entries_per_event * count + 64, ITEMS)
        while at < count:
            left: dict[str, object] | None = None
            if READABLE and type(self._events[at]) is dict:
                left = {}
                words[ENTRIES_AT:NUMBERS_AT] = words_of(ENTRIES, self._entries)
                ends = self.ends[: min(count, at + _AT_ONCE) + 1]
                at, why = read_dicts(words, id(self._events), at, ends, self.coupled, table.rows, id(left))
                if at == len(ends) - 1:
                    continue
                if why == FULL:
                    self._grow(self.ends.item(at))
                    continue
                left = None if why == FOR_PYTHON else left
            attrs, cells = array("i"), list[float]()
            try:
                mark, self.is_whole[at] = encoder.append_rest(self._events[at], left, timestamps, attrs, cells)
            except RowError as error:
                if refused is None:
                    raise error.at_row(at) from error
                refused.setdefault(at, error)
                mark, self.is_whole[at] = 0, True
            self._append(at, attrs, cells, mark)
            at += 1
        encoder.entries_per_event = min(64, max(8, 1 + int(self.ends[-1]) // max(1, count)))
        self._has_elements = table.has_elements
        if self.arrays is not None:
            self.arrays = table.arrays(self._entries.items.item(ARRAYS))

    def link_parts(self, links: EventLinks, timestamps: Collection[str]) -> list[ListRanks]:
        """The ranks of comparisons of two attributes. Marks the events that must be verified."""
        return links.parts(
            self._entries.attrs, self._entries.cells, self.ends, kept_texts(self._entries), self.coupled,
            lambda event: Event.of(self._events[event], timestamps), self.is_whole,
        )  # fmt: skip

    def _append(self, event: int, attrs: array[int], cells: list[float], mark: int) -> None:
        """Append entries to an event; if it `is_whole`, they are all its entries."""
        begin = self.ends.item(event + 1)
        if self.is_whole[event]:
            begin = self.ends.item(event)
            self.coupled[event] = mark
            self.arrays = None if mark else self.arrays
            entries = self._entries
            kept = np.searchsorted(entries.text_entries[: entries.items[TEXTS]], begin)
            entries.items[TEXTS] = kept
        end = begin + len(attrs)
        while end > len(self._entries.attrs):
            self._grow(len(self._entries.attrs))
        if attrs:
            self._entries.attrs[begin:end] = attrs
            self._entries.cells[begin:end] = cells
            self._entries.elements[begin:end] = 0
        self.ends[event + 1] = end

    def _grow(self, used: int) -> None:
        """Double the memory of entries, of which `used` are used, or of texts; of both if neither is half full."""
        old = self._entries
        size, texts, count = len(old.attrs), len(old.text_entries), old.items.item(TEXTS)
        is_full = 2 * used >= size
        has_many_texts = 2 * count >= texts or 2 * old.text_ends.item(count) >= len(old.text_data)
        self._entries = make_entries(
            size if has_many_texts and not is_full else 2 * size,
            0,
            texts if is_full and not has_many_texts else 2 * texts,
        )._replace(items=old.items)
        for name in ("attrs", "cells", "elements", "text_entries", "text_ends", "text_data"):
            array = getattr(old, name)
            getattr(self._entries, name)[: len(array)] = array


def derived_parts(fragments: EventFragments, batch: ObjectBatch) -> list[ListRanks]:
    """The ranks of attributes that are derived from the texts of a batch. Marks its events that must be verified."""
    of_entry, texts = batch.texts
    if not len(of_entry):
        return []
    rows, attrs = len(batch.coupled), batch.attrs
    event_of = np.repeat(np.arange(rows), np.diff(batch.ends))
    is_null = batch.cells.view(np.int64) == RANK
    text_of = np.full(len(attrs), -1, np.int64)
    text_of[of_entry] = np.arange(len(of_entry))
    seen: list[SeenValues] = []
    for attr in filter(fragments.__contains__, np.unique(attrs[of_entry]).tolist()):
        own = np.flatnonzero((attrs == attr) & ~is_null & ~batch.is_whole[event_of])
        is_text = text_of[own] >= 0
        for entries, values in ((own[is_text], texts.take(pa.array(text_of[own[is_text]]))), (own[~is_text], None)):
            events, every = event_of[entries], np.arange(rows)
            cuts = np.searchsorted(events, every), np.searchsorted(events, every, "right")
            seen.append(SeenValues(attr, values, np.ones(len(entries), np.int32), *cuts))
    return fragments.parts(seen, rows, batch.coupled)
