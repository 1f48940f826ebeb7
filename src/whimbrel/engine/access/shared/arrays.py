"""The arrays that kernels share, how a key declares its own, and what it gives when they are read back.

A key declares a named tuple of arrays with `KeyArrays`: the name under which a segment stores each array, its dtype and
its number of dimensions. Kernels get the tuples by address (`compiled/views.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.views import TupleOfArrays, read_only, tuple_of_arrays
from whimbrel.ranks.clauses.clauses import Clauses

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


def items_of(clauses: Clauses) -> Items:
    """The items of all conjunctions."""
    return Items(*(getattr(clauses, name) for name in Items._fields))


class SharedArrays(NamedTuple):
    """What belongs to no single key."""

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
    """What else is known of the event that is being matched."""

    attributes: int  # how many attributes it has: the first of `Scratch.present`
    end: int  # where its entries end
    several: bool  # whether it has several values for some attribute
    epoch: int  # its number, for `EventValues.stamp`


class Scratch(NamedTuple):
    """What one thread writes while it matches; reused from block to block."""

    value: np.ndarray  # int32[A]: see `EventValues`; all -1 between events
    coarse: np.ndarray  # int32[A + 1]: values as references have them, by number (hash/references.py); the first is 0
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


def _nothing(arrays: Arrays) -> dict[str, np.ndarray]:
    return {}


@dataclass(frozen=True)
class KeyArrays:
    """The arrays of one key: as kernels see them, and as a segment stores them."""

    name: type
    prefix: str  # of the stored names
    types: dict[str, tuple[str, int]] = field(default_factory=dict)  # dtype and dimensions where not int32 and one
    stored: dict[str, str] = field(default_factory=dict)  # the stored name without prefix, where it is another
    derive: Callable[[Arrays], dict[str, np.ndarray]] = _nothing  # the arrays that are made when a segment is opened

    @cached_property
    def kind(self) -> TupleOfArrays:
        """The tuple as kernels know it."""
        return tuple_of_arrays(self.name, False, self.types)

    @cached_property
    def fields(self) -> dict[str, str]:
        """The stored name of each field."""
        names: tuple[str, ...] = self.name._fields  # type: ignore[attr-defined]
        return {name: self.prefix + self.stored.get(name, name) for name in names}

    def of(self, arrays: Arrays) -> tuple[np.ndarray, ...]:
        """The tuple of a segment, from its stored arrays."""
        derived = self.derive(arrays)
        found = (derived[name] if name in derived else arrays[stored] for name, stored in self.fields.items())
        made: tuple[np.ndarray, ...] = self.name(*map(read_only, found))
        return made


SHARED = KeyArrays(SharedArrays, "", stored={"records": "hash_records"})
SCRATCH = tuple_of_arrays(
    Scratch,
    True,
    {
        "stamp": ("uint32", 1),
        "epoch": ("uint32", 1),
        "by_attr": ("int32", 2),
        "by_event": ("int32", 2),
        "run": ("int64", 1),
        "counts": ("int64", 1),
    },
)
TASK = tuple_of_arrays(Task, True, {"offsets": ("int64", 1), "ends": ("int64", 1)})


RankRange = tuple[int, int, int]
"""An attribute, and the first and last of its ranks with which an event reaches a conjunction."""


class Packed(NamedTuple):
    """Conjunctions in the ranks of their segment."""

    row: np.ndarray  # int32[m]: the row of each conjunction, with its flags
    counts: np.ndarray  # int64[m]: how many items it has
    attr: np.ndarray  # int32[k]: the attribute of each item, with its kind
    low: np.ndarray  # int32[k]: its first rank, or the number of its set
    high: np.ndarray  # int32[k]: its last rank, or the mask of its set


class Explained(NamedTuple):
    """How one conjunction is filed."""

    key: str  # the name of the key: hash, present, sorted, bitmap, signature
    attrs: list[int]  # the attributes of the key
    facts: dict[str, object]  # what else `plan` says of it
    ranges: list[list[RankRange]]  # an event reaches it that has a rank in each range of one of these lists
    candidate_ns: float  # what it costs an event that reaches it
