"""Peers that are no peers, speak another language, or say what they must not: refused, counted, and nothing breaks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.broker.peering.overlays import OverlayBroker, until
from tests.broker.processes import BrokerProcess
from whimbrel.broker.peering import wire
from whimbrel.overlay.tree.paths import interest_key

ME = "ab" * 16


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OverlayBroker]:
    with OverlayBroker(tmp_path_factory.mktemp("broker"), "b", optimizer=True, optimizer_seconds=0.1) as process:
        yield process
        assert process.stop() == 0


def dial(broker: BrokerProcess, token: str | None) -> ClientConnection:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    address = broker.url.replace("http", "ws") + wire.PATH
    return connect(
        address, additional_headers=headers, subprotocols=[Subprotocol(wire.SUBPROTOCOL)], compression=None, proxy=None
    )


class Peer:
    """A peer that says what the test wants."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._assembler = wire.Assembler(64 << 20)

    def say(self, message: Any) -> None:
        data = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
        for frame in wire.frames(data):
            self.socket.send(frame)

    def hear(self, kind: type) -> Any:
        """The next message of a kind; others are skipped."""
        while True:
            whole = self._assembler.add(bytes(self.socket.recv(timeout=30)))
            if whole is not None:
                message: Any = msgspec.msgpack.decode(whole)
                if message[0] == kind.__struct_config__.tag:
                    return msgspec.msgpack.decode(whole, type=kind)


def hello(**changed: Any) -> wire.Hello:
    made = wire.Hello(wire.PROTOCOL, ME, "test", [], [], 1, wire.Region({ME: "test"}, []))
    return msgspec.structs.replace(made, **changed)


@contextmanager
def linked(broker: OverlayBroker) -> Iterator[Peer]:
    with dial(broker, broker.peer_token) as socket:
        peer = Peer(socket)
        peer.say(hello())
        peer.hear(wire.Hello)
        peer.hear(wire.HeldFilters)
        yield peer


def link_of(broker: OverlayBroker) -> Any:
    return broker.links()["test"]


def event(number: int, **changed: Any) -> wire.ForwardedItem:
    raw = msgspec.json.encode({"specversion": "1.0", "id": f"{number}", "source": "s", "type": "t", "data": {"n": 1}})
    return msgspec.structs.replace(wire.ForwardedItem(number, ME, number, "", b"", raw), **changed)


def test_a_peer_needs_a_token_with_the_scope_also_on_loopback(broker: OverlayBroker, tmp_path: Path) -> None:
    for token, status in ((None, 401), ("whb.x.y", 401)):
        with pytest.raises(InvalidStatus) as refused:
            dial(broker, token)
        assert refused.value.response.status_code == status
    reader = broker.new_token("reader", ["subscribe"])
    with pytest.raises(InvalidStatus) as refused:
        dial(broker, reader)
    assert refused.value.response.status_code == 403
    with (
        BrokerProcess(tmp_path) as open_broker,
        pytest.raises(InvalidStatus) as refused,
    ):  # open to clients, not to peers
        dial(open_broker, None)
    assert refused.value.response.status_code == 401


def test_another_version_of_the_protocol_is_refused(broker: OverlayBroker) -> None:
    before = broker.overlay()["refused_peers"]
    with dial(broker, broker.peer_token) as socket:
        peer = Peer(socket)
        peer.say(["hello", 99, {"something": "else"}])
        assert peer.hear(wire.Bye).code == "other-protocol"
    assert broker.overlay()["refused_peers"] == before + 1


@pytest.mark.parametrize("first", [b"", b"\xc1", msgspec.msgpack.encode(["ack", 3]), msgspec.msgpack.encode({"a": 1})])
def test_a_first_message_that_is_no_hello_is_refused(broker: OverlayBroker, first: bytes) -> None:
    with dial(broker, broker.peer_token) as socket:
        peer = Peer(socket)
        peer.say(first)
        assert peer.hear(wire.Bye).code == "bad-message"


def test_brokers_with_other_timestamps_are_not_linked(broker: OverlayBroker) -> None:
    with dial(broker, broker.peer_token) as socket:
        peer = Peer(socket)
        peer.say(hello(timestamps=["data.time"]))
        assert peer.hear(wire.Bye).code == "other-timestamps"


def test_a_link_that_closes_a_cycle_is_refused_with_its_path(broker: OverlayBroker) -> None:
    with linked(broker):
        third = "cd" * 16
        with dial(broker, broker.peer_token) as socket:
            peer = Peer(socket)
            region = wire.Region({third: "third", ME: "test"}, [(third, ME, 5)])
            peer.say(hello(id=third, name="third", region=region))
            said = peer.hear(wire.Bye)
        assert said.code == "cycle"
        names = broker.overlay()
        assert f"b ({names['id'][:8]}) - test (abababab) - third (cdcdcdcd)" in said.reason
        assert "third" not in broker.links()


@pytest.mark.parametrize(
    "message",
    [
        b"\xc1",
        ["nothing", 1],
        ["events", "x"],
        ["filters", [["", 7]], []],
        ["ack", -1],
        ["events", [[1, "not an id", 2, "", b"", b"{}"]]],
        ["announced", 1 << 40, ME, [0, 0]],
        ["events", [[1, ME, 1, "", b"", b"{}"]] * 5000],
    ],
)
def test_a_malformed_message_ends_the_connection_and_not_the_link(broker: OverlayBroker, message: Any) -> None:
    with linked(broker) as peer:
        before = link_of(broker)["refused_messages"]
        peer.say(message)
        assert peer.hear(wire.Bye).code == "bad-message"
        with pytest.raises(ConnectionClosed):
            peer.hear(wire.Ack)
    until(lambda: not link_of(broker)["connected"])
    assert link_of(broker)["refused_messages"] == before + 1


