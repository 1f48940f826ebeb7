"""Pairs that are remembered: subscriptions with hysteresis or dwell.

For most subscriptions the current state of a publication says whether it matches, and nothing else is kept. Two options
need a memory of each (subscription, publication) pair:

- hysteresis: a publication enters when it matches the filter, and is out when it no longer matches a wider filter;
- dwell: a publication leaves only after it has been out for some seconds without a break.

`DwellPairs` is that memory. It knows nothing of filters: the caller says what a publication matches now, and gets back
whether that is an enter or a leave.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

SubscriptionT = TypeVar("SubscriptionT", bound="int | str")
PublicationT = TypeVar("PublicationT", bound="int | str")


_FEW = 1_024
"""Entries of the heap that are not worth a look at which of them count."""


class DwellPairs(Generic[SubscriptionT, PublicationT]):
    """Which publications are inside which subscriptions, and when those that are out will leave.

    >>> pairs = DwellPairs[str, str]()
    >>> pairs.add("near", dwell=10)
    >>> pairs.enter("near", "car"), pairs.enter("near", "car")
    (True, False)
    >>> pairs.exit("near", "car", now=100), pairs.next_due
    (False, 110)
    >>> pairs.expire(109), pairs.expire(110), pairs.next_due
    ([], [('near', 'car')], None)
    """

    def __init__(self) -> None:
        self._dwell: dict[SubscriptionT, float] = {}
        self._inside: dict[SubscriptionT, dict[PublicationT, float | None]] = {}
        """By subscription, the publications inside: when each leaves, None if it is not out."""
        self._containing: dict[PublicationT, dict[SubscriptionT, None]] = {}
        """By publication, the subscriptions that it is inside of."""
        self.changed: set[tuple[SubscriptionT, PublicationT]] | None = None
        """The pairs that changed, for an owner who set it to a set and empties it; None if nobody wants to know."""
        self._heap: list[tuple[float, SubscriptionT, PublicationT]] = []
        """Times at which pairs leave, the earliest first. An entry counts only if `_inside` has the same time."""
        self._most = _FEW
        """Entries of the heap, at most, before those that do not count are dropped."""

    def __contains__(self, subscription: object) -> bool:
        return subscription in self._dwell

    def add(self, subscription: SubscriptionT, dwell: float = 0.0) -> None:
        """Remember the pairs of a subscription; `dwell` is in seconds, 0 for none."""
        self._dwell[subscription] = dwell
        self._inside[subscription] = {}

    def remove(self, subscription: SubscriptionT) -> None:
        """Forget a subscription and its pairs."""
        for publication in list(self._inside[subscription]):
            self._forget(subscription, publication)
        del self._dwell[subscription], self._inside[subscription]

    def inside(self, subscription: SubscriptionT) -> Mapping[PublicationT, float | None]:
        """The publications inside a subscription: when each leaves, None if it is not out."""
        return self._inside[subscription]

    def containing(self, publication: PublicationT) -> list[SubscriptionT]:
        """The subscriptions that a publication is inside of."""
        return list(self._containing.get(publication, ()))

    def enter(self, subscription: SubscriptionT, publication: PublicationT) -> bool:
        """Note that the publication matches the filter. Return whether it was not inside before."""
        is_new = publication not in self._inside[subscription]
        self._set(subscription, publication, None)
        return is_new

    def stay(self, subscription: SubscriptionT, publication: PublicationT) -> None:
        """Note that the publication matches only the wider filter: if it is inside it stays, and is no longer due."""
        if publication in self._inside[subscription]:
            self._set(subscription, publication, None)

    def exit(self, subscription: SubscriptionT, publication: PublicationT, now: float) -> bool:
        """Note that the publication matches neither filter. Return whether it leaves now; with dwell it waits."""
        inside = self._inside[subscription]
        if publication not in inside or inside[publication] is not None:
            return False
        dwell = self._dwell[subscription]
        if dwell > 0:
            self._wait(subscription, publication, now + dwell)
            return False
        self._forget(subscription, publication)
        return True

    def delete(self, publication: PublicationT) -> list[SubscriptionT]:
        """Forget a publication and return the subscriptions that it was inside of."""
        found = self.containing(publication)
        for subscription in found:
            self._forget(subscription, publication)
        return found

    def expire(self, now: float) -> list[tuple[SubscriptionT, PublicationT]]:
        """Remove the pairs whose dwell is over and return them, in the order in which they leave."""
        found: list[tuple[SubscriptionT, PublicationT]] = []
        while (due := self.next_due) is not None and due <= now:
            _, subscription, publication = heapq.heappop(self._heap)
            self._forget(subscription, publication)
            found.append((subscription, publication))
        return found

    def expire_one(self, subscription: SubscriptionT, publication: PublicationT, now: float) -> bool:
        """Remove one pair if its dwell is over; return whether it was."""
        due = self._inside[subscription].get(publication)
        if due is None or due > now:
            return False
        self._forget(subscription, publication)
        return True

    @property
    def next_due(self) -> float | None:
        """When the next pair leaves; None if no pair is out."""
        while self._heap:
            if self._counts(*self._heap[0]):
                return self._heap[0][0]
            heapq.heappop(self._heap)
        return None

    def __iter__(self) -> Iterator[tuple[SubscriptionT, PublicationT, float | None]]:
        """All pairs, each with the time at which it leaves."""
        for subscription, inside in self._inside.items():
            for publication, due in inside.items():
                yield subscription, publication, due

    def restore(self, pairs: Iterable[tuple[SubscriptionT, PublicationT, float | None]]) -> None:
        """Take over pairs that iteration gave before; pairs of subscriptions that were not added are left out."""
        for subscription, publication, due in pairs:
            if subscription not in self._inside:
                continue
            if due is None:
                self._set(subscription, publication, None)
            else:
                self._wait(subscription, publication, due)

    def _wait(self, subscription: SubscriptionT, publication: PublicationT, due: float) -> None:
        self._set(subscription, publication, due)
        heapq.heappush(self._heap, (due, subscription, publication))
        if len(self._heap) > self._most:  # pairs that go out and come back again and again leave entries behind
            self._heap = [entry for entry in set(self._heap) if self._counts(*entry)]
            heapq.heapify(self._heap)
            self._most = 2 * len(self._heap) + _FEW

    def _counts(self, due: float, subscription: SubscriptionT, publication: PublicationT) -> bool:
        return self._inside.get(subscription, {}).get(publication) == due

    def _set(self, subscription: SubscriptionT, publication: PublicationT, due: float | None) -> None:
        inside = self._inside[subscription]
        if publication in inside and inside[publication] == due:
            return
        inside[publication] = due
        self._containing.setdefault(publication, {})[subscription] = None
        if self.changed is not None:
            self.changed.add((subscription, publication))

    def _forget(self, subscription: SubscriptionT, publication: PublicationT) -> None:
        del self._inside[subscription][publication]
        holders = self._containing[publication]
        del holders[subscription]
        if not holders:
            del self._containing[publication]
        if self.changed is not None:
            self.changed.add((subscription, publication))

    def _check(self) -> None:
        """Assert that both maps agree, and that every pair that is out has an entry in the heap."""
        entries = {(subscription, publication, due) for due, subscription, publication in self._heap}
        assert self._dwell.keys() == self._inside.keys()
        for pair in self:
            assert pair[2] is None or pair in entries
            assert pair[0] in self._containing[pair[1]]
        assert sum(map(len, self._containing.values())) == sum(map(len, self._inside.values()))
