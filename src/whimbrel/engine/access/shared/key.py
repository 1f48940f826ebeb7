"""The interface of an access key. The package of each key exports one `AccessKey` as `KEY`; the registry lists them.

Planner, segments, matching kernel, merges and `Index.plan` ask these objects, so that a new key changes none of them.
Two facts still name a key: a block is sized by the attributes of the bitmap key, and the records that keys share are
stored as `hash_records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.views import TupleOfArrays, read_only, tuple_of_arrays
from whimbrel.engine.access.shared.arrays import Arrays
from whimbrel.engine.access.shared.plan import Plan

RankRange = tuple[int, int, int]
"""An attribute, and the first and last of its ranks with which an event reaches a conjunction."""


class Packed(NamedTuple):
    """Conjunctions in the ranks of their segment."""

    row: Int32s  # [m]: the row of each conjunction, with its flags
    counts: Int64s  # [m]: how many items it has
    attr: Int32s  # [k]: the attribute of each item, with its kind
    low: Int32s  # [k]: its first rank, or the number of its set
    high: Int32s  # [k]: its last rank, or the mask of its set


class Explained(NamedTuple):
    """How one conjunction is indexed."""

    key: str  # the name of the key: hash, present, sorted, bitmap, signature
    attrs: list[int]  # the attributes of the key
    facts: dict[str, object]  # more that `Index.plan` reports
    ranges: list[list[RankRange]]  # an event reaches the conjunction if it has a rank in every range of one list
    candidate_ns: float  # the cost for an event that reaches it


def _nothing(arrays: Arrays) -> dict[str, np.ndarray]:
    return {}


@dataclass(frozen=True)
class KeyArrays:
    """The arrays of one key: as kernels see them, and as a segment stores them."""

    tuple_class: type  # the named tuple of the arrays
    prefix: str  # of the stored names
    stored: dict[str, str] = field(default_factory=dict)  # stored names, without prefix, that differ from the field's
    derive: Callable[[Arrays], dict[str, np.ndarray]] = _nothing  # computes, at opening, the arrays that are not stored

    @cached_property
    def kind(self) -> TupleOfArrays:
        """The tuple as kernels know it."""
        return tuple_of_arrays(self.tuple_class, False)

    @cached_property
    def fields(self) -> dict[str, str]:
        """The stored name of each field."""
        names: tuple[str, ...] = self.tuple_class._fields  # type: ignore[attr-defined]
        return {name: self.prefix + self.stored.get(name, name) for name in names}

    def stored_arrays(self, made: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of the tuple by their stored names."""
        return dict(zip(self.fields.values(), made, strict=True))

    def of(self, arrays: Arrays) -> tuple[np.ndarray, ...]:
        """The tuple of a segment, from its stored arrays."""
        derived = self.derive(arrays)
        found = (derived[name] if name in derived else arrays[stored] for name, stored in self.fields.items())
        made: tuple[np.ndarray, ...] = self.tuple_class(*map(read_only, found))
        return made


def _pass(plan: Plan) -> None:
    """Take nothing."""


@dataclass(frozen=True)
class AccessKey:
    """One way for events to find conjunctions: how it is planned, stored, matched, read back and explained.

    A key has either `match_event` or `match_block`, both `inlined` helpers.
    """

    names: tuple[str, ...]  # the kinds of key in `Plan.take`, `Index.stats` and `Index.plan`
    arrays: KeyArrays  # the arrays that kernels read
    lay_out: Callable[[Plan], dict[str, np.ndarray]]  # returns the arrays of its conjunctions, by their stored names
    decode: Callable[[Arrays], Packed]  # returns its conjunctions
    explain: Callable[[Arrays, Sequence[str], int], Iterator[Explained]]  # takes the names of attributes, and a row
    claim: Callable[[Plan], None] = _pass  # takes conjunctions before prices are compared
    bid: Callable[[Plan], None] = _pass  # takes conjunctions that cost less with this key than with their present one
    match_event: Callable[..., Any] | None = None
    """(its arrays, SharedArrays, EventValues, EventState, Scratch, out, n): append the rows that an event reaches to
    `out`, which holds n rows; return the new length, or -1 if `out` is full."""
    match_block: Callable[..., Any] | None = None
    """(its arrays, the sets of ranks, Task, first, count, Scratch): return the rows, with flags, that events first ..
    first + count reach, and where the rows of each event begin; start[0] is -1 if a buffer is too small."""
