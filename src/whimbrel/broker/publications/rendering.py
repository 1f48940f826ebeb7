"""From entries of the log to messages: CloudEvents that say who entered, left or was deleted.

The id of such an event is its cursor and kind, so that a message that comes again is recognised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

import msgspec

from whimbrel.broker.delivery.message_reader import Render, StoredMessage
from whimbrel.broker.publications.region_bodies import allows_regions
from whimbrel.broker.requests import entries
from whimbrel.broker.requests.entries import KIND_OF, DwellExpiry, PublicationChange, SubscriptionPut
from whimbrel.broker.requests.subscriptions import time_text
from whimbrel.broker.sequencing.request_group import Notice
from whimbrel.broker.store import Cursor, Store, StoredSubscription
from whimbrel.log import LogReader
from whimbrel.log.errors import BelowFloor
from whimbrel.log.match_list import decode
from whimbrel.log.reader import Row
from whimbrel.model.token_rules import allows_text

KINDS = {"e": "enter", "l": "leave", "d": "delete"}
EXPIRED_AT_ONCE = 1_000
"""Pairs of one entry of expired dwells, at most."""
_CHUNK = 128  # states that are picked from the log at a time
_encode = msgspec.json.Encoder().encode


def notification(cursor: Cursor, kind: str, source: str, key: str, time: int, data: bytes | None) -> bytes:
    """The CloudEvent of a transition; `time` is in microseconds since 1970.

    >>> notification(Cursor(7), "enter", "/publications", "taxi 7", 0, b'{"x": 1}').decode()[:70]
    '{"specversion":"1.0","id":"7-enter","source":"/publications","type":"w'
    """
    event: dict[str, object] = {
        "specversion": "1.0",
        "id": f"{cursor}-{kind}",
        "source": source,
        "type": f"whimbrel.{kind}",
        "subject": key,
        "time": time_text(time),
    }
    if data is not None:
        event |= {"datacontenttype": "application/json", "data": msgspec.Raw(data)}
    return _encode(event)


def change_message(
    offset: int, change: PublicationChange, kinds: Mapping[int, str], hidden: Set[int], number: int
) -> bytes | None:
    """What an update means for a version that it is told to; None for versions that may not see the new state."""
    if number in hidden:
        return None
    source = source_of(change.space)
    return notification(Cursor(offset), kinds[number], source, change.key, change.time, change.content)


def watched_message(
    offset: int,
    change: PublicationChange,
    kinds: Mapping[int, str],
    constrained: Set[int],
    durable: Notice | None,
    number: int,
) -> bytes | None:
    """What an update means for a watcher; for others it is what `durable` says.

    A watcher with rules is told of a leave without the new state, which may be somebody else's.
    """
    if number not in kinds:
        return None if durable is None else durable(number)
    is_hidden = kinds[number] == "leave" and number in constrained
    state = None if is_hidden else change.content
    return notification(Cursor(offset), kinds[number], source_of(change.space), change.key, change.time, state)


def source_of(space: str) -> str:
    """The source of messages about the publications of a space, or about others."""
    return f"/spaces/{space}" if space else "/publications"


class PublicationMessages:
    """Renders entries about publications. `renders` is what the reader of messages needs."""

    def __init__(self, log: LogReader, store: Store, timestamps: frozenset[str]) -> None:
        self._log = log
        self._store = store
        self._timestamps = timestamps
        self.renders: dict[int, Render] = {
            KIND_OF[SubscriptionPut]: self._of_subscription,
            KIND_OF[PublicationChange]: self._of_change,
            KIND_OF[DwellExpiry]: self._of_expiry,
        }

    def _of_change(self, row: Row, number: int, subscription: StoredSubscription, _: int) -> Iterator[StoredMessage]:
        change = entries.decode(row[2], row[3])
        assert isinstance(change, PublicationChange)
        letter = change.kinds if len(change.kinds) == 1 else change.kinds[decode(row[4] or b"").index(number)]
        state = None if change.content is None else self._seen(change.content, subscription)
        event = notification(Cursor(row[0]), KINDS[letter], source_of(change.space), change.key, change.time, state)
        yield StoredMessage(row[0], event)

    def _of_expiry(self, row: Row, number: int, subscription: StoredSubscription, skip: int) -> Iterator[StoredMessage]:
        expiry = entries.decode(row[2], row[3])
        assert isinstance(expiry, DwellExpiry)
        for part, (_, key, offset, told) in enumerate(expiry.pairs):
            if told == number and part >= skip:
                found = self._states([offset], expiry.tenant, expiry.space).get(offset)
                state = None if found is None else self._seen(found[1], subscription)
                event = notification(Cursor(row[0], part), "leave", source_of(expiry.space), key, row[1], state)
                yield StoredMessage(row[0], event, part)

    def _of_subscription(
        self, row: Row, number: int, subscription: StoredSubscription, skip: int
    ) -> Iterator[StoredMessage]:
        put = entries.decode(row[2], row[3])
        assert isinstance(put, SubscriptionPut)
        told = [(offset, "enter") for offset in decode(put.entered)] + [
            (offset, "leave") for offset in decode(put.left)
        ]
        space = put.on.removeprefix("spaces/") if put.on.startswith("spaces/") else ""
        for start in range(skip, len(told), _CHUNK):
            chunk = told[start : start + _CHUNK]
            states = self._states([offset for offset, _ in chunk], put.tenant, space)
            for part, (offset, kind) in enumerate(chunk, start):
                if offset in states:  # else it was replaced after the log had forgotten it
                    key, state = states[offset]
                    seen = self._seen(state, subscription)
                    event = notification(Cursor(row[0], part), kind, source_of(space), key, row[1], seen)
                    yield StoredMessage(row[0], event, part)

    def entered(self, offsets: list[int], tenant: str, time: int) -> Iterator[tuple[Cursor, bytes]]:
        """Messages for a watcher that begins: the publications that entries at some offsets gave enter."""
        for start in range(0, len(offsets), _CHUNK):
            chunk = offsets[start : start + _CHUNK]
            states = self._states(chunk, tenant, "")
            for offset in chunk:
                if offset in states:
                    key, state = states[offset]
                    yield Cursor(offset), notification(Cursor(offset), "enter", source_of(""), key, time, state)

    def _states(self, offsets: list[int], tenant: str, space: str) -> dict[int, tuple[str, bytes]]:
        """The keys and states that entries gave: from the log, or from the store where the log no longer has them."""
        floor = self._log.floor
        found: dict[int, tuple[str, bytes]] = {}
        try:
            for row in self._log.pick([offset for offset in offsets if offset >= floor]):
                change = entries.decode(row[2], row[3])
                assert isinstance(change, PublicationChange)
                found[row[0]] = change.key, bytes(change.state)
        except BelowFloor:  # the log was truncated meanwhile
            pass
        older = [offset for offset in offsets if offset not in found]
        if older:
            kept = self._store.publications_at(tenant, space, older)
            found |= {one.offset: (one.key, one.state) for one in kept}
        return found

    def _seen(self, state: bytes, subscription: StoredSubscription) -> bytes | None:
        """The state, if the rules of the subscription's token allow it: one that left may be somebody else's now."""
        rules = subscription.decode_rules()
        if subscription.on.startswith("spaces/"):
            return state if allows_regions(rules, state) else None
        return state if allows_text(rules, state, self._timestamps) else None
