"""Deliver messages: pull, acknowledge, and open streams of durable and ephemeral subscriptions."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from time import monotonic
from typing import cast

from whimbrel.broker.delivery.hub import Hub, Stream
from whimbrel.broker.delivery.message_reader import MessageReader, StoredMessage
from whimbrel.broker.delivery.outbox import Outbox, Policy
from whimbrel.broker.delivery.streaming import Read
from whimbrel.broker.requests.entries import Change
from whimbrel.broker.requests.errors import Unavailable, Unprocessable
from whimbrel.broker.requests.subscriptions import read_spec
from whimbrel.broker.sequencing.publishing import LiveIndex
from whimbrel.broker.sequencing.request_group import Decide, IgnoredResult
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.service.subscriptions import Subscriptions
from whimbrel.broker.service.tokens import Tokens
from whimbrel.broker.store import Cursor, Store, StoredSubscription
from whimbrel.log import LogReader
from whimbrel.model.filter import Filter
from whimbrel.model.token_rules import constrain


@dataclass(eq=False)
class Delivery:
    """Reads and streams messages on behalf of principals. Used in the event loop."""

    _runtime: Runtime
    _live: LiveIndex
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
        waiter = Stream(outbox, subscription.owner, caller=caller)
        if wait > 0:
            self._hub.open(waiter, [subscription.number])
        try:
            while True:
                outbox.take()  # before the read: what comes meanwhile must wake us
                found, complete = await self._runtime.in_thread(self._reader.read, subscription, position, limit)
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
        return lambda after, limit: self._runtime.in_thread(self._reader.read, subscription, after, limit)

    async def open_ephemeral(self, filter: Filter, principal: Principal, framing: str, policy: Policy) -> Stream:
        """A stream of what a filter matches from now on. It ends with `close_ephemeral`."""
        await self._subscriptions.take_cost(filter, principal.name)
        stream = Stream(Outbox(policy, framing), principal.name, caller=principal.name)
        is_plain = not principal.rules and filter.text is not None and filter.dialect == "sql"
        text = cast("str", filter.text) if is_plain else str(constrain(filter, principal.rules))

        def decide(_: int) -> tuple[list[Change], object]:
            if stream.outbox.closed is None:
                self._tokens.check_rules(principal.name, principal.rules)
                number = self._live.add_ephemeral(text, principal.rules)
                stream.numbers.add(number)
                self._runtime.call(self._hub.open, stream, [number])
            return [], None

        try:
            await self._runtime.decide(decide)
            self._tokens.check_current(principal)
        except BaseException:  # the caller is gone, or may no longer see this
            stream.outbox.close("gone")
            self.close_ephemeral(stream)
            raise
        return stream

    def close_ephemeral(self, stream: Stream) -> None:
        """Close the stream of an ephemeral subscription, and forget its filter."""
        self._hub.close(stream)

        def decide(_: int) -> tuple[list[Change], object]:
            for number in stream.numbers:
                self._live.remove(number)
            return [], None

        with contextlib.suppress(Unavailable):
            self._runtime.submit(Decide(decide, IgnoredResult()))
