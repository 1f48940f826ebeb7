"""Events as ranks: a block of them as a matrix, one row per event and one column per attribute, or one by one.

A matcher that tests every attribute of an event finds each value in one place, instead of searching the entries.
Matchers that keep sets of values, not rows (Hanson's trees, the groups of SGIM, the tree of tests), change one
conjunction at a time and freeze now and then. Then they rank the constants that they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Int32Matrix, Int32s, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.model.event import Event
from whimbrel.model.intervals import IntervalSet
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.dictionary_builder import Constants, build_dictionary
from whimbrel.ranks.encoding.encoded_events import EncodedEvents

MISSING = -1
"""The rank of an attribute that an event lacks, or that is null."""


class EventGrid(NamedTuple):
    """e events over a attributes. Nulls are left out: no constraint picks them.

    `starts` is empty when no event has several values of an attribute; else the further values of attribute a in
    event e are `more[starts[i] : starts[i + 1]]` with i = e * attributes + a.
    """

    first: Int32s  # [e, a]: the first value, or MISSING
    starts: Int64s = np.empty(0, np.int64)  # [e * a + 1], or empty
    more: Int32s = np.empty(0, np.int32)


def event_grid(encoded: EncodedEvents, attributes: int) -> EventGrid:
    """The grid of encoded events; takes memory for every cell, so it is for some hundred attributes at most.

    >>> from whimbrel.ranks.encoding.event_encoder import EventEncoder
    >>> encoder = EventEncoder(build_dictionary(["a", "b"], [Constants(numbers=[3]), Constants(numbers=[5])]))
    >>> grid = event_grid(encoder.encode_events([{"a": [2, 3]}, {"a": None, "b": 5}]), 2)
    >>> grid.first.tolist(), grid.starts.tolist(), grid.more.tolist()
    ([[6, -1], [-1, 7]], [0, 1, 1, 1, 1], [7])
    """
    first = np.full((encoded.count, attributes), MISSING, np.int32)
    further = _put_first(encoded.offsets, encoded.attrs, encoded.ranks, first)
    if not further:
        return EventGrid(first)
    starts = np.zeros(first.size + 1, np.int64)
    more = np.empty(further, np.int32)
    _put_further(encoded.offsets, encoded.attrs, encoded.ranks, attributes, starts, more)
    return EventGrid(first, starts, more)


@kernel
def _put_first(offsets: Int64s, attrs: Int32s, ranks: Int32s, first: Int32Matrix) -> int:
    """Write the first value of every attribute into the matrix; return how many values are left."""
    further = 0
    for event in range(first.shape[0]):
        for entry in range(offsets[event], offsets[event + 1]):
            if ranks[entry] > 0:
                if first[event, attrs[entry]] == MISSING:
                    first[event, attrs[entry]] = ranks[entry]
                else:
                    further += 1
    return further


@kernel
def _put_further(offsets: Int64s, attrs: Int32s, ranks: Int32s, attributes: int, starts: Int64s, more: Int32s) -> None:
    """Write all values but the first of each attribute into `more`, and where they start into `starts`.

    The values of one attribute stand side by side, but attributes need not come in order.
    """
    events = offsets.size - 1
    for event in range(events):
        previous = -1
        for entry in range(offsets[event], offsets[event + 1]):
            if ranks[entry] > 0:
                starts[event * attributes + attrs[entry] + 1] += attrs[entry] == previous
                previous = attrs[entry]
    for cell in range(events * attributes):
        starts[cell + 1] += starts[cell]
    for event in range(events):
        previous, place = -1, np.int64(0)
        for entry in range(offsets[event], offsets[event + 1]):
            if ranks[entry] > 0:
                if attrs[entry] == previous:
                    more[place] = ranks[entry]
                    place += 1
                else:
                    place = starts[event * attributes + attrs[entry]]
                previous = attrs[entry]


def rank_constants(sets: Mapping[str, Iterable[IntervalSet]]) -> Dictionary:
    """The dictionary of the constants of sets of values, by attribute. Attributes are numbered as they come."""
    constants: list[Constants] = []
    for values in sets.values():
        constants.append(Constants())
        for one in values:
            constants[-1].add(one)
    return build_dictionary(list(sets), constants)


def event_ranks(dictionary: Dictionary, event: Event) -> list[tuple[int, list[int]]]:
    """The attributes of an event that have ranks, each with the ranks of its values without null."""
    found = []
    for name in event.attributes:
        attr = dictionary.attributes.get(name)
        if attr is not None:
            rank = dictionary.lookup(attr).rank
            held = [rank(key) for key in event.non_null_keys(name)]
            if held:
                found.append((attr, held))
    return found


def bounded_float(value: object) -> float:
    """A number as a float, at most 1e300 away from 0, so that the difference of two is finite."""
    try:
        return min(max(float(value), -1e300), 1e300)  # type: ignore[arg-type]
    except OverflowError:
        return 1e300 if value > 0 else -1e300  # type: ignore[operator]
