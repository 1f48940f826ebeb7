"""Validation of calls: their arguments are checked and encoded before anything is journalled or changed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypeAlias

import numpy as np

from whimbrel.compiled.array_types import Int32s
from whimbrel.spaces.dimensions.dimension_domains import widened
from whimbrel.spaces.dimensions.errors import EmptyRegion, KeyExists, RegionError, SpaceOptionError
from whimbrel.spaces.dimensions.space_definitions import Cells, Columns, Key, Region, encode_columns
from whimbrel.spaces.index.region_arrays import Regions
from whimbrel.spaces.index.region_rows import changed
from whimbrel.spaces.state.dwell_subscriptions import SubscriptionOptions
from whimbrel.spaces.state.members import COMPLEX, Members, NewMembers
from whimbrel.spaces.state.space_state import SpaceState

Change: TypeAlias = Region | Sequence[Region]
Items: TypeAlias = list[tuple[Key, Sequence[Region]]] | Columns
Changes: TypeAlias = list[tuple[Key, Change]] | Columns

_ONE = Regions.none(1)


class CallValidator:
    """Checks and encodes the arguments of calls. It reads the state and never changes it."""

    def __init__(self, state: SpaceState) -> None:
        self._definitions = state.definitions
        self._publications = state.publications
        self._filters = state.filters

    def regions(self, regions: Sequence[Region], path: str = "regions") -> Regions:
        """Encode regions as a user gave them."""
        return Regions.of(self._definitions.stable(lambda: self._definitions.encode_all(regions, path)))

    def updated(
        self, members: Members, number: int, change: Change | None, region: int | None, filter: str | None
    ) -> Regions:
        """The regions of a member after an update, whose filter is checked. Without a change they stay."""
        if filter is not None:
            self._filters.check(filter)
        elif change is None:
            raise SpaceOptionError("change", "a change of the regions, or a filter", change)
        if region is None:
            return members.read(number) if change is None else self.changed(members, number, change)
        if not isinstance(change, Mapping):
            raise SpaceOptionError("region", "the place of a region that a mapping changes", region)
        count = len(members.rows(number))
        if isinstance(region, bool) or not isinstance(region, int) or not 0 <= region < count:
            raise SpaceOptionError("region", f"the place of one of {count} regions, from 0 on", region)
        return self.changed(members, number, change, region=region)

    def changed(
        self,
        members: Members,
        number: int,
        change: Change,
        old: Regions | None = None,
        path: str = "change",
        region: int | None = None,
    ) -> Regions:
        """The regions of a member after a change, which is applied to `old` if that is given.

        A mapping changes the region at the place `region`, which may be left out if there is only one.
        """
        if not isinstance(change, Mapping):
            return self.regions(change, path)
        cells = self._definitions.stable(lambda: self._definitions.encode(change, path, partial=True))
        olds = members.read(number) if old is None else old  # after `encode`, which may change the labels of strings
        if len(olds.start) != 2 and region is None:
            raise RegionError("the full list of regions, or the place of one, as there are several", "a mapping", path)
        at = region or 0
        start = np.where(np.arange(len(olds.start)) > at, len(cells), 0)
        new = Regions(*changed(*olds, start, Regions.of([cells]).cells))
        if not len(new.cells_of(at)):
            raise EmptyRegion("a constraint on at least one dimension", "none", path)
        return new

    def encode_new(self, members: Members, items: Items) -> NewMembers:
        """Check the keys of new members, and encode their regions."""
        keys = list(map(members.check_new, items.keys if isinstance(items, Columns) else [key for key, _ in items]))
        if len(set(keys)) < len(keys):
            raise KeyExists(members.role, next(key for key, count in Counter(keys).items() if count > 1))
        if isinstance(items, Columns):
            return NewMembers(keys, encode_columns(items, self._definitions, partial=False), [1] * len(keys))
        rows = self._definitions.stable(
            lambda: [self._definitions.encode_all(regions, f"{key!r}") for key, regions in items]
        )
        regions = Regions.of([cells for each in rows for cells in each])
        return NewMembers(keys, regions, [len(each) for each in rows])

    def steps(self, changes: Changes) -> list[tuple[Int32s | int, Regions]]:
        """Split a batch of changes into steps: each changes several simple publications once, or one of any kind.

        The steps are in the order of the changes, so that a publication may change several times in a batch.
        """
        members = self._publications
        if isinstance(changes, Columns):
            numbers = np.array([members.find(key) for key in changes.keys], np.int32)
            regions = encode_columns(changes, self._definitions, partial=True)
            once = len(np.unique(numbers)) == len(numbers)
            if once and not (members.flags[numbers] & COMPLEX).any():
                return [(numbers, self._merged(numbers, regions, None))]
            raise RegionError("each publication once, with one region", "others", "columns")
        points = self._points(changes)
        if points is not None:
            return [points]
        steps: list[tuple[Int32s | int, Regions]] = []
        newest: dict[int, Regions] = {}
        batch: dict[int, Cells] = {}

        def flush() -> None:
            if batch:
                numbers = np.array(list(batch), np.int32)
                news = self._merged(numbers, Regions.of(list(batch.values())), newest)
                newest.update({number: news.part(place, place + 1) for place, number in enumerate(batch)})
                steps.append((numbers, news))
                batch.clear()

        for key, change in changes:
            number = members.find(key)
            if isinstance(change, Mapping) and members.is_simple(number) and len(newest.get(number, _ONE).start) == 2:
                if number in batch:
                    flush()
                batch[number] = self._definitions.encode(change, repr(key), partial=True)
                continue
            flush()
            newest[number] = self.changed(members, number, change, newest.get(number), repr(key))
            steps.append((number, newest[number]))
        flush()
        return steps

    def _points(self, changes: list[tuple[Key, Change]]) -> tuple[Int32s, Regions] | None:
        """One step for a batch in which each publication is simple, occurs once, and gets plain numbers; else None."""
        members = self._publications
        numbers = np.array([members.find(key) for key, _ in changes], np.int32)
        if len(np.unique(numbers)) < len(numbers) or (members.flags[numbers] & COMPLEX).any():
            return None
        regions = self._definitions.encode_points([change for _, change in changes])  # type: ignore[misc]
        return None if regions is None else (numbers, self._merged(numbers, regions, None))

    def _merged(self, numbers: Int32s, changes: Regions, newest: dict[int, Regions] | None) -> Regions:
        """The regions of simple publications after partial changes, which apply to `newest` where it has them."""
        olds = self._publications.read_singles(numbers)
        if newest:
            pairs = enumerate(numbers.tolist())
            olds = Regions.of([newest[n].cells_of(0) if n in newest else olds.cells_of(place) for place, n in pairs])
        news = Regions(*changed(*olds, *changes))
        empty = np.flatnonzero(np.diff(news.start) == 0)
        if len(empty):
            key = self._publications.names[numbers[empty[0]]]
            raise EmptyRegion("a constraint on at least one dimension", "none", repr(key))
        return news

    def options(
        self, leave: bool, hysteresis: Mapping[str, float | timedelta] | None, dwell: float | timedelta
    ) -> SubscriptionOptions:
        """The options of a subscription; SpaceOptionError if one makes no sense."""
        margins = {name: _seconds(margin, f"hysteresis.{name}") for name, margin in (hysteresis or {}).items()}
        for name in margins:
            number = self._definitions.number(name, "hysteresis")
            if self._definitions.domains[number].text_is_point:
                found = self._definitions.domains[number].name
                raise SpaceOptionError(f"hysteresis.{name}", "a dimension with distances", f"one of the type {found}")
        return SubscriptionOptions(
            bool(leave), {name: margin for name, margin in margins.items() if margin}, _seconds(dwell, "dwell")
        )

    def outer(self, rows: Regions, options: SubscriptionOptions) -> Regions | None:
        """The regions widened by hysteresis; None without hysteresis."""
        if not options.hysteresis:
            return None
        cells = rows.cells.copy()
        for cell in cells:
            margin = options.hysteresis.get(self._definitions.names[cell[0]])
            if margin:
                domain = self._definitions.domains[cell[0]]
                cell[1:] = widened(domain, int(cell[1]), int(cell[2]), margin)
        return Regions(rows.start, cells)


def _seconds(span: float | timedelta, option: str) -> float:
    """A distance or a time in seconds; SpaceOptionError if it is negative, infinite or larger than any float."""
    number = span.total_seconds() if isinstance(span, timedelta) else span
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= sys.float_info.max:
        raise SpaceOptionError(option, "a number from 0 on", span)
    return float(number)
