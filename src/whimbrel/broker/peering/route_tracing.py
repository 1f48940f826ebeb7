"""Explains a route through real brokers: each says what it would do with an event, and asks the next ones."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import msgspec

from whimbrel.broker.peering import wire
from whimbrel.broker.peering.link import Link
from whimbrel.broker.peering.peering import Peering
from whimbrel.broker.peering.routing import LinkRouter
from whimbrel.model.errors import LimitExceeded, WhimbrelError
from whimbrel.overlay.router.trace import as_object, trace_hop
from whimbrel.overlay.tree.prefix import MalformedPrefix, Prefix

ANSWER_SECONDS = 5.0
"""How long a broker waits for those behind it."""
OPEN_TRACES = 64
"""Traces that peers may ask for at one time; others get no answer."""


class Tracer:
    """Traces of one broker. Runs in the event loop."""

    def __init__(self, peering: Peering) -> None:
        self._peering = peering
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        peering.on_trace = self._take

    async def trace(self, raw: bytes, prefix: bytes | None = None, arrival: str | None = None) -> list[dict[str, Any]]:
        """The hops of an event from here on. It came from the peer `arrival` with a prefix, or is published here."""
        names = self._peering.region().names

        def name_of(id: str) -> str:
            return names.get(id) or id[:8]

        hop, onward, forwarded = await self._peering.run(lambda router: _hop(router, raw, prefix, arrival))
        hop["router"] = self._peering.name
        hop["from"] = None if arrival is None else name_of(arrival)
        hop["forwarded"] = {name_of(id): reason for id, reason in hop["forwarded"].items()}
        hop["stopped"] = [name_of(id) for id in hop["stopped"]]
        hop["delivered"] = {id.rpartition("@")[0]: text for id, text in hop["delivered"].items()}
        hops = [hop]
        answers = await asyncio.gather(*(self._ask(peer, onward, raw) for peer in forwarded))
        for peer, answer in zip(forwarded, answers, strict=True):
            gone = {"router": name_of(peer), "from": self._peering.name, "by": "unreachable"}
            hops += [gone] if answer is None else answer
        return hops

    async def _ask(self, peer: str, prefix: bytes, raw: bytes) -> list[dict[str, Any]] | None:
        session = self._peering.sessions.get(peer)
        if session is None:
            return None
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        session.say(wire.Trace(number, prefix, raw))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return msgspec.json.decode(await answer, type=list[dict[str, Any]])
        except (TimeoutError, msgspec.DecodeError):
            return None
        finally:
            del self._waiting[number]

    def _take(self, link: Link, message: wire.Trace | wire.TraceAnswer) -> None:
        if isinstance(message, wire.TraceAnswer):
            answer = self._waiting.get(message.number)
            if answer is not None and not answer.done():
                answer.set_result(message.hops)
        elif not link.rules and len(self._tasks) < OPEN_TRACES:  # a trace shows others' filters
            task = asyncio.create_task(self._answer(link, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, link: Link, asked: wire.Trace) -> None:
        try:
            hops = await self.trace(asked.raw, asked.prefix, link.peer)
        except WhimbrelError:
            return
        session = self._peering.sessions.get(link.peer)
        if session is not None:
            session.say(wire.TraceAnswer(asked.number, msgspec.json.encode(hops)))


def _hop(
    router: LinkRouter, raw: bytes, prefix: bytes | None, arrival: str | None
) -> tuple[dict[str, Any], bytes, list[str]]:
    """What the router does with an event, its prefix from here on, and which peers get it.

    Called in the router's thread.
    """
    try:
        read = None if prefix is None else Prefix.decode(prefix)
    except (MalformedPrefix, LimitExceeded):
        read = None
    hop, onward = trace_hop(router.router, arrival, read, router.read(raw))
    return as_object(hop), onward.encode(), list(hop.forwarded)
