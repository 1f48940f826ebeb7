"""Which pairs of a publication and a subscription begin to match when one side changes.

Everything is stated for a changed member and the members of the other role; both roles are alike. With the usual
filter a pair matches iff each region of one matches some region of the other, and the other way round. If the number
of regions stays the same, a pair that begins to match has two regions that begin to match, because the filter is
monotone; the index finds those. If regions were added or removed (ERR-19e), every pair that matches now has a match of
the first new region. Each candidate is checked before and after the change, so nobody is notified twice.

Other filters are functions, registered by name so that a journal can name them. They are called only where at least
one pair of regions matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from whimbrel.compiled.array_types import Int32s
from whimbrel.spaces.dimensions.errors import SpaceOptionError
from whimbrel.spaces.dimensions.interval import Interval
from whimbrel.spaces.dimensions.space_definitions import Definitions, read_all
from whimbrel.spaces.index.region_arrays import Regions
from whimbrel.spaces.state.members import ALL, COMPLEX, HIDDEN, Members

DecodedRegions: TypeAlias = Sequence[Mapping[str, Interval]]
RegionFilter: TypeAlias = Callable[[DecodedRegions, DecodedRegions, Sequence[tuple[int, int]]], bool]
"""Takes its own regions, the other side's, and the pairs of their places that match; returns whether that suffices."""

_NONE = Regions.none(0)


class RegionFilters:
    """Filters by name. `all` is the usual one; `any` holds if one pair of regions matches."""

    def __init__(self, more: Mapping[str, RegionFilter] | None = None) -> None:
        self._named: dict[str, RegionFilter] = {"any": lambda own, other, pairs: bool(pairs), **(more or {})}
        if ALL in self._named:
            raise SpaceOptionError("filters", f"another name than {ALL!r}", ALL)

    def check(self, name: str) -> str:
        """Return the name if there is such a filter, else raise SpaceOptionError."""
        if name != ALL and name not in self._named:
            raise SpaceOptionError("filter", f"one of {', '.join([ALL, *self._named])}", name)
        return name

    def __getitem__(self, name: str) -> RegionFilter:
        return self._named[name]


class PairMatching:
    """Queries about pairs: members of one role that match members of the other."""

    def __init__(self, definitions: Definitions, filters: RegionFilters) -> None:
        self.definitions = definitions
        self.filters = filters

    def begun(
        self, other: Members, numbers: Int32s, olds: Regions, news: Regions, required: int = 0
    ) -> tuple[Int32s, Int32s]:
        """Pairs (own number, other number) that begin to match, for members with one region and the usual filter.

        Only members of the other side with all flags of `required` count.
        """
        if other.all_with(required):
            required = 0
        own, others = other.regions.search(olds, news, required, numbers, other.owner)
        if not other.any_with(COMPLEX):
            return own, others
        simple = other.flags[others] & COMPLEX == 0
        candidates = set(zip(own[~simple].tolist(), others[~simple].tolist(), strict=True))
        for number in other.filters:
            if int(other.flags[number]) & required == required:
                candidates |= {(each, number) for each in numbers.tolist()}
        place = {number: place for place, number in enumerate(numbers.tolist())}
        held = [
            pair
            for pair in candidates
            if self._begins(other, pair[1], _one(olds, place[pair[0]]), _one(news, place[pair[0]]), ALL, ALL)
        ]
        more = np.array(held, np.int32).reshape(-1, 2)
        return np.concatenate([own[simple], more[:, 0]]), np.concatenate([others[simple], more[:, 1]])

    def begun_by(
        self, other: Members, old: Regions, new: Regions, filter: str, required: int = 0, old_filter: str | None = None
    ) -> Int32s:
        """Members of the other side that begin to match one member with any filter and any number of regions.

        `old_filter` is the filter that the member had with its old regions, if it was another.
        """
        old_filter = filter if old_filter is None else old_filter
        count = len(new.start) - 1
        if count == 0:
            return np.zeros(0, np.int32)
        if filter == old_filter == ALL and count == len(old.start) - 1:
            queries = old, new
        elif filter == ALL:
            queries = Regions.none(1), _one(new, 0)
        else:
            queries = Regions.none(count), new
        owners = set(np.unique(other.regions.search(*queries, required, row_names=other.owner)[1]).tolist())
        owners |= {number for number in other.filters if int(other.flags[number]) & required == required}
        begun = [each for each in sorted(owners) if self._begins(other, each, old, new, old_filter, filter)]
        return np.array(begun, np.int32)

    def matched(self, other: Members, regions: Regions, filter: str) -> Int32s:
        """All members of the other side that match these regions, without hidden ones."""
        if filter == ALL and len(regions.start) == 2:
            found = self.begun(other, np.zeros(1, np.int32), Regions.none(1), regions)[1]
        else:
            found = self.begun_by(other, _NONE, regions, filter)
        visible: Int32s = found[other.flags[found] & HIDDEN == 0]
        return visible

    def _begins(self, other: Members, number: int, old: Regions, new: Regions, old_filter: str, filter: str) -> bool:
        """Whether a member of the other side matches the new regions and did not match the old ones."""
        return self.holds(other, number, new, filter) and not self.holds(other, number, old, old_filter)

    def holds(self, other: Members, number: int, regions: Regions, filter: str) -> bool:
        """Whether regions with a filter match a member of the other side."""
        rows = other.rows(number)
        matched = other.regions.matrix(regions, rows)
        if not matched.any():
            return False
        their_filter = other.filters.get(number, ALL)
        if filter == ALL and not matched.any(axis=1).all():
            return False
        if their_filter == ALL and not matched.any(axis=0).all():
            return False
        if filter == their_filter == ALL:
            return True
        decode = self.definitions.decode
        own_regions, their_regions = read_all(regions, decode), read_all(other.regions.read(rows), decode)
        pairs = [(int(i), int(j)) for i, j in np.argwhere(matched)]
        if filter != ALL and not self.filters[filter](own_regions, their_regions, pairs):
            return False
        turned = sorted((j, i) for i, j in pairs)
        return their_filter == ALL or self.filters[their_filter](their_regions, own_regions, turned)


def _one(regions: Regions, place: int) -> Regions:
    """The region at a place, alone; no region if it has no constraint."""
    cells = regions.cells_of(place)
    if not len(cells):
        return _NONE
    return Regions(np.array([0, len(cells)], np.int64), cells)
