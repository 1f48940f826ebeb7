"""Many subscriptions at once, kept as columns of literals: no filter objects until somebody asks for one.

A row of a group is owned by a place. Among the owner numbers of `conjunction_rows` it is ~place, which differs from
the number of every conjunction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from whimbrel.language.columnar import ParsedMany, ShapeGroup, Term, parse_many
from whimbrel.matchers.base import BaseMatcher, id_and_filter_lists
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.conjunction_rows import GONE
from whimbrel.matchers.runs import Int32s
from whimbrel.model.filter import Filter
from whimbrel.model.subscription import Id, Subscription

if TYPE_CHECKING:
    import pyarrow as pa

_CONSTRUCTS = {"range": "ranges", "excluded": "exclusions"}


class Bulk:
    """Groups of rows with their places; removed places stay in the columns and are left out of later builds."""

    def __init__(self) -> None:
        self.groups: list[ShapeGroup] = []
        self.removed: set[int] = set()
        self.attributes: set[str] = set()
        self.conjunctions = 0

    def add(self, group: ShapeGroup) -> None:
        """Take the rows of a group; their numbers are places."""
        self.groups.append(group)
        self.attributes |= {term.attribute for terms in group.shape.conjunctions for term in terms}
        self.conjunctions += len(group.rows) * len(group.shape.conjunctions)

    def filter(self, place: int) -> Filter:
        """The filter of a place."""
        for group in self.groups:
            index = int(np.searchsorted(group.rows, place))
            if index < len(group.rows) and group.rows[index] == place:
                return group.filter(index)
        raise KeyError(place)

    def owners(self, places: int) -> Int32s:
        """The owner of each of so many places: ~place, or `GONE` for a removed one."""
        owners = ~np.arange(places, dtype=np.int32)
        owners[list(self.removed)] = GONE
        return owners


class BulkMatcher(BaseMatcher):
    """A matcher whose `add_many` keeps texts as columns: a place and an id for each, but no filter object."""

    def __init__(self, timestamps: Iterable[str] = (), count: bool = False) -> None:
        super().__init__(timestamps, count)
        self._bulk = Bulk()
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
        filters, groups = dict(parsed.filters), []
        for group in parsed.groups:
            if is_columnar(group, self.capabilities):
                groups.append(group)
            else:
                filters.update((int(row), group.filter(index)) for index, row in enumerate(group.rows))
        first = len(self._ids)
        with self._all_or_nothing():
            for row in sorted(filters):
                self._prepare(filters[row], dialect)
            for row in sorted(filters):
                self._put(first + row, Subscription(ids[row], filters[row]))
            self._places.update(zip(ids, range(first, first + len(ids)), strict=True))
            self._ids += ids
            self._kind = kind
        for group in groups:
            self._bulk.add(replace(group, rows=first + group.rows))
        self._loaded = self._loaded or bool(groups)
        self._changes += 1

    def remove(self, id: Id) -> None:
        """Remove a subscription; UnknownId if it is not there."""
        place = self._place(id)
        if place in self._subscriptions:
            super().remove(id)
        else:
            self._bulk.removed.add(place)
            del self._places[id]
            self._changes += 1

    def replace(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Give a subscription another filter; it keeps its place in the order."""
        place = self._place(id)
        if place in self._subscriptions:
            super().replace(id, filter, dialect)
        else:
            with self._all_or_nothing():
                self._put(place, Subscription(self._ids[place], self._prepare(filter, dialect)))
            self._bulk.removed.add(place)

    def attributes(self) -> frozenset[str]:
        """The attributes that some filter mentions."""
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


def is_columnar(group: ShapeGroup, capabilities: Capabilities) -> bool:
    """Whether every constraint of the group is a plain set of values that the matcher supports."""
    return all(
        terms and all(_construct(term) is not None and getattr(capabilities, str(_construct(term))) for term in terms)
        for terms in group.shape.conjunctions
    )


def _construct(term: Term) -> str | None:
    if term.kind == "points":
        return "equality" if len(term.operands) == 1 else "unions"
    return _CONSTRUCTS.get(term.kind)
