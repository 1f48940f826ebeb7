"""The filters that a router knows, and a search for one that covers another."""

from __future__ import annotations

from collections.abc import Callable

from whimbrel.model.covering import CoverIndex, SearchLimits
from whimbrel.model.filter import Filter
from whimbrel.overlay.covering.cover_relation import CoverRelation, covers
from whimbrel.overlay.tree.paths import Interest

_SEARCH = SearchLimits(nodes=512, nearest=32, widest=1, compared=16)
"""A covering filter that is missed costs bandwidth; the nearest of a chain is found first, as `Offers` wants it."""


class CoverTable:
    """Filters by their keys. `find` searches for one of the same tenant that covers another."""

    def __init__(self) -> None:
        self._interests: dict[bytes, Interest] = {}
        self._indexes: dict[str, CoverIndex[bytes]] = {}
        self._relation: CoverRelation | None = None

    def __getitem__(self, key: bytes) -> Interest:
        return self._interests[key]

    @property
    def relation(self) -> CoverRelation:
        """All pairs of a filter and one that it covers: made when first asked for, and current from then on."""
        if self._relation is None:
            self._relation = CoverRelation(self._interests.values())
        return self._relation

    def add(self, interest: Interest) -> None:
        """Add a filter, unless it is there."""
        if interest.key in self._interests:
            return
        self._interests[interest.key] = interest
        if interest.tenant not in self._indexes:
            self._indexes[interest.tenant] = CoverIndex(self._filter, _SEARCH, covers)
        self._indexes[interest.tenant].add(interest.key)
        if self._relation is not None:
            self._relation.add(interest)

    def remove(self, key: bytes) -> None:
        """Forget a filter."""
        tenant = self._interests[key].tenant
        self._indexes[tenant].remove(key)
        if not self._indexes[tenant]:
            del self._indexes[tenant]
        del self._interests[key]
        if self._relation is not None:
            self._relation.remove(key)

    def find(self, key: bytes, is_wanted: Callable[[bytes], bool]) -> bytes | None:
        """A filter that covers this one and `is_wanted`, a near one before a wide one; None if none was found."""
        return self._indexes[self._interests[key].tenant].find(key, is_wanted)

    def _filter(self, key: bytes) -> Filter:
        return self._interests[key].filter