def test_a_message_without_end_is_cut_off(broker: OverlayBroker) -> None:
    def send_all() -> None:
        for _ in range(1_000):  # 60 MB of a hello that may have 4
            socket.send(b"\x01" + b"x" * wire.FRAME_BYTES)
        Peer(socket).hear(wire.Ack)

    with dial(broker, broker.peer_token) as socket, pytest.raises(ConnectionClosed):
        send_all()


def test_a_bad_prefix_costs_a_match_and_the_event_is_taken(broker: OverlayBroker) -> None:
    with linked(broker) as peer, broker.client() as client:
        other = "ee" * 16  # a second peer behind which somebody wants the events
        with dial(broker, broker.peer_token) as socket:
            second = Peer(socket)
            second.say(hello(id=other, name="second", since=2, region=wire.Region({other: "second"}, [])))
            second.hear(wire.Hello)
            second.say(wire.Welcome(None))
            second.say(wire.HeldFilters([], False))
            second.say(wire.Filters([("", "data.n < 5")]))
            until(lambda: broker.links()["second"]["filters"] == 1)
            routing = broker.overlay()["routing"]
            id = client.create("data.n < 5")["id"]
            prefixes = [b"", b"\x01garbage", b"x" * 70_000, b"\x01" + b"\0" * 4 + b"\x09\x09\x00\x00\x00"]
            peer.say(wire.Events([event(100 + at, prefix=prefix) for at, prefix in enumerate(prefixes)]))
            assert peer.hear(wire.Ack).offset == 103
            got: list[wire.ForwardedItem] = []
            while len(got) < len(prefixes):
                got += second.hear(wire.Events).items
            assert [item.origin_offset for item in got] == [100, 101, 102, 103]
            assert all(0 < len(item.prefix) < 1_000 for item in got)
            until(lambda: len(client.pull(id)) == 4)
            after = broker.overlay()["routing"]
            assert after["fallbacks"] - routing["fallbacks"] == 4
            assert after["malformed"] > routing["malformed"]
            assert link_of(broker)["refused_prefixes"] == 1 and link_of(broker)["connected"]


def test_events_that_are_none_are_refused_alone_and_repeated_ones_are_recognised(broker: OverlayBroker) -> None:
    with linked(broker) as peer, broker.client() as client:
        id = client.create("TRUE")["id"]
        before = link_of(broker)
        own = broker.overlay()["id"]
        items = [event(200), event(201, raw=b"{}"), event(202, raw=b"\xff"), event(203, origin=own), event(204)]
        peer.say(wire.Events(items))
        assert peer.hear(wire.Ack).offset == 204
        peer.say(wire.Events([event(200), event(204), event(205)]))
        assert peer.hear(wire.Ack).offset == 205
        assert [message.event["id"] for message in client.pull(id)] == ["200", "204", "205"]
        after = link_of(broker)
        assert after["refused_events"] - before["refused_events"] == 3
        assert after["repeated_events"] - before["repeated_events"] == 2
        assert after["connected"]


def test_filters_that_cannot_be_read_are_refused_alone(broker: OverlayBroker) -> None:
    with linked(broker) as peer:
        peer.say(wire.HeldFilters([], False))
        before = broker.overlay()["routing"]["refused_filters"]
        bomb = " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(40))  # 2^40 conjunctions
        texts = ["data.n <", bomb, "x" * 2_000_000, "data.m = 1", "(" * 5000]
        peer.say(wire.Filters([("", text) for text in texts]))
        until(lambda: link_of(broker)["filters"] == 1)
        assert broker.overlay()["routing"]["refused_filters"] == before + 4
        assert link_of(broker)["connected"]
        peer.say(wire.Filters([], [interest_key("", "data.m = 1"), b"?" * 16]))
        until(lambda: link_of(broker)["filters"] == 0)


def test_a_peer_with_too_many_filters_is_heard_up_to_the_limit(tmp_path: Path) -> None:
    with OverlayBroker(tmp_path, "b", peer_filters=10) as broker, linked(broker) as peer:
        peer.say(wire.Filters([("", f"data.n = {number}") for number in range(15)]))
        until(lambda: link_of(broker)["filters"] == 10)
        assert broker.overlay()["routing"]["refused_filters"] == 5
        peer.say(wire.Filters([], [interest_key("", "data.n = 1")]))
        peer.say(wire.Filters([("", "data.n = 99")]))
        until(lambda: broker.overlay()["routing"]["filters"] == 10)
        assert link_of(broker)["connected"]


def test_what_a_peer_says_it_has_counts_for_one_connection(tmp_path: Path) -> None:
    text = "data.n = 1"
    with OverlayBroker(tmp_path, "b") as broker, broker.client() as client:
        client.create(text)
        with linked(broker) as peer:
            peer.say(wire.HeldFilters([interest_key("", text)], True))
            peer.say(wire.Events([event(1)]))
            peer.hear(wire.Ack)
        with linked(broker) as peer:
            peer.say(wire.HeldFilters([], False))
            assert peer.hear(wire.Filters).added == [("", text)]


def test_trees_that_are_none_are_not_used(broker: OverlayBroker) -> None:
    with linked(broker) as peer:
        version = broker.overlay()["routing"]["version"]
        peer.say(wire.WholeTreeMessage((1 << 20, 1), b"no tree"))
        peer.say(wire.TreeUpdateMessage((1 << 20, 1), (0, 0), [("", "not a filter (", b"")], b"?" * 16))
        peer.say(wire.TreeUpdateMessage((1 << 20, 1), (7, 7), [], b"?" * 16))
        assert peer.hear(wire.TreeRequestMessage).version == (1 << 20, 1)
        assert broker.overlay()["routing"]["version"] == version
        assert link_of(broker)["connected"]
