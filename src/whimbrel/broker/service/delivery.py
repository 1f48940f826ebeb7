"""Deliver messages of durable subscriptions: pull, acknowledge, and open streams."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from whimbrel.broker.delivery.hub import Hub, Stream
from whimbrel.broker.delivery.message_reader import MessageReader, StoredMessage
from whimbrel.broker.delivery.outbox import Outbox
from whimbrel.broker.delivery.streaming import Read
from whimbrel.broker.requests.errors import Unprocessable
from whimbrel.broker.requests.subscriptions import read_spec
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.service.subscriptions import Subscriptions
from whimbrel.broker.service.tokens import Tokens
from whimbrel.broker.store import Cursor, Store, StoredSubscription
from whimbrel.log import LogReader


@dataclass(eq=False)
class Delivery:
    """Reads and streams messages on behalf of principals. Used in the event loop."""

    _runtime: Runtime
    _hub: Hub
    _reader: MessageReader
    _subscriptions: Subscriptions
    _tokens: Tokens
    _store: Store
    _log: LogReader

    async def pull(
        self, subscription: StoredSubscription, after: Cursor | None, limit: int, wait: float, caller: str = ""
    ) -> tuple[list[StoredMessage], bool]:
        """Messages behind a cursor; if there are none, wait up to `wait` seconds for one."""
        position = after or self._reader.position(subscription)
        deadline = monotonic() + wait
        outbox = Outbox("drop-newest", "sse", messages=1)
        waiter = Stream(outbox, subscription.owner, subscription.id, caller=caller, is_pull=True)
        if wait > 0:
            self._hub.open(waiter, [subscription.number])
        try:
            while True:
                outbox.take()  # before the read: what comes meanwhile must wake us
                found, complete = await self._read(subscription, position, limit)
                left = deadline - monotonic()
                if found or left <= 0 or outbox.closed is not None:
                    return found, complete
                if complete:
                    await outbox.wait(left)
        finally:
            self._hub.close(waiter)

    async def acknowledge(self, subscription: StoredSubscription, cursor: Cursor) -> Cursor:
        """Move the cursor forward. Unprocessable beyond the end of the log."""
        end = self._log.end
        if cursor.offset >= end:
            raise Unprocessable(f"Expected a cursor below {end}, the end of the log, but got {cursor}", "bad-cursor")
        return await self._runtime.in_thread(self._store.acknowledge, subscription.id, cursor)

    def open_stream(self, id: str, principal: Principal, framing: str) -> tuple[StoredSubscription, Stream]:
        """A stream of a durable subscription, which replaces a former one. Messages from now on are pushed to it.

        The subscription is read again: it may have a newer version than when the request began, or none.
        """
        self._tokens.check_current(principal)
        held = self._subscriptions.find(id, principal)
        digest = read_spec(held.spec).digest
        stream = Stream(Outbox("spill", framing), held.owner, held.id, caller=principal.name, digest=digest)
        self._hub.open(stream, [held.number])
        return held, stream

    def reader_of(self, subscription: StoredSubscription) -> Read:
        """A function that reads on from a cursor, for a stream."""
        return lambda after, limit: self._read(subscription, after, limit)

    async def _read(
        self, subscription: StoredSubscription, after: Cursor, limit: int
    ) -> tuple[list[StoredMessage], bool]:
        """Read messages in a thread. A search of older events takes seconds, for which nobody else's reads wait."""
        is_search = subscription.start is not None and after.offset < subscription.first - 1
        in_pool = self._runtime.in_background if is_search else self._runtime.in_thread
        return await in_pool(self._reader.read, subscription, after, limit)
