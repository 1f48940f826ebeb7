"""Which pairs of publication and subscription begin to match when one side changes (ALGORITHMS 19.5, corrected).

Stated for a changed member and the members of the other role; both roles are alike. A pair matches iff each region of
one matches some region of the other, and the other way round. Where the number of regions stays the same, a pair that
begins to match has two regions that begin to (the filter is monotone), and these the index finds. Where regions were
added or removed (ERR-19e), every pair that matches now has a match of the first new region. What is found is checked
before and after, so nobody is told twice.
"""

from __future__ import annotations

import numpy as np

from whimbrel.spaces.definitions import Definitions
from whimbrel.spaces.filters import ALL, Described, Filters
from whimbrel.spaces.layout import Int32s, Regions
from whimbrel.spaces.members import COMPLEX, HIDDEN, Members

_NONE = Regions.none(0)
_ZERO = np.zeros(1, np.int32)


class Matching:
    """Questions about pairs, on behalf of members of one role to those of the other."""

    def __init__(self, definitions: Definitions, filters: Filters) -> None:
        self.definitions = definitions
        self.filters = filters

    def begun(
        self, other: Members, numbers: Int32s, olds: Regions, news: Regions, need: int = 0
    ) -> tuple[Int32s, Int32s]:
        """For members with one region and the usual filter: pairs (own number, other number) that begin to match.

        Only members of the other side with all flags of `need` count.
        """
        if other.all_with(need):
            need = 0
        own, others = other.regions.search(olds, news, need, numbers, other.owner)
        if not other.any_with(COMPLEX):
            return own, others
        simple = other.flags[others] & COMPLEX == 0
        asked = set(zip(own[~simple].tolist(), others[~simple].tolist(), strict=True))
        for number in other.filters:
            if int(other.flags[number]) & need == need:
                asked |= {(each, number) for each in numbers.tolist()}
        place = {number: place for place, number in enumerate(numbers.tolist())}
        held = [
            pair
            for pair in asked
            if self._begins(other, pair[1], _one(olds, place[pair[0]]), _one(news, place[pair[0]]), ALL)
        ]
        more = np.array(held, np.int32).reshape(-1, 2)
        return np.concatenate([own[simple], more[:, 0]]), np.concatenate([others[simple], more[:, 1]])

    def begun_by(self, other: Members, old: Regions, new: Regions, filter: str, need: int = 0) -> Int32s:
        """The same for one member with any number of regions, none included, and any filter."""
        count = len(new.start) - 1
        if count == 0:
            return np.zeros(0, np.int32)
        if filter == ALL and count == len(old.start) - 1:
            asked = old, new
        elif filter == ALL:
            asked = Regions.none(1), _one(new, 0)
        else:
            asked = Regions.none(count), new
        owners = set(np.unique(other.regions.search(*asked, need, slots=other.owner)[1]).tolist())
        owners |= {number for number in other.filters if int(other.flags[number]) & need == need}
        return np.array([each for each in sorted(owners) if self._begins(other, each, old, new, filter)], np.int32)

    def matched(self, other: Members, regions: Regions, filter: str) -> Int32s:
        """All members of the other side that match, hidden ones left out."""
        if filter == ALL and len(regions.start) == 2:
            found = self.begun(other, _ZERO, Regions.none(1), regions)[1]
        else:
            found = self.begun_by(other, _NONE, regions, filter)
        visible: Int32s = found[other.flags[found] & HIDDEN == 0]
        return visible

    def _begins(self, other: Members, number: int, old: Regions, new: Regions, filter: str) -> bool:
        return self.holds(other, number, new, filter) and not self.holds(other, number, old, filter)

    def holds(self, other: Members, number: int, regions: Regions, filter: str) -> bool:
        """Whether regions with a filter match a member of the other side."""
        slots = other.slots(number)
        matched = other.regions.matrix(regions, slots)
        if not matched.any():
            return False
        theirs = other.filters.get(number, ALL)
        if filter == ALL and not matched.any(axis=1).all():
            return False
        if theirs == ALL and not matched.any(axis=0).all():
            return False
        if filter == theirs == ALL:
            return True
        own_regions, their_regions = self._shown(regions), self._shown(other.regions.read(slots))
        pairs = [(int(i), int(j)) for i, j in np.argwhere(matched)]
        if filter != ALL and not self.filters[filter](own_regions, their_regions, pairs):
            return False
        turned = sorted((j, i) for i, j in pairs)
        return theirs == ALL or self.filters[theirs](their_regions, own_regions, turned)

    def _shown(self, regions: Regions) -> Described:
        return [self.definitions.decode(regions.row(number)) for number in range(len(regions.start) - 1)]


def _one(regions: Regions, place: int) -> Regions:
    """One of several regions, or none if it has no constraint."""
    cells = regions.row(place)
    if not len(cells):
        return _NONE
    return Regions(np.array([0, len(cells)], np.int64), cells)
