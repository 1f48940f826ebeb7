"""Streams of a filter on events or on publications, on behalf of principals. They live with their connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import time_ns
from typing import cast

from whimbrel.broker.delivery.hub import Hub, Stream
from whimbrel.broker.delivery.outbox import Outbox
from whimbrel.broker.publications.publication_topic import PublicationTopic
from whimbrel.broker.publications.rendering import PublicationMessages
from whimbrel.broker.publications.watchers import FIRST_NUMBER
from whimbrel.broker.requests.entries import Change
from whimbrel.broker.requests.errors import Unavailable
from whimbrel.broker.sequencing.publishing import LiveIndex
from whimbrel.broker.sequencing.request_group import Decide, IgnoredResult
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.quotas import Quotas
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.service.subscriptions import Subscriptions
from whimbrel.broker.service.tokens import Tokens
from whimbrel.broker.store import Cursor
from whimbrel.model.filter import Filter
from whimbrel.model.token_rules import constrain

RETRY_SECONDS = 1.0
"""When the end of a stream is tried again that the queue of the sequencer did not take."""


@dataclass(eq=False)
class EphemeralStreams:
    """Opens and closes streams of a filter. Neither log nor store has anything of them. Used in the event loop."""

    _runtime: Runtime
    _live: LiveIndex
    _topic: PublicationTopic
    _hub: Hub
    _subscriptions: Subscriptions
    _quotas: Quotas
    _tokens: Tokens
    _rendered: PublicationMessages

    async def open_on_events(self, filter: Filter, principal: Principal, outbox: Outbox) -> Stream:
        """A stream of the events that a filter matches from now on. It ends with `close`."""
        is_plain = not principal.rules and filter.text is not None and filter.dialect == "sql"
        text = cast("str", filter.text) if is_plain else str(constrain(filter, principal.rules))

        def add() -> tuple[int, list[int]]:
            return self._live.add_ephemeral(text, principal.rules), []

        return (await self._open(filter, principal, outbox, add))[0]

    async def open_on_publications(
        self, filter: Filter, principal: Principal, outbox: Outbox, leave: bool
    ) -> tuple[Stream, Iterator[tuple[Cursor, bytes]]]:
        """A stream of the publications that a filter matches, and messages about those that it matches already.

        It ends with `close`.
        """
        constrained = constrain(filter, principal.rules)

        def add() -> tuple[int, list[int]]:
            return self._topic.watch(principal.tenant, constrained, principal.rules, leave)

        stream, inside = await self._open(filter, principal, outbox, add)
        return stream, self._rendered.entered(inside, principal.tenant, time_ns() // 1_000)

    async def _open(
        self, filter: Filter, principal: Principal, outbox: Outbox, add: Callable[[], tuple[int, list[int]]]
    ) -> tuple[Stream, list[int]]:
        """Let the sequencer add a filter, which gives it a number, and push what matches it to a stream."""
        stream = Stream(outbox, principal.name, caller=principal.name, tenant=principal.tenant)
        await self._subscriptions.take_cost(filter, principal.name, stream)

        def decide(_: int) -> tuple[list[Change], object]:
            if outbox.closed is not None:
                return [], []
            self._tokens.check_rules(principal.name, principal.rules)
            number, inside = add()
            stream.numbers.add(number)
            self._runtime.call(self._hub.open, stream, [number])
            return [], inside

        try:
            inside = cast("list[int]", await self._runtime.decide(decide))
            self._tokens.check_current(principal)
        except BaseException:  # the caller is gone, or may no longer see this
            outbox.close("gone")
            self.close(stream)
            raise
        return stream, inside

    def close(self, stream: Stream) -> None:
        """Close a stream, and forget its filter."""
        self._hub.close(stream)
        self._quotas.give_back(stream)

        def decide(_: int) -> tuple[list[Change], object]:
            for number in stream.numbers:
                if number < FIRST_NUMBER:
                    self._topic.unwatch(stream.tenant, number)
                else:
                    self._live.remove(number)
            return [], None

        try:
            self._runtime.submit(Decide(decide, IgnoredResult()))
        except Unavailable:  # the filter must not stay: every event would be matched with it
            self._runtime.loop.call_later(RETRY_SECONDS, self.close, stream)
