"""The named tuples of arrays that the kernels of all keys share. Kernels get them by address (`compiled/views.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32Matrix, Int32s, Int64s, Uint32s
from whimbrel.compiled.views import tuple_of_arrays

Arrays = Mapping[str, np.ndarray]
"""The arrays of a segment by the names under which they are stored."""


class Items(NamedTuple):
    """The items of conjunctions, for the kernels that plan; `Clauses` explains each array."""

    start: Int64s
    attr: Int32s
    kind: Bytes
    low: Int32s
    high: Int32s
    set_start: Int64s
    set_low: Int32s
    set_high: Int32s


class SharedArrays(NamedTuple):
    """The arrays that several keys use."""

    always: Int32s  # the rows that every event matches
    set_start: Int32s  # [s + 1]: the intervals of each set of ranks
    set_low: Int32s  # the first rank of each interval
    set_high: Int32s  # the last rank of each interval
    records: Int32s  # the conjunctions under hash keys, then those under signatures (records.py)


class EventValues(NamedTuple):
    """The values of the event that is being matched. One tuple serves all events of a block: making one is not free.

    `value[a]` is the rank of attribute a, -1 if the event lacks it, or -2 - i if the event has several values of it.
    These begin at entry i of `attrs` and `ranks` and go on as long as the attribute stays the same.
    """

    sets: tuple[np.ndarray, np.ndarray, np.ndarray]  # set_start, set_low and set_high of the segment
    value: Int32s  # [A]
    attrs: Int32s  # the attributes of the entries of all events
    ranks: Int32s  # their ranks
    stamp: Uint32s  # [rows]: the epoch in which each row was reported last


class EventState(NamedTuple):
    """Numbers about the event that is being matched."""

    attributes: int  # how many attributes it has; they are the first ones of `Scratch.present`
    end: int  # where its entries end
    several: bool  # whether it has several values for some attribute
    epoch: int  # its number, for `EventValues.stamp`


class Scratch(NamedTuple):
    """Buffers that one thread writes while it matches; reused from block to block."""

    value: Int32s  # [A]: see `EventValues`; all -1 between events
    coarse: Int32s  # [A + 1]: coarse ranks by the number of an attribute in references (hash/layout.py); the first is 0
    codes: Int32s  # [2 A + 1]: 0, then the rank and the bucket of each attribute, -1 missing, -2 several
    present: Int32s  # [A]: the attributes that the event has
    stamp: Uint32s  # [rows]: the last event that reported a row
    epoch: Uint32s  # [1]: the number of the last event
    by_attr: Int32Matrix  # [attributes of chunks, block]: the values of a block by attribute (bitmap/kernel.py)
    by_event: Int32Matrix  # [block, 2 x attributes of chunks + 1]: the same by event
    alive: Int32s  # [block]: the events that open a chunk, or the references or signatures not yet ruled out
    pair_event: Int32s  # [p]: at the first place of a run of `pair_row`, its event; at the second, its length
    pair_row: Int32s  # [p]: the rows that chunks give
    run: Int64s  # [p]: the hash keys of an event, then the runs under them
    counts: Int64s  # [4]: candidates, probes, chunks opened, verifications


class Task(NamedTuple):
    """The events of a call, and where the rows that they match go."""

    offsets: Int64s  # [events + 1]: where the entries of an event begin
    attrs: Int32s  # [n]
    ranks: Int32s  # [n]
    ends: Int64s  # [events + 1]: where the rows of an event begin
    out: Int32s  # [m]: rows


SCRATCH = tuple_of_arrays(Scratch, True)
TASK = tuple_of_arrays(Task, True)
