"""Read the messages of a subscription: its own matches from the lists, then those entries from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from whimbrel.broker.delivery.history import History
from whimbrel.broker.lists import RunSet
from whimbrel.broker.requests.errors import Truncated
from whimbrel.broker.store import Cursor, Store, StoredSubscription
from whimbrel.log import EVENT, BelowFloor, LogReader
from whimbrel.log.reader import Row

READ_BYTES = 4 << 20
"""Bytes at which a read ends, whatever its limit of messages: the message that reaches them is the last one."""


class StoredMessage(NamedTuple):
    """One message: an event, where and when it came into the log, and the cursor that acknowledges it.

    An entry other than an event may mean several messages: each is a `part` of it.
    """

    offset: int
    event: bytes
    part: int | None = None
    time: int = 0  # microseconds since 1970 UTC

    @property
    def cursor(self) -> Cursor:
        """The cursor behind this message."""
        return Cursor(self.offset, self.part)


Render: TypeAlias = Callable[[Row, int, StoredSubscription, int], Iterator[StoredMessage]]
"""The messages that an entry, which is not an event, means for a version (its number) of a subscription, in order.

The last argument is the first part that is wanted.
"""


@dataclass(eq=False)
class MessageReader:
    """Reads messages; any thread. A read costs a search per run and the entries that it returns.

    `renders` has a function for each kind of entries, other than events, that become messages.
    """

    _log: LogReader
    _lists: RunSet
    _store: Store
    _history: History
    _renders: Mapping[int, Render]

    def read(self, subscription: StoredSubscription, after: Cursor, limit: int) -> tuple[list[StoredMessage], bool]:
        """At most `limit` messages behind `after`, in log order; False if a scan of older events is not through.

        There may be more, also where fewer than `limit` come: messages of more than READ_BYTES are not read at once.
        Truncated if messages behind `after` are no longer in the log.
        """
        behind = after.offset if after.part is None else after.offset - 1
        self._check_floor(subscription, behind)
        try:
            while True:
                offsets, complete = self._history.find(subscription, behind, limit)
                found = [(offset, -1) for offset in offsets.tolist()]
                if complete and len(found) < limit:
                    found += self._own(subscription, behind, limit - len(found))
                self._check_floor(subscription, behind)  # a search passes over what was truncated before it
                rows = self._log.pick([offset for offset, _ in found], READ_BYTES)
                messages = self._rendered(zip(rows, found, strict=False), subscription, after, limit)
                if messages or not rows:
                    return messages, complete
                behind = rows[-1][0]  # all messages of these entries lie before the cursor
        except BelowFloor as error:  # truncated meanwhile
            raise Truncated(behind, error.floor) from None

    def _rendered(
        self, found: Iterable[tuple[Row, tuple[int, int]]], subscription: StoredSubscription, after: Cursor, limit: int
    ) -> list[StoredMessage]:
        """The messages of entries, each with its offset and the number that matched it: at most `limit`."""
        messages: list[StoredMessage] = []
        left = READ_BYTES
        for row, (_, number) in found:
            for message in self._messages(row, number, subscription, after):
                messages.append(message)
                left -= len(message.event)
                if left <= 0 or len(messages) == limit:
                    return messages
        return messages

    def _check_floor(self, subscription: StoredSubscription, after: int) -> None:
        """Raise Truncated if messages behind `after` are no longer in the log."""
        floor = self._log.floor
        if after + 1 < floor and self._has_lost(subscription, after, floor):
            raise Truncated(after, floor)

    def _has_lost(self, subscription: StoredSubscription, after: int, floor: int) -> bool:
        """Whether truncation deleted messages behind `after`; assumed if the store has forgotten a version."""
        versions = self._store.versions(subscription.id)
        if self._history.has_lost(subscription, after, floor):
            return True
        if not versions or (versions[0][0] > subscription.first and after < versions[0][0] - 1):
            return True
        return any(self._lists.has_lost(number, after) for number, until in versions if until is None or until > after)

    def _messages(
        self, row: Row, number: int, subscription: StoredSubscription, after: Cursor
    ) -> Iterable[StoredMessage]:
        """The messages of an entry behind a cursor, which is bare or in front of all other entries."""
        is_started = row[0] == after.offset and after.part is not None
        if row[2] == EVENT:
            return () if is_started else (StoredMessage(row[0], row[3], time=row[1]),)
        rendered = self._renders[row[2]](row, number, subscription, (after.part or 0) + 1 if is_started else 0)
        return (message._replace(time=row[1]) for message in rendered)

    def _own(self, subscription: StoredSubscription, after: int, limit: int) -> list[tuple[int, int]]:
        """The offsets of the matches of all versions, each with the version's number.

        The ranges of versions do not overlap, so they follow each other.
        """
        found: list[tuple[int, int]] = []
        for number, until in self._store.versions(subscription.id):
            if number >= subscription.first and (until is None or until > after) and len(found) < limit:
                offsets = self._lists.find(number, after, limit - len(found)).tolist()
                found += [(offset, number) for offset in offsets]
        return found

    def position(self, subscription: StoredSubscription) -> Cursor:
        """The acknowledged cursor, or the place before the subscription's first message."""
        held = self._store.cursor(subscription.id)
        if held is not None:
            return held
        if subscription.on != "events":  # its first messages are those of its own entry
            return Cursor(subscription.first - 1)
        return Cursor(subscription.first if subscription.start is None else subscription.start - 1)

    def lag(self, subscription: StoredSubscription, after: int) -> int:
        """Count the messages behind `after`, without matches that are older than the subscription."""
        return sum(
            self._lists.count(number, after)
            for number, until in self._store.versions(subscription.id)
            if number >= subscription.first and (until is None or until > after)
        )
