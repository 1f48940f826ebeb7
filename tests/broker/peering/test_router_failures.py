"""What becomes of links when the router fails, or what a session needs: they are made again, and nothing is missing."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import cast

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from tests.broker.inside import opened, run, subscribe
from whimbrel.broker.peering import peering as peering_module
from whimbrel.broker.peering import wire
from whimbrel.broker.peering.dialer import Dialer
from whimbrel.broker.peering.link import Link
from whimbrel.broker.peering.link_session import LinkConnection, LinkSession
from whimbrel.broker.peering.peering import Peering
from whimbrel.broker.peering.routing import LinkRouter, Sent
from whimbrel.broker.peering.wire import BadLink
from whimbrel.broker.requests.entries import LinkPut
from whimbrel.broker.requests.errors import Unavailable
from whimbrel.broker.service.principal import ANYBODY
from whimbrel.broker.store import Store
from whimbrel.model.limits import Limit
from whimbrel.overlay.tree.paths import interest_key

PEER = "f" * 32


class CutSession:
    """Notes that its connection was cut."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def cut(self, reason: str) -> None:
        self.reasons.append(reason)

    def wake(self) -> None:
        """Nothing is sent."""


def fail(_: LinkRouter) -> list[Sent]:
    raise RuntimeError("a mistake")


async def texts(peering: Peering) -> list[str]:
    """The filters that the router has."""
    return await peering.run(lambda one: sorted(one.router.table[key].text for key in one.router.interests))


def test_a_router_that_fails_is_made_anew_and_its_links_are_cut(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path, optimizer=True) as broker:
            peering = Peering(broker)
            peering.start()
            try:
                former, session = peering.router, CutSession()
                peering.sessions[PEER] = cast("LinkSession", session)
                held = await subscribe(broker, "data.n = 1")
                peering.submit(fail)
                peering.submit(fail)  # on the same router: it is not done
                await subscribe(broker, "data.n = 2")
                async with asyncio.timeout(10):
                    while peering.router is former:
                        await asyncio.sleep(0.01)
                assert await texts(peering) == ["data.n = 1", "data.n = 2"]
                assert session.reasons == ["the router of the broker failed, and is made anew"]
                await broker.subscriptions.delete(held.id, ANYBODY)
                assert await texts(peering) == ["data.n = 2"]
                rested = peering.rests_until
                assert rested <= asyncio.get_running_loop().time()
                peering.submit(fail)  # soon after the first time: links wait a little
                async with asyncio.timeout(10):
                    while peering.rests_until == rested:
                        await asyncio.sleep(0.01)
                assert peering.rests_until >= rested + 1.0
            finally:
                peering.sessions.clear()
                await peering.stop()

    run(work)


def test_only_filters_on_events_are_told_to_peers_and_those_that_fail_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = LinkRouter.put

    def put_or_fail(router: LinkRouter, id: str, number: int, text: str, dialect: str) -> list[Sent]:
        return fail(router) if text == "data.n = 1" else put(router, id, number, text, dialect)

    async def work() -> None:
        async with opened(tmp_path, optimizer=True) as broker:
            await subscribe(broker, "x = 1", on="publications")
            await subscribe(broker, "data.n = 1")
            await subscribe(broker, "data.n = 2")
            monkeypatch.setattr(LinkRouter, "put", put_or_fail)
            peering = Peering(broker)
            peering.start()
            try:
                assert await texts(peering) == ["data.n = 2"]
                assert peering.router is not None and peering.router.refused_filters == 1
            finally:
                await peering.stop()

    run(work)


def test_a_peer_cannot_say_for_ever_which_filters_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peering_module, "HELD_FILTERS", 10)

    async def work() -> None:
        async with opened(tmp_path) as broker:
            peering, link = Peering(broker), Link(PEER, "peer", False, 0)
            for number in range(2):
                keys = [bytes([number, place]) * 8 for place in range(5)]
                await peering.take_message(link, wire.HeldFilters(keys, more=True))
            with pytest.raises(BadLink, match="at most 10 filters"):
                await peering.take_message(link, wire.HeldFilters([b"0" * 16], more=True))

    run(work)


def test_a_dialer_goes_on_whatever_a_session_raises() -> None:
    async def work() -> None:
        served: list[str] = []
        again = asyncio.Event()

        async def session(_: LinkConnection, url: str) -> bool:
            served.append(url)
            if len(served) == 2:
                again.set()
            raise Unavailable("Expected room in the queue")

        async def accept(connection: ServerConnection) -> None:
            await connection.wait_closed()

        async with serve(accept, "127.0.0.1", 0, subprotocols=[Subprotocol(wire.SUBPROTOCOL)]) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            troubles: list[str] = []
            dialer = Dialer(f"http://127.0.0.1:{port}", "t", None, session, lambda _, reason: troubles.append(reason))
            task = asyncio.create_task(dialer.run())
            async with asyncio.timeout(20):
                await again.wait()
            task.cancel()
            assert troubles[0] == "the link failed: Expected room in the queue"

    asyncio.run(work())


