"""Many subscriptions at once, kept as columns of literals: no filter objects until somebody asks for one.

A row of a load is owned by a place. Among the owner numbers of `conjunction_rows` it is ~place, which differs from the
number of every conjunction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from whimbrel.compiled.array_types import Int32s
from whimbrel.language.columnar.terms import Conjunctions, ParsedMany, Term, parse_many
from whimbrel.matchers.base import BaseMatcher, id_and_filter_lists
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.conjunction_rows import GONE
from whimbrel.model.filter import Filter
from whimbrel.model.subscription import Id, Subscription

if TYPE_CHECKING:
    import pyarrow as pa

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
        """Take the rows of a load; the place of a row is its number behind `first`."""
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


class BulkMatcher(BaseMatcher):
    """A matcher whose `add_many` keeps texts as columns: a place and an id for each, but no filter object."""

    def __init__(self, timestamps: Iterable[str] = (), count: bool = False) -> None:
        super().__init__(timestamps, count)
        self._bulk = BulkLoads()
        self._loaded = False  # whether columns came since this was last cleared

    def add_many(self, subscriptions: Iterable[tuple[Id, object]] | pa.Table, dialect: str = "sql") -> None:
        """Add many subscriptions, all or none: pairs of id and filter, or an Arrow table with columns id and filter.

        Texts that share a shape stay columns of literals.
        """
        ids, given = id_and_filter_lists(subscriptions)
        kind = self._new_kind(ids)
        texts = [filter for filter in given if isinstance(filter, str)]
        if self.schema is None and len(texts) == len(given):
            parsed = parse_many(texts, dialect)
        else:
            parsed = ParsedMany(len(given), filters={row: self._parse(one, dialect) for row, one in enumerate(given)})
        if parsed.errors:
            raise parsed.errors[0][1]
        filters = dict(parsed.filters)
        loads: list[Conjunctions] = []
        for one in parsed.conjunctions:
            is_kept = np.zeros(len(given), np.bool_)
            is_kept[one.rows] = True
            is_kept[_other_rows(one, self.capabilities)] = False
            loads.append(one.only(is_kept))
            rest = np.unique(one.rows[~is_kept[one.rows]])
            filters.update((row, Filter.parse(texts[row], dialect)) for row in rest.tolist())
        first = len(self._ids)
        with self._all_or_nothing():
            for row in sorted(filters):
                self._prepare(filters[row], dialect)
            for row in sorted(filters):
                self._put(first + row, Subscription(ids[row], filters[row]))
            self._places.update(zip(ids, range(first, first + len(ids)), strict=True))
            self._ids += ids
            self._kind = kind
        for one in loads:
            self._bulk.add(one, texts, dialect, first)
        self._loaded = self._loaded or bool(loads)
        self._changes += 1

    def remove(self, id: Id) -> None:
        place = self._place(id)
        if place in self._subscriptions:
            super().remove(id)
        else:
            self._bulk.removed.add(place)
            self._changes += 1
            self._leave(id)

    def replace(self, id: Id, filter: object, dialect: str = "sql") -> None:
        place = self._place(id)
        if place in self._subscriptions:
            super().replace(id, filter, dialect)
        else:
            with self._all_or_nothing():
                self._put(place, Subscription(self._ids[place], self._prepare(filter, dialect)))
            self._bulk.removed.add(place)

    def _move(self, moved: Mapping[int, int]) -> None:
        self._bulk.move(moved, len(self._ids))
        super()._move(moved)
        self._loaded = True  # what was compiled has the old places

    def attributes(self) -> frozenset[str]:
        return super().attributes() | self._bulk.attributes

    def __getitem__(self, id: Id) -> Subscription:
        place = self._place(id)
        if place in self._subscriptions:
            return self._subscriptions[place]
        return Subscription(self._ids[place], self._bulk.filter(place))

    def _mentioned(self, attribute: str) -> bool:
        return attribute in self._uses or attribute in self._bulk.attributes

    def _check(self) -> None:
        super()._check()
        assert self._bulk.removed <= set(range(len(self._ids)))


def _other_rows(load: Conjunctions, capabilities: Capabilities) -> np.ndarray:
    """The rows that cannot stay columns: only one conjunction of plain sets that the matcher supports can."""
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
