"""Publications and subject spaces together, as the sequencer and the registry of subscriptions use them."""

from __future__ import annotations

from collections.abc import Callable
from time import time

from whimbrel.broker.publications.publication_topic import PublicationTopic
from whimbrel.broker.publications.space_topic import SpaceTopic
from whimbrel.broker.requests.entries import SubscriptionPut
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.sequencing.request_group import Batch, RequestGroup
from whimbrel.broker.store import Store, StoredSubscription
from whimbrel.model.filter import Filter


class StatefulTopics:
    """Both kinds of topics. Only the sequencer uses it, but for `is_due`.

    Every group begins with what is due: so the time of a group is never behind an expiry that it has not told.
    """

    def __init__(self, settings: Settings, timestamps: frozenset[str], store: Store) -> None:
        self.clock: Callable[[], float] = time
        self.publications = PublicationTopic(settings, timestamps, store)
        self.spaces = SpaceTopic(settings, store)
        self._now = 0.0

    @property
    def is_due(self) -> bool:
        """Whether a publication is to leave because its dwell is over."""
        now = self.clock()
        due = self.publications.next_due, self.spaces.next_due
        return any(one is not None and one <= now for one in due)

    def begin(self, group: RequestGroup) -> None:
        """Begin a group: set its time, and append entries for dwells that are over."""
        self._now = max(self._now, self.clock())
        self.publications.expire(group, self._now)
        self.spaces.expire(group, self._now)

    def complete(self, group: RequestGroup) -> None:
        """Put what new versions are told into their log entries, once the changes of a group are decided."""
        self.publications.complete(group)
        self.spaces.complete(group)

    def wake(self, group: RequestGroup, batches: list[Batch]) -> None:
        """Decide the batch of the timer, which has no content: `begin` has done the work."""
        group.answers += [(batch.result, None) for batch in batches]

    def admit(self, number: int, first: int, put: SubscriptionPut, filter: Filter | None) -> None:
        """Add a version of a subscription on publications or on a space, or raise."""
        self._topic(put.on).admit(number, first, put, filter)

    def end(self, held: StoredSubscription) -> None:
        """Remove a subscription on publications or on a space."""
        self._topic(held.on).end(held)

    def _topic(self, on: str) -> PublicationTopic | SpaceTopic:
        return self.publications if on == "publications" else self.spaces
