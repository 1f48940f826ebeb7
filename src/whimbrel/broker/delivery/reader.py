"""Read the messages of a subscription: its own matches from the lists, then those entries from the log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.broker.delivery.history import History
from whimbrel.broker.lists import RunSet
from whimbrel.broker.store import Cursor, Store, StoredSubscription
from whimbrel.log import LogReader

READ_BYTES = 4 << 20
"""A read ends with the message that makes it so large, whatever its limit."""


class StoredMessage(NamedTuple):
    """One message: an event, where it is in the log, and the cursor that acknowledges it."""

    offset: int
    event: bytes

    @property
    def cursor(self) -> str:
        """The cursor behind this message."""
        return str(self.offset)


class MessageReader:
    """Reads messages; any thread. A read costs a search per run and the entries that it returns."""

    def __init__(self, log: LogReader, lists: RunSet, store: Store, history: History) -> None:
        self._log = log
        self._lists = lists
        self._store = store
        self._history = history

    def read(self, subscription: StoredSubscription, after: int, limit: int) -> tuple[list[StoredMessage], bool]:
        """At most `limit` messages behind `after`, in log order; False if a scan of older events is not through.

        There may be more, also where fewer than `limit` come: messages of more than READ_BYTES are not read at once.
        """
        offsets, complete = self._history.find(subscription, after, limit)
        found = offsets.tolist()
        if complete and len(found) < limit:
            found += self._own(subscription, after, limit - len(found))
        return [StoredMessage(row[0], row[3]) for row in self._log.pick(found, READ_BYTES)], complete

    def _own(self, subscription: StoredSubscription, after: int, limit: int) -> list[int]:
        """The offsets of the matches of all versions. Their ranges do not overlap, so they follow each other."""
        found: list[int] = []
        for number, until in self._store.versions(subscription.id):
            if number >= subscription.first and (until is None or until > after) and len(found) < limit:
                found += self._lists.find(number, after, limit - len(found)).tolist()
        return found

    def position(self, subscription: StoredSubscription) -> Cursor:
        """The acknowledged cursor, or the place before the subscription's first message."""
        held = self._store.cursor(subscription.id)
        if held is not None:
            return held
        return Cursor(subscription.first if subscription.start is None else subscription.start - 1)

    def lag(self, subscription: StoredSubscription, after: int) -> int:
        """How many messages behind `after` there are, of those since its creation."""
        return sum(
            len(self._lists.find(number, after))
            for number, until in self._store.versions(subscription.id)
            if number >= subscription.first and (until is None or until > after)
        )

    def newest(self, subscription: StoredSubscription, count: int) -> list[int]:
        """The offsets of the last matches since its creation."""
        found = [
            self._lists.find(number)[-count:]
            for number, _ in self._store.versions(subscription.id)
            if number >= subscription.first
        ]
        joined: list[int] = np.concatenate([np.zeros(0, np.int64), *found])[-count:].tolist()
        return joined
