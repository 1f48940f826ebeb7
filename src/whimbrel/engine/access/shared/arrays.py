"""The named tuples of arrays that the kernels of all keys share. Kernels get them by address (`compiled/views.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.views import tuple_of_arrays

Arrays = Mapping[str, np.ndarray]
"""The arrays of a segment by the names under which they are stored."""


class Items(NamedTuple):
    """The items of conjunctions as the kernels of planning read them; see `Clauses` for what each array is."""

    start: np.ndarray
    attr: np.ndarray
    kind: np.ndarray
    low: np.ndarray
    high: np.ndarray
    set_start: np.ndarray
    set_low: np.ndarray
    set_high: np.ndarray


class SharedArrays(NamedTuple):
    """The arrays that several keys use."""

    always: np.ndarray  # int32: the rows that every event matches
    set_start: np.ndarray  # int32[s + 1]: the intervals of each set of ranks
    set_low: np.ndarray  # int32: the first rank of each interval
    set_high: np.ndarray  # int32: the last rank of each interval
    records: np.ndarray  # int32: the conjunctions under hash keys, then those under signatures (records.py)


class EventValues(NamedTuple):
    """The values of the event that is being matched. One tuple serves all events of a block: making one is not free.

    `value` has for each attribute a rank, -1 if the event lacks it, or -2 - i for several values: those from entry i of
    `attrs` and `ranks` on that have the same attribute.
    """

    sets: tuple[np.ndarray, np.ndarray, np.ndarray]  # set_start, set_low and set_high of the segment
    value: np.ndarray  # int32[A]
    attrs: np.ndarray  # int32: the attributes of the entries of all events
    ranks: np.ndarray  # int32: their ranks
    stamp: np.ndarray  # uint32[rows]: the epoch in which each row was reported last


class EventState(NamedTuple):
    """Numbers about the event that is being matched."""

    attributes: int  # how many attributes it has: the first of `Scratch.present`
    end: int  # where its entries end
    several: bool  # whether it has several values for some attribute
    epoch: int  # its number, for `EventValues.stamp`


class Scratch(NamedTuple):
    """Buffers that one thread writes while it matches; reused from block to block."""

    value: np.ndarray  # int32[A]: see `EventValues`; all -1 between events
    coarse: np.ndarray  # int32[A + 1]: values as references have them, by number (hash/layout.py); the first is 0
    codes: np.ndarray  # int32[2 A + 1]: 0, then the rank and the bucket of each attribute, -1 missing, -2 several
    present: np.ndarray  # int32[A]: the attributes that the event has
    stamp: np.ndarray  # uint32[rows]: the last event that reported a row
    epoch: np.ndarray  # uint32[1]: the number of the last event
    by_attr: np.ndarray  # int32[attributes of chunks, block]: the values of a block by attribute (bitmap/kernel.py)
    by_event: np.ndarray  # int32[block, 2 x attributes of chunks + 1]: the same by event
    alive: np.ndarray  # int32[block]: the events that open a chunk, or the references or signatures that are left
    pair_event: np.ndarray  # int32[p]: where the rows of an event begin: the event, and how many rows it has
    pair_row: np.ndarray  # int32[p]: the rows that chunks give
    run: np.ndarray  # int64[p]: the hash keys of an event, then the runs under them
    counts: np.ndarray  # int64[4]: candidates, probes, chunks opened, verifications


class Task(NamedTuple):
    """The events of a call, and where the rows that they match go."""

    offsets: np.ndarray  # int64[events + 1]: where the entries of an event begin
    attrs: np.ndarray  # int32[n]
    ranks: np.ndarray  # int32[n]
    ends: np.ndarray  # int64[events + 1]: where the rows of an event begin
    out: np.ndarray  # int32[m]: rows


SCRATCH = tuple_of_arrays(
    Scratch, True, {"uint32": "stamp epoch", "int32[,]": "by_attr by_event", "int64": "run counts"}
)
TASK = tuple_of_arrays(Task, True, {"int64": "offsets ends"})
