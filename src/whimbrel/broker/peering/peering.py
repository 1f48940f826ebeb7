"""All links of a broker: who is linked, what they are told, and what comes from them.

A link is a durable cursor on the sender's log, and an entry in the log of each side. It outlives connections: filters
that came over it, and how far each log has come, are there after a restart. The router has a thread of its own;
everything else here runs in the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import msgspec

from whimbrel.broker.peering import overlay_regions, wire
from whimbrel.broker.peering.link import Link
from whimbrel.broker.peering.link_session import LinkSession
from whimbrel.broker.peering.log_feed import LogFeed
from whimbrel.broker.peering.router_thread import RouterThread, restore
from whimbrel.broker.peering.routing import LinkRouter, Sent, from_wire
from whimbrel.broker.peering.wire import BadLink, Region
from whimbrel.broker.requests.entries import (
    FORWARDED_EVENTS,
    Change,
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
TEND_SECONDS = 0.25
"""How often cursors are written; after a crash a peer gets again what came since."""
TAIL_GROUPS = 16
"""Groups of events that may wait for the router to be counted; others are not."""
HELD_FILTERS = 4_000_000
"""Filters of ours that a peer may say it has; one that tells more is cut off."""
STEADY_SECONDS = 60.0
LONGEST_REST = 30.0
"""After a failure of the router links are taken again at once; when it fails again within a minute, only after a rest,
in seconds, which doubles up to this."""
_region = msgspec.msgpack.Decoder(Region)


class Peering:
    """The links of one broker."""

    def __init__(self, broker: Broker) -> None:
        self.log = broker.log
        self.links: dict[str, Link] = {}
        self.sessions: dict[str, LinkSession] = {}
        self.refused_peers = 0
        """Peers that were refused: no hello, another protocol, a cycle."""
        self.troubles: dict[str, str] = {}
        """Why a URL of the settings has no link."""
        self.on_trace: Callable[[Link, wire.Trace | wire.TraceAnswer], None] = lambda _link, _message: None
        """Takes what peers say of traces; set by the tracer."""
        self.rests_until = 0.0
        """No link is taken before this time: the router fails again and again."""
        self.runtime = broker.runtime
        self.store = broker.store
        self.live = broker.live
        self._tokens = broker.tokens
        self.settings = broker.settings
        self._thread: RouterThread | None = None
        self._tail = threading.Semaphore(TAIL_GROUPS)  # taken by the writer of the log, given back by the router
        self._failed = float("-inf")  # when the router failed last
        self._rest = 0.0
        self._closing = False
        self._is_refused = False  # what was to be stored last
        self._tasks: set[asyncio.Task[None]] = set()
        broker.on_disk.append(self._folded)

    @property
    def id(self) -> str:
        """The id of this broker's log, by which peers know the broker."""
        return self.log.id

    @property
    def name(self) -> str:
        """The name of this broker, for peers and people."""
        return self.settings.name or f"{self.settings.host}:{self.settings.port}"

    @property
    def router(self) -> LinkRouter | None:
        """The router; None while there are no links. Only its thread changes it."""
        return None if self._thread is None else self._thread.router

    async def run(self, work: Callable[[LinkRouter], T]) -> T:
        """Call `work` in the thread of the router, and return its result."""
        assert self._thread is not None
        return await self._thread.run(work)

    def submit(self, work: Callable[[LinkRouter], list[Sent]]) -> None:
        """Queue `work` for the thread of the router; the messages that it returns are sent. From any thread."""
        if self._thread is not None and not self._closing:
            self._thread.submit(work)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task in the event loop; it is cancelled when the broker stops."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, NotFound):  # the link that it was about is gone
            logger.error("a task of links failed: %s", error, exc_info=error)

    def start(self) -> None:
        """Take up the links of the store. End a link that neither the settings nor a token name any more."""
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
        """Start the router and fill it from the store; do nothing if it runs."""
        if self._thread is None:
            self._thread = RouterThread(self._new_router(), self.runtime, self._deliver, self._router_failed)
            self.live.on_ephemeral = self._ephemeral_changed
            self.submit(self._fill())
            self.later(self._tend())

    def _new_router(self) -> LinkRouter:
        index = self.live.index
        return LinkRouter(self.id, self.settings, index.timestamps, matches_all=index.schema is not None)

    def _fill(self) -> Callable[[LinkRouter], list[Sent]]:
        """The work that fills a new router from the store."""
        links = [(link.peer, link.rules) for link in self.links.values()]
        return lambda router: restore(router, self.store, self.live, links, self.settings.optimizer)

    def _router_failed(self) -> None:
        """Make the router anew, and cut all connections: when they are made again, both sides tell all they want."""
        if self._closing or self._thread is None:
            return
        now = monotonic()
        self._rest = min(LONGEST_REST, max(1.0, 2 * self._rest)) if now < self._failed + STEADY_SECONDS else 0.0
        self._failed, self.rests_until = now, now + self._rest
        self._tail = threading.Semaphore(TAIL_GROUPS)  # what waits is not counted any more
        for session in list(self.sessions.values()):
            session.cut("the router of the broker failed, and is made anew")
        self._thread.replace(self._new_router(), self._fill())

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
        """Tell the router and the sessions of a group that is on disk. Called in the writer of the log."""
        if self._thread is None:
            return
        for offset, change in group.changes:
            if isinstance(change, SubscriptionPut) and change.on == "events":
                put = partial(LinkRouter.put, id=change.id, number=offset, text=change.text, dialect=change.dialect)
                self.submit(put)
            elif isinstance(change, SubscriptionEnd):
                self.submit(partial(LinkRouter.end, id=change.id))
            elif isinstance(change, TokenPut | TokenEnd):
                self.runtime.call(self._token_changed, change)
        if group.events:
            self._count_false_positives(group)
            self.runtime.call(self._wake)

    def _count_false_positives(self, group: RequestGroup) -> None:
        if any(kind == FORWARDED_EVENTS for kind, _, _ in group.rows) and self._tail.acquire(blocking=False):
            matched = set(group.pairs().offsets.tolist())
            rows = [(group.first + at, 0, kind, payload, None) for at, (kind, payload, _) in enumerate(group.rows)]
            events = [event for event in LogFeed(self.log, group.first).events(rows) if event.peer]

            def count(router: LinkRouter) -> list[Sent]:
                self._tail.release()
                router.count_false_positives(event for event in events if event.offset not in matched)
                return []

            self.submit(count)

    def _ephemeral_changed(self, number: int) -> None:
        """Tell the router of an ephemeral subscription that came or went. Called in the sequencer."""
        text = self.live.ephemeral.get(number)
        id = f"stream{number}"
        self.submit(lambda router: router.end(id) if text is None else router.put(id, 0, text, "sql"))

    def _token_changed(self, change: TokenPut | TokenEnd) -> None:
        """End the link of a peer whose token was revoked; a peer with a changed token must connect again."""
        for link in [link for link in self.links.values() if not link.dialed and link.name == change.name]:
            if isinstance(change, TokenEnd):
                self.later(self.end_link(link.peer, "revoked"))
            elif link.peer in self.sessions:
                self.later(self.sessions[link.peer].end("token-changed", "the token was changed"))

    def _wake(self) -> None:
        for session in self.sessions.values():
            session.wake()

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
        """Add a link, and return it."""
        self.links[link.peer] = link
        return link

    def drop_link(self, peer: str) -> None:
        """Forget the link with a peer and the filters that came over it."""
        self.links.pop(peer, None)
        self.submit(lambda router: router.leave(peer))

    # What sessions ask for.

    def is_own(self, origin: str) -> bool:
        """Whether events of an origin were published here."""
        return origin == self.id or any(former.id == origin for former in self.log.former)

    async def read_rows(self, start: int, limit: int) -> list[Row]:
        def read() -> list[Row]:
            end = min(self.log.end, start + limit)
            return next(self.log.chunks(start, end, limit), []) if end > start else []

        return await self.runtime.in_thread(read)

    async def outgoing(self, link: Link, feed: LogFeed, rows: list[Row]) -> list[wire.ForwardedItem]:
        return await self.run(lambda router: router.outgoing(link.peer, feed.events(rows)))

    def take_events(
        self, link: Link, tenant: str, events: list[Incoming], forwarding: Forwarding
    ) -> asyncio.Future[list[Published | BrokerError]]:
        """Queue events of a peer for the sequencer; Unavailable if too many wait."""
        future: asyncio.Future[list[Published | BrokerError]] = self.runtime.loop.create_future()
        publish = Publish(events, future, f"peer {link.name}", link.tenant or tenant, link.rules, forwarding)
        self.runtime.submit(publish)
        return future

    async def take_message(self, link: Link, message: wire.LinkMessage) -> None:
        """Handle a message of a peer that is not about events: filters, trees, regions, traces, the end of a link."""
        if isinstance(message, wire.Filters):
            await self._take_filters(link, message)
        elif isinstance(message, wire.HeldFilters):
            link.held_keys.update(message.keys)
            if len(link.held_keys) > HELD_FILTERS:
                raise BadLink("too-large", f"Expected at most {HELD_FILTERS:,} filters that a peer has from here")
            if not message.more:
                held, link.held_keys = link.held_keys, set()
                self.submit(lambda router: router.resume(link.peer, held))
        elif isinstance(message, wire.RegionChange):
            link.region = message.region
            self.regions_changed(but=link.peer)
        elif isinstance(message, wire.Bye):
            if message.code in ("ended", "cycle") and not self._closing and link.peer in self.links:
                self.sessions.pop(link.peer, None)
                self.later(self.end_link(link.peer, message.code))
        elif isinstance(message, wire.Trace | wire.TraceAnswer):
            self.on_trace(link, message)
        else:

            def route(router: LinkRouter) -> list[Sent]:
                try:
                    read = from_wire(message)
                except WhimbrelError:
                    router.router.counters.malformed += 1
                    return []
                return [] if read is None else router.tree_message(link.peer, read)

            self.submit(route)

    async def _take_filters(self, link: Link, message: wire.Filters) -> None:
        """Enter a peer's filters into the log before the router tells others of them: a crash then loses none."""
        added = await self.run(lambda router: router.readable(link.peer, message.added))
        if added or message.removed:
            entries: list[Change] = [PeerFilters(link.peer, part) for part in _parts(added)]
            if message.removed:
                entries.append(PeerFilters(link.peer, [], message.removed))
            await self.runtime.decide(lambda _: (entries, None))
            self.submit(lambda router: router.change_filters(link.peer, added, message.removed))

    # Regions.

    def region(self, but: str | None = None) -> Region:
        """The overlay, as far as it is known here, without the link to a peer and what lies behind it."""
        links = [link for link in self.links.values() if link.peer != but]
        own = Region({self.id: self.name}, [(self.id, link.peer, link.since) for link in links])
        own.names.update({link.peer: link.label for link in links})
        return overlay_regions.joined([own, *(link.region for link in links)])

    def regions_changed(self, but: str | None = None) -> None:
        """Tell all peers (except `but`) what lies on this side, and end a link of this broker that closes a cycle."""
        for peer, session in self.sessions.items():
            if peer != but:
                session.say(wire.RegionChange(self.region(but=peer)))
        whole = self.region()
        topology, closing = overlay_regions.topology_of(whole.edges)
        for one, two, _ in closing:
            peer = two if one == self.id else one
            if self.id in (one, two) and peer in self.sessions:
                told = overlay_regions.in_names(topology.path(one, two) or (), whole.names)
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
        """Again and again: publish a version of the tree that is due, and save cursors."""
        while True:
            await asyncio.sleep(TEND_SECONDS)
            self.submit(lambda router: router.tick())
            await self.runtime.in_thread(self._save)

    def _save(self) -> None:
        """Store cursors and regions. What the store refuses is tried again: it may be older after a restart."""
        try:
            self._save_links()
        except Exception as error:
            if not self._is_refused:
                logger.warning("cursors of links could not be stored: %s; it is tried again", error)
            self._is_refused = True
        else:
            self._is_refused = False

    def _save_links(self) -> None:
        for link in list(self.links.values()):
            cursor, region = link.cursor, msgspec.msgpack.encode(link.region)
            if cursor is not None and cursor != link.stored[0]:
                self.store.move_link(link.peer, cursor)
            if region != link.stored[1]:
                self.store.set_region(link.peer, region)
            link.stored = cursor, region

    def note_trouble(self, name: str, reason: str) -> None:
        """Keep the reason why there is no link with a URL or a token. Log it if it is a new one."""
        if self.troubles.get(name) != reason:
            logger.warning("no link with %s: %s", name, reason)
        self.troubles[name] = reason


def _parts(filters: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Filters in parts of about FILTERS_BYTES: the log bounds an entry, and a peer may send more in one message."""
    part: list[tuple[str, str]] = []
    size = 0
    for one in filters:
        part.append(one)
        size += len(one[1])
        if size >= wire.FILTERS_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