class Frames:
    """A connection that takes everything and says nothing."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    async def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    async def receive(self) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self, reason: str) -> None:
        """Nothing is held."""


def test_filters_that_are_joined_to_one_message_count_once(tmp_path: Path) -> None:
    """What waits to be written is bounded; a count that grows for ever would cut a link that is read well."""

    async def work() -> None:
        async with opened(tmp_path) as broker:
            connection = Frames()
            session = LinkSession(Peering(broker), Link(PEER, "peer", False, 0), connection)
            running = asyncio.create_task(session.run())
            for number in range(100):
                session.say(wire.Filters([("", f"x = {number}")]))
            async with asyncio.timeout(10):
                while not connection.sent or session._out:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0)
            assert len(connection.sent) == 1 and session._out_bytes == 0
            session.cut("done")
            await running

    run(work)


@pytest.mark.parametrize("kind", ["small", "removed", "large"])
def test_filters_are_joined_as_far_as_a_peer_takes_them(tmp_path: Path, kind: str) -> None:
    """A peer that connects again may be told of any number of filters at once."""
    said = {
        "small": [wire.Filters([("", f"x = {number}")]) for number in range(2_500)],
        "removed": [wire.Filters([], [number.to_bytes(16, "big")]) for number in range(120_000)],
        "large": [wire.Filters([("", f"x = '{number:0900000}'")]) for number in range(100)],
    }[kind]

    async def work() -> None:
        async with opened(tmp_path) as broker:
            connection = Frames()
            session = LinkSession(Peering(broker), Link(PEER, "peer", False, 0), connection)
            running = asyncio.create_task(session.run())
            for message in said:
                session.say(message)
            async with asyncio.timeout(30):
                while session._out:
                    await asyncio.sleep(0.01)
            session.cut("done")
            await running
            assembler = wire.Assembler(wire.LINK_MESSAGE.value)
            read = [wire.decode(whole) for frame in connection.sent if (whole := assembler.add(frame)) is not None]
            filters = [one for one in read if isinstance(one, wire.Filters)]
            assert [one for message in filters for one in message.added] == [one for m in said for one in m.added]
            assert [one for message in filters for one in message.removed] == [one for m in said for one in m.removed]
            assert kind == "large" or len(filters) < len(said) / 500

    run(work)


def test_cursors_that_could_not_be_stored_are_stored_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with opened(tmp_path, optimizer=True) as broker:
            monkeypatch.setattr(peering_module, "TEND_SECONDS", 0.01)
            peering, refused, move = Peering(broker), asyncio.Event(), Store.move_link
            loop = asyncio.get_running_loop()

            def refuse(store: Store, peer: str, cursor: int) -> None:
                loop.call_soon_threadsafe(refused.set)
                raise sqlite3.OperationalError("database or disk is full")

            monkeypatch.setattr(Store, "move_link", refuse)
            peering.start()
            await broker.runtime.decide(lambda _: ([LinkPut(PEER, "peer", False, 0)], None))
            peering.add_link(Link(PEER, "peer", False, 0, cursor=7))
            try:
                async with asyncio.timeout(10):
                    await refused.wait()
                    monkeypatch.setattr(Store, "move_link", move)
                    while [link.cursor for link in broker.store.links()] != [7]:
                        await asyncio.sleep(0.01)
            finally:
                await peering.stop()

    run(work)


def test_many_large_filters_of_a_peer_go_into_several_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that the log does not take would end the broker."""
    monkeypatch.setattr("whimbrel.log.writer.LOG_ENTRY_BYTES", Limit("log entry", 100_000, "bytes", "a test"))
    monkeypatch.setattr(wire, "FILTERS_BYTES", 20_000)
    texts = [f"x = '{number:03000}'" for number in range(100)]

    async def work() -> None:
        async with opened(tmp_path, optimizer=True) as broker:
            peering, link = Peering(broker), Link(PEER, "peer", False, 0)
            peering.start()
            try:
                await peering.run(lambda router: router.join(PEER, {}))
                await peering.take_message(link, wire.Filters([("", text) for text in texts]))
                keys = [interest_key("", text) for text in texts]
                await peering.take_message(link, wire.Filters([("", "x = 1")], keys[1:]))
                assert sorted(text for _, text in broker.store.peer_filters(PEER)) == [texts[0], "x = 1"]
                assert await peering.run(lambda router: len(router.held(PEER))) == 2 and broker.ready
            finally:
                await peering.stop()

    run(work)


class SlowFrames(Frames):
    """A connection on which others come in after every frame."""

    async def send(self, frame: bytes) -> None:
        await super().send(frame)
        await asyncio.sleep(0)


def test_messages_of_many_frames_are_not_mixed_with_others(tmp_path: Path) -> None:
    """Events, acknowledgements and a goodbye are sent by different tasks; a peer must be able to put each together."""

    async def work() -> None:
        async with opened(tmp_path) as broker:
            connection = SlowFrames()
            session = LinkSession(Peering(broker), Link(PEER, "peer", False, 0), connection)
            running = asyncio.create_task(session.run())
            items = [wire.ForwardedItem(n, PEER, n, "", b"", b"x" * 50_000) for n in range(10)]
            sending = asyncio.create_task(session._send_events(items, 10))
            for number in range(5):
                session.say(wire.Ack(number))
                await asyncio.sleep(0)
            await sending
            async with asyncio.timeout(10):
                while session._out:
                    await asyncio.sleep(0.01)
            await session.end("ended", "enough")
            await running
            assembler = wire.Assembler(wire.LINK_MESSAGE.value)
            read = [wire.decode(whole) for frame in connection.sent if (whole := assembler.add(frame)) is not None]
            assert [one for one in read if isinstance(one, wire.Events)] == [wire.Events(items)]
            assert [one.offset for one in read if isinstance(one, wire.Ack)] == [0, 1, 2, 3, 4]
            assert isinstance(read[-1], wire.Bye)

    run(work)
