"""All links of a broker: who is linked, what they are told, and what comes from them.

A link is a durable cursor on the sender's log, and an entry in the log of each side. It outlives connections: filters
that came over it, and how far each log has come, are there after a restart. The router has a thread of its own;
everything else here runs in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import time_ns
from typing import TypeVar, cast

import msgspec

from whimbrel.broker.peering import regions, wire
from whimbrel.broker.peering.dialer import Dialer
from whimbrel.broker.peering.feed import LogFeed
from whimbrel.broker.peering.link import Link
from whimbrel.broker.peering.routing import LinkRouter, RoutingSettings, Sent, unwired
from whimbrel.broker.peering.session import LinkConnection, Session
from whimbrel.broker.peering.wire import BadLink, Region
from whimbrel.broker.requests.entries import (
    Change,
    LinkEnd,
    LinkPut,
    PeerFilters,
    SubscriptionEnd,
    SubscriptionPut,
    TokenEnd,
    TokenPut,
)
from whimbrel.broker.requests.envelope import Incoming
from whimbrel.broker.requests.errors import BrokerError, NotFound
from whimbrel.broker.sequencing.group import Forwarding, Publish, Published, RequestGroup
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal
from whimbrel.log.reader import Row
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.rules import Rules

logger = logging.getLogger("whimbrel.overlay")

T = TypeVar("T")
HELLO_SECONDS = 10.0
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
        self._runtime = broker.runtime
        self._store = broker.store
        self._live = broker.live
        self._tokens = broker.tokens
        self._settings = broker.settings
        self._thread = ThreadPoolExecutor(1, "whimbrel-router")
        self._router: LinkRouter | None = None
        self._tail = 0
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []
        broker.on_disk.append(self._folded)

    @property
    def id(self) -> str:
        """By which peers know this broker."""
        return self.log.id

    @property
    def name(self) -> str:
        """What this broker is called."""
        return self._settings.name or f"{self._settings.host}:{self._settings.port}"

    @property
    def router(self) -> LinkRouter | None:
        """The router; None while there are no links. Only its thread changes it."""
        return self._router

    def start(self) -> None:
        """Take up the links of the store and of the settings."""
        stored = self._store.links()
        wanted = self._settings.peers
        for held in stored:
            region = Region() if held.region is None else _region.decode(held.region)
            link = Link(held.peer, held.name, held.dialed, held.since, held.cursor, held.received, region=region)
            link.rules = {} if held.dialed else self._tokens.owner(held.name).rules
            self._add(link)
        if stored or wanted or self._settings.optimizer:
            self.activate()
        for link in list(self.links.values()):
            if link.name not in (wanted if link.dialed else self._tokens.stored):
                self._tasks.append(asyncio.create_task(self.end_link(link.peer, "removed")))
        for url, token in zip(wanted, self._settings.tokens_of_peers(), strict=True):
            tls = ssl.create_default_context(cafile=self._settings.peer_ca) if url.startswith("https") else None
            dialer = Dialer(url, token, tls, self.serve_dialed, self._note_trouble)
            self._tasks.append(asyncio.create_task(dialer.run()))

    def activate(self) -> None:
        """Start the router, with all that is in the store."""
        if self._router is not None:
            return
        settings = RoutingSettings(
            tuple(self._live.index.timestamps),
            self._live.index.schema is not None,
            self._settings.optimizer_seconds,
            self._settings.peer_filters,
            self._settings.match_every_hop,
        )
        self._router = LinkRouter(self.id, settings)
        self._live.on_ephemeral = self._ephemeral_changed
        links = [(link.peer, link.rules) for link in self.links.values()]
        self._submit(lambda router: self._restore(router, links))
        self._tasks.append(asyncio.create_task(self._tend()))

    async def stop(self) -> None:
        """End all connections, and the router. A second call does nothing."""
        if self._closing:
            return
        self._closing = True
        for session in list(self.sessions.values()):
            await session.end("stopping", "the broker stops")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)
        self._save()

    # What the rest of the broker tells.

    def _folded(self, group: RequestGroup) -> None:
        """In the writer of the log: a group is on disk."""
        router = self._router
        if router is None:
            return
        for offset, change in group.changes:
            if isinstance(change, SubscriptionPut):
                self._submit(partial(_put, offset, change))
            elif isinstance(change, SubscriptionEnd):
                self._submit(partial(_end, change))
            elif isinstance(change, TokenPut | TokenEnd):
                self._runtime.call(self._token_changed, change)
        if group.events:
            self._count_in_vain(group)
            self._runtime.call(self._wake)

    def _count_in_vain(self, group: RequestGroup) -> None:
        matched = set(group.pairs().offsets.tolist())
        if self._tail < TAIL_GROUPS and any(kind == 11 for kind, _, _ in group.rows):
            rows = [(group.first + at, 0, kind, payload, None) for at, (kind, payload, _) in enumerate(group.rows)]
            events = [event for event in LogFeed(self.log, group.first).events(rows) if event.peer]
            self._tail += 1

            def count(router: LinkRouter) -> list[Sent]:
                self._tail -= 1
                router.count_in_vain(event for event in events if event.offset not in matched)
                return []

            self._submit(count)

    def _ephemeral_changed(self, number: int) -> None:
        """In the sequencer: an ephemeral subscription comes or goes."""
        text = self._live.ephemeral.get(number)
        id = f"stream{number}"
        self._submit(lambda router: router.end(id) if text is None else router.put(id, 0, text, "sql"))

    def _token_changed(self, change: TokenPut | TokenEnd) -> None:
        """A peer's token was changed or revoked: it must show it again. Without it the link ends."""
        for link in [link for link in self.links.values() if not link.dialed and link.name == change.name]:
            if isinstance(change, TokenEnd):
                self._tasks.append(asyncio.create_task(self.end_link(link.peer, "revoked")))
            elif link.peer in self.sessions:
                ending = self.sessions[link.peer].end("token-changed", "the token was changed")
                self._tasks.append(asyncio.create_task(ending))

    def _wake(self) -> None:
        for session in self.sessions.values():
            session.grown()

    # Connections.

    async def serve_dialed(self, connection: LinkConnection, url: str) -> bool:
        """Run a connection that we opened; whether the link stood."""
        return await self._serve(connection, url, True, Principal(url, frozenset()))

    async def serve_accepted(self, connection: LinkConnection, principal: Principal) -> bool:
        """Run a connection that a peer opened."""
        return await self._serve(connection, principal.name, False, principal)

    async def _serve(self, connection: LinkConnection, name: str, dialed: bool, principal: Principal) -> bool:
        self.activate()
        held = next((link for link in self.links.values() if dialed and link.dialed and link.name == name), None)
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                if dialed:
                    since = time_ns() // 1000 if held is None else held.since
                    await _say(connection, self._hello(since, None if held is None else held.peer))
                    theirs = await _first_message(connection)
                    link = await self._admit(theirs, name, since, principal)
                else:
                    theirs = await _first_message(connection)
                    link = await self._admit(theirs, name, None, principal)
                    await _say(connection, self._hello(0, theirs.id))  # it has passed: now it may know who we are
        except BadLink as error:
            self.refused_peers += 1
            self._note_trouble(name, error.message)
            if held is not None and error.code in ("cycle", "ended"):
                await self.end_link(held.peer, error.code)
            await _refuse(connection, error)
            return False
        except (ConnectionError, TimeoutError) as error:
            self._note_trouble(name, f"no hello: {error}")
            await connection.close("no hello")
            return False
        session = Session(self, link, connection, principal.rules)
        self.sessions[link.peer] = session
        link.connects += 1
        link.reason = ""
        self.troubles.pop(name, None)
        logger.info("linked with %s (%s)", link.label, link.peer)
        try:
            await self._greet(session)
            await session.run()
        finally:
            link.reason = session.reason or "the connection ended"
            if self.sessions.get(link.peer) is session:
                del self.sessions[link.peer]
            logger.info("no longer linked with %s: %s", link.label, link.reason)
        return True

    def _hello(self, since: int, peer: str | None) -> wire.Hello:
        """Who we are, for a peer; what lies behind that peer is its own affair."""
        former = [(one.id, one.until) for one in self.log.former]
        timestamps = sorted(self._live.index.timestamps)
        return wire.Hello(wire.PROTOCOL, self.id, self.name, former, timestamps, since, self._region_without(peer))

    async def _admit(self, hello: wire.Hello, name: str, since: int | None, principal: Principal) -> Link:
        """The link of a peer that said hello; BadLink if it cannot be linked. `since` is None if the peer dialed."""
        peer, dialed = hello.id, since is not None
        if sorted(hello.timestamps) != sorted(self._live.index.timestamps):
            raise BadLink("other-timestamps", "Expected a peer with the same setting `timestamps`")
        names = {**self._region_without(None).names, **hello.region.names, peer: hello.name}
        path = regions.closed_path(self.id, peer, self._region_without(peer), hello.region)
        if path is not None:
            told = regions.in_names(path, names)
            if peer in self.links:
                self._tasks.append(asyncio.create_task(self.end_link(peer, "cycle")))
            raise BadLink("cycle", f"Expected a link that closes no cycle, but got one beside {told}")
        former = self.sessions.get(peer)
        if former is not None:
            if former.link.dialed != dialed:
                raise BadLink("linked", f"Expected one link with {hello.name}, but got a second one")
            await former.end("replaced", "another connection of the same peer")
            self.sessions.pop(peer, None)
        link = self.links.get(peer)
        since = hello.since if since is None else since
        if link is None or (link.name, link.dialed, link.since) != (name, dialed, since):
            link = await self._put_link(hello, name, dialed, since)
        link.label, link.region = hello.name, hello.region
        if link.rules != principal.rules:  # its filters mean something else now
            link.rules = principal.rules
            self._submit(lambda router: router.leave(peer))
            self._submit(lambda router: self._restore_peer(router, peer, link.rules))
        link.tenant = principal.tenant
        await self.run(lambda router: router.join(peer, link.rules))
        self._regions_changed()
        return link

    async def _put_link(self, hello: wire.Hello, name: str, dialed: bool, since: int) -> Link:
        """Enter a link into the log. One with a former id of the same log ends, and so does another one of the URL."""
        until: dict[str, int] = dict(hello.former)
        ended = [
            link
            for link in self.links.values()
            if link.peer != hello.id and (link.peer in until or (dialed and link.dialed and link.name == name))
        ]
        received: int | None = None
        for link in ended:
            if link.peer in until and link.received is not None:
                received = min(link.received, until[link.peer] - 1)
        entries: list[Change] = [LinkEnd(link.peer, "replaced") for link in ended]
        entries.append(LinkPut(hello.id, name, dialed, since, received))
        await self._runtime.decide(lambda _: (entries, None))
        for link in ended:
            self._drop(link.peer)
        held = self.links.get(hello.id)
        if held is not None:
            held.name, held.dialed, held.since = name, dialed, since
            return held
        return self._add(Link(hello.id, name, dialed, since, received=received))

    async def _greet(self, session: Session) -> None:
        """Say how far the peer's log has come, and which of its filters are here."""
        link = session.link
        session.say(wire.Welcome(link.received))
        held = await self.run(lambda router: router.held(link.peer))
        for start in range(0, max(1, len(held)), 50_000):
            session.say(wire.Held(held[start : start + 50_000], start + 50_000 < len(held)))

    async def end_link(self, peer: str, reason: str) -> None:
        """End a link for good; NotFound if there is none."""
        link = self.links.get(peer)
        if link is None:
            raise NotFound(f"Expected the id of a linked broker, but {peer[:80]!r} is none")
        session = self.sessions.pop(peer, None)
        if session is not None:
            await session.end("ended", f"the link was ended: {reason}")
        await self._runtime.decide(lambda _: ([LinkEnd(peer, reason)], None))
        self._drop(peer)
        self._regions_changed()

    def _add(self, link: Link) -> Link:
        self.links[link.peer] = link
        return link

    def _drop(self, peer: str) -> None:
        self.links.pop(peer, None)
        self._submit(lambda router: router.leave(peer))

    # What sessions ask for.

    def is_own(self, origin: str) -> bool:
        """Whether events of an origin were published here."""
        return origin == self.id or any(former.id == origin for former in self.log.former)

    async def read_rows(self, start: int, limit: int) -> list[Row]:
        """Entries of the log that are on disk; none if there are none yet."""

        def read() -> list[Row]:
            end = min(self.log.end, start + limit)
            return next(self.log.chunks(start, end, limit), []) if end > start else []

        return await self._runtime.in_thread(read)

    async def outgoing(self, link: Link, feed: LogFeed, rows: list[Row]) -> list[wire.Item]:
        """Those of some entries that a peer wants."""
        return await self.run(lambda router: router.outgoing(link.peer, feed.events(rows)))

    def take_events(
        self, link: Link, tenant: str, events: list[Incoming], forwarding: Forwarding
    ) -> asyncio.Future[list[Published | BrokerError]]:
        """Put events of a peer into the log; Unavailable if too many wait."""
        future: asyncio.Future[list[Published | BrokerError]] = self._runtime.loop.create_future()
        publish = Publish(events, future, f"peer {link.name}", link.tenant or tenant, link.rules, forwarding)
        self._runtime.submit(publish)
        return future

    async def take_message(self, link: Link, message: wire.LinkMessage) -> None:
        """Filters, trees, regions, traces, and the end of a link."""
        if isinstance(message, wire.Filters):
            await self._take_filters(link, message)
        elif isinstance(message, wire.Held):
            link.held_keys.update(message.keys)
            if not message.more:
                held, link.held_keys = link.held_keys, set()
                self._submit(lambda router: router.resume(link.peer, held))
        elif isinstance(message, wire.Behind):
            link.region = message.region
            self._regions_changed(but=link.peer)
        elif isinstance(message, wire.Bye):
            if message.code in ("ended", "cycle") and not self._closing and link.peer in self.links:
                self.sessions.pop(link.peer, None)
                self._tasks.append(asyncio.create_task(self.end_link(link.peer, message.code)))
        else:

            def route(router: LinkRouter) -> list[Sent]:
                try:
                    read = unwired(message)
                except WhimbrelError:
                    router.router.counters.malformed += 1
                    return []
                return [] if read is None else router.tree_message(link.peer, read)

            self._submit(route)

    async def _take_filters(self, link: Link, message: wire.Filters) -> None:
        """Enter a peer's filters into the log, then let the router tell others: so none is lost that was told."""
        added = await self.run(lambda router: router.readable(link.peer, message.added))
        if added or message.removed:
            entry = PeerFilters(link.peer, added, message.removed)
            await self._runtime.decide(lambda _: ([entry], None))
            self._submit(lambda router: router.change_filters(link.peer, added, message.removed))

    # Regions.

    def _region_without(self, peer: str | None) -> Region:
        """All that is known here, but for what lies behind a peer and the link to it."""
        links = [link for link in self.links.values() if link.peer != peer]
        own = Region({self.id: self.name}, [(self.id, link.peer, link.since) for link in links])
        own.names.update({link.peer: link.label for link in links})
        return regions.joined([own, *(link.region for link in links)])

    def region(self) -> Region:
        """The whole overlay, as far as it is known here."""
        return self._region_without(None)

    def _regions_changed(self, but: str | None = None) -> None:
        """Tell peers what lies on our side, and end our link that closes a cycle, if there is one."""
        for peer, session in self.sessions.items():
            if peer != but:
                session.say(wire.Behind(self._region_without(peer)))
        whole = self.region()
        _, closing = regions.topology_of(whole.edges)
        for (one, two, _), path in closing:
            peer = two if one == self.id else one
            if self.id in (one, two) and peer in self.sessions:
                told = regions.in_names(path, whole.names)
                reason = f"Expected a link that closes no cycle, but got one beside {told}"
                self.refused_peers += 1
                self._note_trouble(self.links[peer].name, reason)
                self._tasks.append(asyncio.create_task(self._end_cycle(peer, reason)))

    async def _end_cycle(self, peer: str, reason: str) -> None:
        session = self.sessions.pop(peer, None)
        if session is not None:
            await session.end("cycle", reason)
        if peer in self.links:
            await self.end_link(peer, "cycle")

    # The thread of the router.

    async def run(self, work: Callable[[LinkRouter], T]) -> T:
        """Do something in the thread of the router, and wait for it."""
        router = cast("LinkRouter", self._router)
        return await self._runtime.loop.run_in_executor(self._thread, work, router)

    def _submit(self, work: Callable[[LinkRouter], list[Sent]]) -> None:
        """Do something in the thread of the router, and send what it says. From any thread."""
        router = self._router
        if router is None or self._closing:
            return

        def task() -> None:
            try:
                sent = work(router)
            except Exception:
                logger.exception("the router failed")
                return
            if sent and not self._closing:
                self._runtime.call(self._deliver, sent)

        with contextlib.suppress(RuntimeError):  # it is shut down
            self._thread.submit(task)

    def _deliver(self, sent: list[Sent]) -> None:
        for peer, message in sent:
            session = self.sessions.get(peer)
            if session is not None:
                session.say(message)

    def _restore(self, router: LinkRouter, links: list[tuple[str, Rules]]) -> list[Sent]:
        """What was there before: peers with their filters, and local subscriptions."""
        for peer, rules in links:
            self._restore_peer(router, peer, rules)
        for held in self._store.subscriptions("", 1 << 62):
            router.put(held.id, held.number, held.text, held.dialect)
        for number, text in list(self._live.ephemeral.items()):
            router.put(f"stream{number}", 0, text, "sql")
        return router.optimize() if self._settings.optimizer else []

    def _restore_peer(self, router: LinkRouter, peer: str, rules: Rules) -> list[Sent]:
        router.join(peer, rules)
        return router.change_filters(peer, self._store.peer_filters(peer))

    async def _tend(self) -> None:
        """Let time pass for the optimizer, and save cursors."""
        while True:
            await asyncio.sleep(SAVE_SECONDS / 4)
            self._submit(lambda router: router.tick())
            await self._runtime.in_thread(self._save)

    def _save(self) -> None:
        for link in list(self.links.values()):
            cursor, region = link.cursor, msgspec.msgpack.encode(link.region)
            if cursor is not None and cursor != link.stored[0]:
                self._store.move_link(link.peer, cursor)
            if region != link.stored[1]:
                self._store.set_region(link.peer, region)
            link.stored = cursor, region

    def _note_trouble(self, name: str, reason: str) -> None:
        if self.troubles.get(name) != reason:
            logger.warning("no link with %s: %s", name, reason)
        self.troubles[name] = reason


def _put(number: int, change: SubscriptionPut, router: LinkRouter) -> list[Sent]:
    return router.put(change.id, number, change.text, change.dialect)


def _end(change: SubscriptionEnd, router: LinkRouter) -> list[Sent]:
    return router.end(change.id)


async def _say(connection: LinkConnection, message: wire.Hello | wire.Bye) -> None:
    for frame in wire.frames(wire.encode(message)):
        await connection.send(frame)


async def _first_message(connection: LinkConnection) -> wire.Hello:
    assembler = wire.Assembler(wire.HELLO_BYTES)
    while (whole := assembler.add(await connection.receive())) is None:
        pass
    return wire.decode_hello(whole)


async def _refuse(connection: LinkConnection, error: BadLink) -> None:
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(1.0):
            await _say(connection, wire.Bye(error.code, error.message[:4096]))
    await connection.close(error.message)
