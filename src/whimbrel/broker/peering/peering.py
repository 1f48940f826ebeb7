"""All links of a broker: who is linked, what they are told, and what comes from them.

A link is a durable cursor on the sender's log, and an entry in the log of each side. It outlives connections: filters
that came over it, and how far each log has come, are there after a restart. The router has a thread of its own;
everything else here runs in the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import msgspec

from whimbrel.broker.peering import overlay_regions, wire
from whimbrel.broker.peering.link import Link
from whimbrel.broker.peering.link_session import Session
from whimbrel.broker.peering.log_feed import LogFeed
from whimbrel.broker.peering.router_thread import RouterThread, restore
from whimbrel.broker.peering.routing import LinkRouter, RoutingSettings, Sent, unwired
from whimbrel.broker.peering.wire import Region
from whimbrel.broker.requests.entries import (
    FORWARDED_EVENTS,
    LinkEnd,
    PeerFilters,
    SubscriptionEnd,
    SubscriptionPut,
    TokenEnd,
    TokenPut,
)
from whimbrel.broker.requests.envelope import Incoming
from whimbrel.broker.requests.errors import BrokerError, NotFound
from whimbrel.broker.sequencing.request_group import Forwarding, Publish, Published, RequestGroup
from whimbrel.broker.service.broker import Broker
from whimbrel.log.reader import Row
from whimbrel.model.errors import WhimbrelError

logger = logging.getLogger("whimbrel.overlay")

T = TypeVar("T")
SAVE_SECONDS = 1.0
"""How often cursors are written; after a crash a peer gets again what came since."""
TAIL_GROUPS = 16
"""Groups of events that may wait for the router to be counted; others are not."""
_region = msgspec.msgpack.Decoder(Region)


class Peering:
    """The links of one broker."""

    def __init__(self, broker: Broker) -> None:
        self.log = broker.log
        self.links: dict[str, Link] = {}
        self.sessions: dict[str, Session] = {}
        self.refused_peers = 0
        """Peers that were refused: no hello, another protocol, a cycle."""
        self.troubles: dict[str, str] = {}
        """Why a URL of the settings has no link."""
        self.on_trace: Callable[[Link, wire.Trace | wire.Traced], None] = lambda _link, _message: None
        """Takes what peers say of traces; set by the tracer."""
        self.runtime = broker.runtime
        self.store = broker.store
        self.live = broker.live
        self._tokens = broker.tokens
        self.settings = broker.settings
        self._thread: RouterThread | None = None
        self._tail = 0
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        broker.on_disk.append(self._folded)

    @property
    def id(self) -> str:
        """By which peers know this broker."""
        return self.log.id

    @property
    def name(self) -> str:
        """What this broker is called."""
        return self.settings.name or f"{self.settings.host}:{self.settings.port}"

    @property
    def router(self) -> LinkRouter | None:
        """The router; None while there are no links. Only its thread changes it."""
        return None if self._thread is None else self._thread.router

    async def run(self, work: Callable[[LinkRouter], T]) -> T:
        """Do something in the thread of the router, and wait for it."""
        assert self._thread is not None
        return await self._thread.run(work)

    def submit(self, work: Callable[[LinkRouter], list[Sent]]) -> None:
        """Do something in the thread of the router, and send what it says. From any thread."""
        if self._thread is not None and not self._closing:
            self._thread.submit(work)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside, in the event loop."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def start(self) -> None:
        """Take up the links of the store. Those that the settings, or a token, no longer name are ended."""
        stored = self.store.links()
        wanted = self.settings.peers
        for held in stored:
            region = Region() if held.region is None else _region.decode(held.region)
            link = Link(held.peer, held.name, held.dialed, held.since, held.cursor, held.received, region=region)
            link.rules = {} if held.dialed else self._tokens.owner(held.name).rules
            self.add_link(link)
        if stored or wanted or self.settings.optimizer:
            self.activate()
        for link in list(self.links.values()):
            if link.name not in (wanted if link.dialed else self._tokens.stored):
                self.later(self.end_link(link.peer, "removed"))

    def activate(self) -> None:
        """Start the router, with all that is in the store."""
        if self._thread is not None:
            return
        settings = RoutingSettings(
            tuple(self.live.index.timestamps),
            self.live.index.schema is not None,
            self.settings.optimizer_seconds,
            self.settings.peer_filters,
            self.settings.match_every_hop,
        )
        self._thread = RouterThread(LinkRouter(self.id, settings), self.runtime, self._deliver)
        self.live.on_ephemeral = self._ephemeral_changed
        links = [(link.peer, link.rules) for link in self.links.values()]
        optimizes = self.settings.optimizer
        self.submit(lambda router: restore(router, self.store, self.live, links, optimizes))
        self.later(self._tend())

    async def stop(self) -> None:
        """End all connections, and the router. A second call does nothing."""
        if self._closing:
            return
        self._closing = True
        for session in list(self.sessions.values()):
            await session.end("stopping", "the broker stops")
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.stop)
        self._save()

    # What the rest of the broker tells.

    def _folded(self, group: RequestGroup) -> None:
        """In the writer of the log: a group is on disk."""
        if self._thread is None:
            return
        for offset, change in group.changes:
            if isinstance(change, SubscriptionPut) and change.on == "events":
                self.submit(partial(_put, offset, change))
            elif isinstance(change, SubscriptionEnd):
                self.submit(partial(_end, change))
            elif isinstance(change, TokenPut | TokenEnd):
                self.runtime.call(self._token_changed, change)
        if group.events:
            self._count_in_vain(group)
            self.runtime.call(self._wake)

    def _count_in_vain(self, group: RequestGroup) -> None:
        if self._tail < TAIL_GROUPS and any(kind == FORWARDED_EVENTS for kind, _, _ in group.rows):
            matched = set(group.pairs().offsets.tolist())
            rows = [(group.first + at, 0, kind, payload, None) for at, (kind, payload, _) in enumerate(group.rows)]
            events = [event for event in LogFeed(self.log, group.first).events(rows) if event.peer]
            self._tail += 1

            def count(router: LinkRouter) -> list[Sent]:
                self._tail -= 1
                router.count_in_vain(event for event in events if event.offset not in matched)
                return []

            self.submit(count)

    def _ephemeral_changed(self, number: int) -> None:
        """In the sequencer: an ephemeral subscription comes or goes."""
        text = self.live.ephemeral.get(number)
        id = f"stream{number}"
        self.submit(lambda router: router.end(id) if text is None else router.put(id, 0, text, "sql"))

    def _token_changed(self, change: TokenPut | TokenEnd) -> None:
        """A peer's token was changed or revoked: it must show it again. Without it the link ends."""
        for link in [link for link in self.links.values() if not link.dialed and link.name == change.name]:
            if isinstance(change, TokenEnd):
                self.later(self.end_link(link.peer, "revoked"))
            elif link.peer in self.sessions:
                self.later(self.sessions[link.peer].end("token-changed", "the token was changed"))

    def _wake(self) -> None:
        for session in self.sessions.values():
            session.grown()

    async def end_link(self, peer: str, reason: str) -> None:
        """End a link for good; NotFound if there is none."""
        link = self.links.get(peer)
        if link is None:
            raise NotFound(f"Expected the id of a linked broker, but {peer[:80]!r} is none")
        session = self.sessions.pop(peer, None)
        if session is not None:
            await session.end("ended", f"the link was ended: {reason}")
        await self.runtime.decide(lambda _: ([LinkEnd(peer, reason)], None))
        self.drop_link(peer)
        self.regions_changed()

    def add_link(self, link: Link) -> Link:
        """Know a link from now on; returns it."""
        self.links[link.peer] = link
        return link

    def drop_link(self, peer: str) -> None:
        """Forget the link with a peer, and what the peer wants."""
        self.links.pop(peer, None)
        self.submit(lambda router: router.leave(peer))

    # What sessions ask for.

    def is_own(self, origin: str) -> bool:
        """Whether events of an origin were published here."""
        return origin == self.id or any(former.id == origin for former in self.log.former)

    async def read_rows(self, start: int, limit: int) -> list[Row]:
        """Entries of the log that are on disk; none if there are none yet."""

        def read() -> list[Row]:
            end = min(self.log.end, start + limit)
            return next(self.log.chunks(start, end, limit), []) if end > start else []

        return await self.runtime.in_thread(read)

    async def outgoing(self, link: Link, feed: LogFeed, rows: list[Row]) -> list[wire.ForwardedItem]:
        """Those of some entries that a peer wants."""
        return await self.run(lambda router: router.outgoing(link.peer, feed.events(rows)))

    def take_events(
        self, link: Link, tenant: str, events: list[Incoming], forwarding: Forwarding
    ) -> asyncio.Future[list[Published | BrokerError]]:
        """Put events of a peer into the log; Unavailable if too many wait."""
        future: asyncio.Future[list[Published | BrokerError]] = self.runtime.loop.create_future()
        publish = Publish(events, future, f"peer {link.name}", link.tenant or tenant, link.rules, forwarding)
        self.runtime.submit(publish)
        return future

    async def take_message(self, link: Link, message: wire.LinkMessage) -> None:
        """Filters, trees, regions, traces, and the end of a link."""
        if isinstance(message, wire.Filters):
            await self._take_filters(link, message)
        elif isinstance(message, wire.Held):
            link.held_keys.update(message.keys)
            if not message.more:
                held, link.held_keys = link.held_keys, set()
                self.submit(lambda router: router.resume(link.peer, held))
        elif isinstance(message, wire.Behind):
            link.region = message.region
            self.regions_changed(but=link.peer)
        elif isinstance(message, wire.Bye):
            if message.code in ("ended", "cycle") and not self._closing and link.peer in self.links:
                self.sessions.pop(link.peer, None)
                self.later(self.end_link(link.peer, message.code))
        elif isinstance(message, wire.Trace | wire.Traced):
            self.on_trace(link, message)
        else:

            def route(router: LinkRouter) -> list[Sent]:
                try:
                    read = unwired(message)
                except WhimbrelError:
                    router.router.counters.malformed += 1
                    return []
                return [] if read is None else router.tree_message(link.peer, read)

            self.submit(route)

    async def _take_filters(self, link: Link, message: wire.Filters) -> None:
        """Enter a peer's filters into the log, then let the router tell others: so none is lost that was told."""
        added = await self.run(lambda router: router.readable(link.peer, message.added))
        if added or message.removed:
            entry = PeerFilters(link.peer, added, message.removed)
            await self.runtime.decide(lambda _: ([entry], None))
            self.submit(lambda router: router.change_filters(link.peer, added, message.removed))

    # Regions.

    def region_without(self, peer: str | None) -> Region:
        """All that is known here, but for what lies behind a peer and the link to it."""
        links = [link for link in self.links.values() if link.peer != peer]
        own = Region({self.id: self.name}, [(self.id, link.peer, link.since) for link in links])
        own.names.update({link.peer: link.label for link in links})
        return overlay_regions.joined([own, *(link.region for link in links)])

    def region(self) -> Region:
        """The whole overlay, as far as it is known here."""
        return self.region_without(None)

    def regions_changed(self, but: str | None = None) -> None:
        """Tell peers what lies on our side, and end our link that closes a cycle, if there is one."""
        for peer, session in self.sessions.items():
            if peer != but:
                session.say(wire.Behind(self.region_without(peer)))
        whole = self.region()
        _, closing = overlay_regions.topology_of(whole.edges)
        for (one, two, _), path in closing:
            peer = two if one == self.id else one
            if self.id in (one, two) and peer in self.sessions:
                told = overlay_regions.in_names(path, whole.names)
                reason = f"Expected a link that closes no cycle, but got one beside {told}"
                self.refused_peers += 1
                self.note_trouble(self.links[peer].name, reason)
                self.later(self._end_cycle(peer, reason))

    async def _end_cycle(self, peer: str, reason: str) -> None:
        session = self.sessions.pop(peer, None)
        if session is not None:
            await session.end("cycle", reason)
        if peer in self.links:
            await self.end_link(peer, "cycle")

    def _deliver(self, sent: list[Sent]) -> None:
        for peer, message in sent:
            session = self.sessions.get(peer)
            if session is not None:
                session.say(message)

    async def _tend(self) -> None:
        """Let time pass for the optimizer, and save cursors."""
        while True:
            await asyncio.sleep(SAVE_SECONDS / 4)
            self.submit(lambda router: router.tick())
            await self.runtime.in_thread(self._save)

    def _save(self) -> None:
        for link in list(self.links.values()):
            cursor, region = link.cursor, msgspec.msgpack.encode(link.region)
            if cursor is not None and cursor != link.stored[0]:
                self.store.move_link(link.peer, cursor)
            if region != link.stored[1]:
                self.store.set_region(link.peer, region)
            link.stored = cursor, region

    def note_trouble(self, name: str, reason: str) -> None:
        """Keep why there is no link with a URL or a token, and log it when it is another reason than before."""
        if self.troubles.get(name) != reason:
            logger.warning("no link with %s: %s", name, reason)
        self.troubles[name] = reason


def _put(number: int, change: SubscriptionPut, router: LinkRouter) -> list[Sent]:
    return router.put(change.id, number, change.text, change.dialect)


def _end(change: SubscriptionEnd, router: LinkRouter) -> list[Sent]:
    return router.end(change.id)
