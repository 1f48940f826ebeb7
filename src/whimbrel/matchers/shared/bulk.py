"""Many subscriptions at once, kept as columns of literals: no filter objects until somebody asks for one.

A row of a load is owned by a place. Among the owner numbers of `conjunction_rows` it is ~place, which differs from the
number of every conjunction. `RowHolders` says which places hold each compiled row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.language.columnar.terms import Conjunctions, Term
from whimbrel.matchers.shared.capabilities import Capabilities
from whimbrel.matchers.shared.conjunction_rows import GONE
from whimbrel.model.filter import Filter

_CONSTRUCTS = {"range": "ranges", "excluded": "exclusions"}


class BulkLoads:
    """Loads of rows, whose numbers are places. Removed ones stay in the columns until places are renumbered."""

    def __init__(self) -> None:
        self.loads: list[Conjunctions] = []
        self.removed: set[int] = set()
        self.attributes: set[str] = set()
        self.conjunctions = 0
        self._texts: dict[int, tuple[str, str]] = {}  # by place, with the dialect

    def add(self, load: Conjunctions, texts: Sequence[str], dialect: str, first: int) -> None:
        """Take the rows of a load; row r gets the place first + r."""
        self.loads.append(replace(load, rows=first + load.rows))
        self.attributes |= {group.term.attribute for group in load.groups}
        self.conjunctions += len(load.rows)
        self._texts.update((first + row, (texts[row], dialect)) for row in load.rows.tolist())

    def filter(self, place: int) -> Filter:
        """The filter of the subscription at a place, made from its columns."""
        return Filter.parse(*self._texts[place])

    def move(self, moved: Mapping[int, int], places: int) -> None:
        """Give the rows the new places of the subscriptions, and forget the rows that were removed."""
        kept = np.full(places, -1, np.int64)
        for place, new in moved.items():
            kept[place] = -1 if place in self.removed else new
        loads = [replace(one, rows=kept[one.rows]) for one in (load.only(kept >= 0) for load in self.loads)]
        self.loads = [one for one in loads if len(one.rows)]
        self.attributes = {group.term.attribute for one in self.loads for group in one.groups}
        self.conjunctions = sum(len(one.rows) for one in self.loads)
        self._texts = {int(kept[place]): text for place, text in self._texts.items() if kept[place] >= 0}
        self.removed = set()

    def owners(self, places: int) -> Int32s:
        """The owners of the first `places` places: ~place, or `GONE` for a removed one."""
        owners = ~np.arange(places, dtype=np.int32)
        owners[list(self.removed)] = GONE
        return owners


@dataclass(slots=True)
class RowHolders:
    """The places of each row, and the places that every event matches."""

    start: Int64s  # [rows + 1]
    places: Int32s
    always: Int32s
    size: int  # places there are
    several: bool  # whether one event may reach a place twice
    _stamps: Int32s = field(init=False)
    _epoch: int = 0

    def __post_init__(self) -> None:
        self._stamps = np.zeros(self.size if self.several else 0, dtype=np.int32)

    def expand(self, rows: Int32s, ends: Int64s) -> tuple[Int64s, Int32s]:
        """The places of the rows of some events: where each event's places start and end, and the places."""
        if self._epoch > np.iinfo(np.int32).max - len(ends):
            self._stamps[:] = 0
            self._epoch = 0
        total = _total(rows, self.start) + len(ends) * len(self.always)
        out = np.empty(total, dtype=np.int32)
        starts = np.zeros(len(ends) + 1, dtype=np.int64)
        found = _expand(rows, ends, self.start, self.places, self.always, self._stamps, self._epoch, starts, out)
        self._epoch += len(ends)
        return starts, out[:found]


@kernel
def _total(rows: Int32s, start: Int64s) -> int:
    total = 0
    for row in rows:
        total += start[row + 1] - start[row]
    return total


@kernel
def _expand(
    rows: Int32s,
    ends: Int64s,
    start: Int64s,
    places: Int32s,
    always: Int32s,
    stamps: Int32s,
    epoch: int,
    starts: Int64s,
    out: Int32s,
) -> int:
    found = 0
    begin = 0
    for event in range(ends.size):
        epoch += 1
        for place in always:
            out[found] = place
            found += 1
            if stamps.size:
                stamps[place] = epoch
        for i in range(begin, ends[event]):
            for j in range(start[rows[i]], start[rows[i] + 1]):
                place = places[j]
                if stamps.size:
                    if stamps[place] == epoch:
                        continue
                    stamps[place] = epoch
                out[found] = place
                found += 1
        begin = ends[event]
        starts[event + 1] = found
    return found


def other_rows(load: Conjunctions, capabilities: Capabilities) -> np.ndarray:
    """Find the rows that cannot stay columns. Those can that are one conjunction of plain sets which are supported."""
    names: dict[str, int] = {}
    attr = np.zeros(load.size, np.int64)
    is_other, is_range = np.zeros(load.size, np.bool_), np.zeros(load.size, np.bool_)
    for group in load.groups:
        attr[group.places] = names.setdefault(group.term.attribute, len(names))
        construct = _construct(group.term, group.lengths is not None)
        is_other[group.places] = construct is None or not getattr(capabilities, construct)
        is_range[group.places] = group.term.kind == "range"
    number = np.repeat(np.arange(len(load.rows)), load.counts)
    of = number * len(names) + attr[load.uses]
    order = np.argsort(of, kind="stable")
    twice = order[1:][
        (of[order[1:]] == of[order[:-1]]) & ~(is_range[load.uses[order[1:]]] & is_range[load.uses[order[:-1]]])
    ]
    several = np.flatnonzero(np.diff(load.rows) == 0)
    found: np.ndarray = load.rows[np.concatenate([number[is_other[load.uses]], number[twice], several])]
    return found


def _construct(term: Term, is_list: bool) -> str | None:
    if term.kind == "points":
        return "unions" if is_list or len(term.operands) > 1 else "equality"
    return _CONSTRUCTS.get(term.kind)
