"""Encoded events as a matrix of ranks, one row per event and one column per attribute.

A matcher that tests every attribute of an event finds each value in one place, instead of searching the entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from whimbrel.ranks.encoding.event_encoder import EncodedEvents

MISSING = -1
"""The rank of an attribute that an event lacks, or that is null."""


@dataclass(frozen=True, slots=True)
class EventGrid:
    """e events over a attributes. Nulls are left out: no constraint picks them.

    `starts` is empty when no event has several values of an attribute; else the further values of attribute a in
    event e are `more[starts[i] : starts[i + 1]]` with i = e * attributes + a.
    """

    first: np.ndarray  # int32[e, a]: the first value, or MISSING
    starts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # int64[e * a + 1], or empty
    more: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))  # int32

    def __len__(self) -> int:
        return len(self.first)


def event_grid(encoded: EncodedEvents, attributes: int) -> EventGrid:
    """The grid of encoded events; takes memory for every cell, so it is for some hundred attributes at most.

    >>> from whimbrel.ranks.constants import Constants
    >>> from whimbrel.ranks.dictionary_builder import build_dictionary
    >>> from whimbrel.ranks.encoding.event_encoder import EventEncoder
    >>> encoder = EventEncoder(build_dictionary(["a", "b"], [Constants(numbers=[3]), Constants(numbers=[5])]))
    >>> grid = event_grid(encoder.encode_events([{"a": [2, 3]}, {"a": None, "b": 5}]), 2)
    >>> grid.first.tolist(), grid.starts.tolist(), grid.more.tolist()
    ([[6, -1], [-1, 7]], [0, 1, 1, 1, 1], [7])
    """
    first = np.full((encoded.count, attributes), MISSING, np.int32)
    is_value = encoded.ranks > 0
    events = np.repeat(np.arange(encoded.count), np.diff(encoded.offsets))
    cells, ranks = (events * attributes + encoded.attrs)[is_value], encoded.ranks[is_value]
    begins = np.ones(len(cells), bool)
    np.not_equal(cells[1:], cells[:-1], out=begins[1:])  # the entries of one attribute are side by side
    first.ravel()[cells[begins]] = ranks[begins]
    if begins.all():
        return EventGrid(first)
    further = cells[~begins]
    starts = np.zeros(first.size + 1, np.int64)
    np.cumsum(np.bincount(further, minlength=first.size), out=starts[1:])
    return EventGrid(first, starts, ranks[~begins][np.argsort(further, kind="stable")])
