"""Connects brokers: dials peers, accepts peers that dial, and decides who may be linked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from time import monotonic, time_ns

from whimbrel.broker.peering import overlay_regions, wire
from whimbrel.broker.peering.dialer import Dialer
from whimbrel.broker.peering.link import Link
from whimbrel.broker.peering.link_session import LinkConnection, LinkSession
from whimbrel.broker.peering.peering import Peering
from whimbrel.broker.peering.router_thread import restore_peer
from whimbrel.broker.peering.wire import BadLink
from whimbrel.broker.requests.entries import Change, LinkEnd, LinkPut
from whimbrel.broker.requests.settings import BadSettings
from whimbrel.broker.service.principal import Principal
from whimbrel.model.errors import WhimbrelError

logger = logging.getLogger("whimbrel.overlay")

HELLO_SECONDS = 10.0
"""How long a peer may take to say who it is."""


class Connector:
    """The connections of a broker's links."""

    def __init__(self, peering: Peering) -> None:
        self._peering = peering
        self._opening = asyncio.Lock()

    def start(self) -> None:
        """Dial the peers of the settings."""
        settings = self._peering.settings
        for url, token in zip(settings.peers, settings.tokens_of_peers(), strict=True):
            tls = _trusting(settings.peer_ca) if url.startswith("https") else None
            dialer = Dialer(url, token, tls, self.serve_dialed, self._peering.note_trouble)
            self._peering.later(dialer.run())

    async def serve_dialed(self, connection: LinkConnection, url: str) -> bool:
        """Run a connection that we opened. Return whether the link was established."""
        return await self._serve(connection, url, True, Principal(url, frozenset()))

    async def serve_accepted(self, connection: LinkConnection, principal: Principal) -> bool:
        """Run a connection that a peer opened."""
        return await self._serve(connection, principal.name, False, principal)

    async def _serve(self, connection: LinkConnection, name: str, dialed: bool, principal: Principal) -> bool:
        self._peering.activate()
        held = next(
            (link for link in self._peering.links.values() if dialed and link.dialed and link.name == name), None
        )
        session: LinkSession | None = None
        is_greeted = False
        try:
            if monotonic() < self._peering.rests_until:
                raise BadLink("busy", "Expected a router that works, but it failed a moment ago: try again")
            async with asyncio.timeout(HELLO_SECONDS):
                if dialed:
                    since = time_ns() // 1000 if held is None else held.since
                    await _say(connection, self._hello(since, None if held is None else held.peer))
                    theirs = await _first_message(connection)
                    session = await self._open(connection, theirs, name, since, principal)
                else:
                    theirs = await _first_message(connection)
                    session = await self._open(connection, theirs, name, None, principal)
                    await _say(connection, self._hello(0, theirs.id))  # now it may know who we are
            is_greeted = True
        except WhimbrelError as error:
            refused = error if isinstance(error, BadLink) else BadLink("refused", str(error))
            self._peering.refused_peers += 1
            self._peering.note_trouble(name, refused.message)
            if held is not None and refused.code in ("cycle", "ended"):
                await self._peering.end_link(held.peer, refused.code)
            await _refuse(connection, refused)
            return False
        except (ConnectionError, TimeoutError) as error:
            self._peering.note_trouble(name, f"no hello: {error}")
            await connection.close("no hello")
            return False
        finally:
            if session is not None and not is_greeted:
                self._close(session)
        link = session.link
        link.connects += 1
        link.reason = ""
        self._peering.troubles.pop(name, None)
        logger.info("linked with %s (%s)", link.label, link.peer)
        try:
            await self._greet(session)
            await session.run()
        finally:
            link.reason = session.reason or "the connection ended"
            self._close(session)
            logger.info("no longer linked with %s: %s", link.label, link.reason)
        return True

    async def _open(
        self, connection: LinkConnection, hello: wire.Hello, name: str, since: int | None, principal: Principal
    ) -> LinkSession:
        """Admit a peer, and make its session that of the link; BadLink if it cannot be linked.

        One at a time: of two connections with one peer at the same moment the second finds the session of the first.
        """
        async with self._opening:
            link = await self._admit(hello, name, since, principal)
            link.held_keys.clear()  # what it told before a connection broke is told again
            session = LinkSession(self._peering, link, connection)
            self._peering.sessions[link.peer] = session
            return session

    def _close(self, session: LinkSession) -> None:
        """Forget a session, unless another one has its link by now."""
        if self._peering.sessions.get(session.link.peer) is session:
            del self._peering.sessions[session.link.peer]

    def _hello(self, since: int, peer: str | None) -> wire.Hello:
        """Who we are, for a peer; what lies behind that peer is its own affair."""
        former = [(one.id, one.until) for one in self._peering.log.former]
        timestamps = sorted(self._peering.live.index.timestamps)
        return wire.Hello(
            wire.PROTOCOL,
            self._peering.id,
            self._peering.name,
            former,
            timestamps,
            since,
            self._peering.region(but=peer),
        )

    async def _admit(self, hello: wire.Hello, name: str, since: int | None, principal: Principal) -> Link:
        """Find or make the link of a peer that said hello; BadLink if it cannot be linked.

        `since` is None if the peer dialed.
        """
        peer, dialed = hello.id, since is not None
        if sorted(hello.timestamps) != sorted(self._peering.live.index.timestamps):
            raise BadLink("other-timestamps", "Expected a peer with the same setting `timestamps`")
        names = {**self._peering.region().names, **hello.region.names, peer: hello.name}
        path = overlay_regions.closed_path(self._peering.id, peer, self._peering.region(but=peer), hello.region)
        if path is not None:
            told = overlay_regions.in_names(path, names)
            if peer in self._peering.links:
                self._peering.later(self._peering.end_link(peer, "cycle"))
            raise BadLink("cycle", f"Expected a link that closes no cycle, but got one beside {told}")
        former = self._peering.sessions.get(peer)
        if former is not None:
            if former.link.dialed != dialed:
                raise BadLink("linked", f"Expected one link with {hello.name}, but got a second one")
            await former.end("replaced", "another connection of the same peer")
            self._peering.sessions.pop(peer, None)
        link = self._peering.links.get(peer)
        since = hello.since if since is None else since
        if link is None or (link.name, link.dialed, link.since) != (name, dialed, since):
            link = await self._put_link(hello, name, dialed, since)
        link.label, link.region = hello.name, hello.region
        if link.rules != principal.rules:  # its filters mean something else now
            link.rules = principal.rules
            self._peering.submit(lambda router: router.leave(peer))
            self._peering.submit(lambda router: restore_peer(router, self._peering.store, peer, link.rules))
        link.tenant = principal.tenant
        await self._peering.run(lambda router: router.join(peer, link.rules))
        self._peering.regions_changed()
        return link

    async def _put_link(self, hello: wire.Hello, name: str, dialed: bool, since: int) -> Link:
        """Enter a link into the log. One with a former id of the same log ends, and so does another one of the URL."""
        until: dict[str, int] = dict(hello.former)
        ended = [
            link
            for link in self._peering.links.values()
            if link.peer != hello.id and (link.peer in until or (dialed and link.dialed and link.name == name))
        ]
        received: int | None = None
        for link in ended:
            if link.peer in until and link.received is not None:
                received = min(link.received, until[link.peer] - 1)
        entries: list[Change] = [LinkEnd(link.peer, "replaced") for link in ended]
        entries.append(LinkPut(hello.id, name, dialed, since, received))
        await self._peering.runtime.decide(lambda _: (entries, None))
        for link in ended:
            self._peering.drop_link(link.peer)
        held = self._peering.links.get(hello.id)
        if held is not None:
            held.name, held.dialed, held.since = name, dialed, since
            return held
        return self._peering.add_link(Link(hello.id, name, dialed, since, received=received))

    async def _greet(self, session: LinkSession) -> None:
        """Tell the peer how much of its log is here, and which of its filters are."""
        link = session.link
        session.say(wire.Welcome(link.received))
        session.say(wire.RegionChange(self._peering.region(but=link.peer)))  # it may have changed since the hello
        held = await self._peering.run(lambda router: router.held(link.peer))
        for start in range(0, max(1, len(held)), 50_000):
            session.say(wire.HeldFilters(held[start : start + 50_000], start + 50_000 < len(held)))


async def _say(connection: LinkConnection, message: wire.Hello | wire.Bye) -> None:
    """Send a message, frame by frame."""
    for frame in wire.frames(wire.encode(message)):
        await connection.send(frame)


async def _first_message(connection: LinkConnection) -> wire.Hello:
    """Receive the hello of a peer; BadLink if something else comes."""
    assembler = wire.Assembler(wire.HELLO_BYTES)
    while (whole := assembler.add(await connection.receive())) is None:
        pass
    return wire.decode_hello(whole)


async def _refuse(connection: LinkConnection, error: BadLink) -> None:
    """Tell a peer why it cannot be linked, and close the connection."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(1.0):
            await _say(connection, wire.Bye(error.code, error.message[:4096]))
    await connection.close(error.message)


def _trusting(authority: str | None) -> ssl.SSLContext:
    """Whom to trust: the certificates of a file, or those that the system trusts."""
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise BadSettings(f"Expected peer_ca to be a file of certificates in PEM, but: {error}") from None
