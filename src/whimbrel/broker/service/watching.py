"""Streams of a filter on publications, on behalf of principals. Nothing of them is kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from time import time_ns
from typing import cast

from whimbrel.broker.delivery.hub import Hub, Stream
from whimbrel.broker.delivery.outbox import Outbox, Policy
from whimbrel.broker.publications.publication_topic import PublicationTopic
from whimbrel.broker.publications.rendering import PublicationMessages
from whimbrel.broker.requests.entries import Change
from whimbrel.broker.requests.errors import Unavailable
from whimbrel.broker.sequencing.request_group import Decide, IgnoredResult
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.service.subscriptions import Subscriptions
from whimbrel.broker.service.tokens import Tokens
from whimbrel.broker.store import Cursor
from whimbrel.model.filter import Filter
from whimbrel.model.token_rules import constrain


@dataclass(eq=False)
class Watching:
    """Opens and closes watchers of publications. Used in the event loop."""

    _runtime: Runtime
    _hub: Hub
    _subscriptions: Subscriptions
    _tokens: Tokens
    _topic: PublicationTopic
    _rendered: PublicationMessages

    async def open(
        self, filter: Filter, principal: Principal, framing: str, policy: Policy, leave: bool
    ) -> tuple[Stream, Iterator[tuple[Cursor, bytes]]]:
        """A stream of the publications that a filter matches, and messages about those that it matches already.

        It ends with `close`.
        """
        await self._subscriptions.take_cost(filter, principal.name)
        stream = Stream(Outbox(policy, framing), principal.name, caller=principal.name, tenant=principal.tenant)
        constrained = constrain(filter, principal.rules)

        def decide(_: int) -> tuple[list[Change], object]:
            if stream.outbox.closed is not None:
                return [], []
            self._tokens.check_rules(principal.name, principal.rules)
            number, inside = self._topic.watch(principal.tenant, constrained, principal.rules, leave)
            stream.numbers.add(number)
            self._runtime.call(self._hub.open, stream, [number])
            return [], inside

        try:
            inside = cast("list[int]", await self._runtime.decide(decide))
            self._tokens.check_current(principal)
        except BaseException:  # the caller is gone, or may no longer see this
            stream.outbox.close("gone")
            self.close(stream)
            raise
        return stream, self._rendered.entered(inside, principal.tenant, time_ns() // 1_000)

    def close(self, stream: Stream) -> None:
        """Forget a watcher."""
        self._hub.close(stream)

        def decide(_: int) -> tuple[list[Change], object]:
            for number in stream.numbers:
                self._topic.unwatch(stream.tenant, number)
            return [], None

        with contextlib.suppress(Unavailable):
            self._runtime.submit(Decide(decide, IgnoredResult()))
