"""Streams: Server-Sent Events and WebSockets, with resume, replacement, acknowledgements, credit and slow readers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.broker.inside import event, opened, publish, run, subscribe
from tests.broker.processes import PLAIN, BrokerProcess
from tests.broker.test_http import subscribe as create
from whimbrel.broker.delivery import streaming
from whimbrel.broker.delivery.hub import Stream
from whimbrel.broker.delivery.message_reader import StoredMessage
from whimbrel.broker.delivery.outbox import Outbox
from whimbrel.broker.delivery.streaming import follow
from whimbrel.broker.requests.errors import Truncated
from whimbrel.broker.requests.webhook_sinks import DigestRequest
from whimbrel.broker.service.principal import ANYBODY
from whimbrel.broker.store import Cursor
from whimbrel.client.following import EventParser


class Events:
    """The events of an open stream, one at a time."""

    def __init__(self, answer: httpx.Response) -> None:
        assert answer.headers["content-type"].startswith("text/event-stream")
        self._pieces = answer.iter_raw()
        self._parser = EventParser()
        self._found: list[tuple[str, str, bytes]] = []

    def next(self) -> tuple[str, str, Any]:
        while not self._found:
            self._found += self._parser.feed(next(self._pieces))
        name, id, data = self._found.pop(0)
        return name, id, msgspec.json.decode(data)

    def numbers(self, count: int) -> list[int]:
        return [self.next()[2]["data"]["n"] for _ in range(count)]


@contextlib.contextmanager
def streamed(http: httpx.Client, path: str, **headers: str) -> Iterator[Events]:
    with http.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        yield Events(answer)


def send(http: httpx.Client, mark: str, *numbers: int) -> list[int]:
    lines = b"\n".join(msgspec.json.encode({"mark": mark, "n": n}) for n in numbers)
    answer = http.post("/events", content=lines, headers={"content-type": "application/x-ndjson"})
    return [one["offset"] for one in answer.json()["results"]]


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


def test_a_stream_brings_what_waits_and_what_comes(http: httpx.Client, mark: str) -> None:
    id = create(http, filter=f"data.mark = '{mark}'")
    send(http, mark, 1, 2)
    with streamed(http, f"/subscriptions/{id}/stream") as events:
        assert events.numbers(2) == [1, 2]
        send(http, mark, 3)
        send(http, "other", 9)
        send(http, mark, 4)
        assert events.numbers(2) == [3, 4]
    # Nothing was acknowledged, so everything comes again; Last-Event-ID acknowledges.
    with streamed(http, f"/subscriptions/{id}/stream") as events:
        _, first, _ = events.next()
        _, second, _ = events.next()
    with streamed(http, f"/subscriptions/{id}/stream", **{"last-event-id": second}) as events:
        assert events.numbers(2) == [3, 4]
    assert http.get(f"/subscriptions/{id}").json()["cursor"] == second != first
    assert http.get(f"/subscriptions/{id}/stream", headers={"last-event-id": "x"}).status_code == 422


def test_a_second_stream_replaces_the_first(http: httpx.Client, mark: str) -> None:
    id = create(http, filter=f"data.mark = '{mark}'")
    with (
        streamed(http, f"/subscriptions/{id}/stream") as first,
        streamed(http, f"/subscriptions/{id}/stream") as second,
    ):
        assert first.next()[::2] == ("end", {"reason": "replaced"})
        send(http, mark, 1)
        assert second.numbers(1) == [1]


def test_a_stream_follows_a_replaced_filter_and_ends_with_its_subscription(http: httpx.Client, mark: str) -> None:
    id = create(http, filter=f"data.mark = '{mark}' AND data.n < 5")
    with streamed(http, f"/subscriptions/{id}/stream") as events:
        send(http, mark, 1, 9)
        http.put(f"/subscriptions/{id}", json={"filter": f"data.mark = '{mark}' AND data.n > 5"})
        send(http, mark, 2, 10)
        assert events.numbers(2) == [1, 10]
        http.delete(f"/subscriptions/{id}")
        assert events.next()[::2] == ("end", {"reason": "deleted"})


def test_ephemeral_streams_live_with_their_connection(http: httpx.Client, broker: BrokerProcess, mark: str) -> None:
    with streamed(http, f"/stream?filter=data.mark='{mark}'") as events:
        send(http, mark, 1)
        assert events.numbers(1) == [1]
        assert http.get("/subscriptions").json()["subscriptions"] is not None
    deadline = time.monotonic() + 20
    while "whimbrel_streams 0.0" not in http.get("/metrics").text:
        assert time.monotonic() < deadline
        send(http, "wake", 1)
        time.sleep(0.02)
    for query, status in [("filter=data.n<<", 422), ("filter=TRUE&policy=x", 400), ("filter=TRUE&dialect=x", 422)]:
        assert http.get(f"/stream?{query}").status_code == status


def test_heartbeats(http: httpx.Client) -> None:
    with http.stream("GET", "/stream?filter=FALSE") as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b": whimbrel\n\n"
        assert next(pieces) == b": \n\n"


def test_a_durable_stream_that_overflows_reads_on_from_the_log(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "TRUE")
            _, stream = broker.delivery.open_stream(held.id, ANYBODY, "sse")
            gaps: list[Truncated] = []

            async def tell_gap(gap: Truncated) -> None:
                gaps.append(gap)

            following = follow(stream, broker.delivery.reader_of(held), Cursor(held.number), 0.05, tell_gap)
            await publish(broker, event(0))
            seen = [(await anext(following))[0]]
            for start in range(1, 3_001, 500):  # three times what an outbox takes, and nobody reads
                await publish(broker, *(event(n) for n in range(start, start + 500)))
            assert stream.outbox.spilled and len(stream.outbox) == 0
            count = 1
            async with asyncio.timeout(60):
                while count < 3_001:
                    last, payloads = await anext(following)
                    count += len(payloads)
                    seen.append(last)
            assert seen == sorted(seen) and count == 3_001 and gaps == []
            await following.aclose()

    run(work)


def websocket(broker: BrokerProcess, path: str, **options: Any) -> ClientConnection:
    return connect(broker.url.replace("http", "ws") + path, subprotocols=["cloudevents.json"], proxy=None, **options)  # type: ignore[list-item]


def test_a_websocket_brings_events_with_cursors_and_takes_acknowledgements(
    http: httpx.Client, broker: BrokerProcess, mark: str
) -> None:
    id = create(http, filter=f"data.mark = '{mark}'", protocol="WS")
    send(http, mark, 1, 2)
    with websocket(broker, f"/subscriptions/{id}/ws") as ws:
        assert ws.subprotocol == "cloudevents.json"
        found = [msgspec.json.decode(ws.recv(20)) for _ in range(2)]
        send(http, mark, 3)
        found.append(msgspec.json.decode(ws.recv(20)))
        assert [one["data"]["n"] for one in found] == [1, 2, 3]
        ws.send(msgspec.json.encode({"ack": found[1]["whimbrelcursor"]}).decode())
        deadline = time.monotonic() + 20
        while http.get(f"/subscriptions/{id}").json()["cursor"] != found[1]["whimbrelcursor"]:
            assert time.monotonic() < deadline
    with websocket(broker, f"/subscriptions/{id}/ws") as ws:
        assert msgspec.json.decode(ws.recv(20))["data"]["n"] == 3


def test_credit_bounds_what_a_websocket_sends(http: httpx.Client, broker: BrokerProcess, mark: str) -> None:
    id = create(http, filter=f"data.mark = '{mark}'")
    send(http, mark, *range(10))
    with websocket(broker, f"/subscriptions/{id}/ws?credit=3") as ws:
        assert [msgspec.json.decode(ws.recv(20))["data"]["n"] for _ in range(3)] == [0, 1, 2]
        with pytest.raises(TimeoutError):
            ws.recv(0.2)
        ws.send('{"credit": 2}')
        assert [msgspec.json.decode(ws.recv(20))["data"]["n"] for _ in range(2)] == [3, 4]
        with pytest.raises(TimeoutError):
            ws.recv(0.2)


FRAMES = st.one_of(
    st.text(max_size=40),
    st.binary(max_size=40),
    st.sampled_from(['{"ack": "x"}', '{"credit": -1}', '{"ack": [1]}', '{"credit": 1e99}', "[" * 4000, "x" * 5000]),
)


@settings(max_examples=15)
@given(FRAMES)
def test_bad_frames_close_only_their_own_connection(frame: str | bytes) -> None:
    process, id = shared()
    with websocket(process, f"/subscriptions/{id}/ws") as ws:
        ws.send(frame)
        with pytest.raises(ConnectionClosed):  # noqa: PT012
            while True:
                ws.recv(20)
    assert httpx.get(f"{process.url}/healthz", **PLAIN).status_code == 200


_shared: list[tuple[BrokerProcess, str]] = []


def shared() -> tuple[BrokerProcess, str]:
    return _shared[0]


@pytest.fixture(autouse=True)
def _share(broker: BrokerProcess, http: httpx.Client) -> None:
    if not _shared:
        _shared.append((broker, create(http, filter="FALSE")))


def test_websockets_need_an_existing_subscription(broker: BrokerProcess) -> None:
    for path in ("/subscriptions/none/ws", "/nowhere"):
        with pytest.raises(Exception, match="40"):
            websocket(broker, path)


def test_slow_readers_do_not_slow_others_and_memory_is_bounded(tmp_path: Path) -> None:
    """Many streams that match everything, some of which never read: publishes go on, the others get all of it."""
    with (
        BrokerProcess(tmp_path) as process,
        httpx.Client(base_url=process.url, timeout=120, **PLAIN) as http,
        contextlib.ExitStack() as stack,
    ):
        http.post("/events", json={"n": -1})
        for _ in range(30):
            connection = stack.enter_context(contextlib.closing(socket.socket()))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", process.settings["port"]))
            connection.sendall(b"GET /stream?filter=TRUE HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        events = stack.enter_context(streamed(http, "/stream?filter=TRUE"))
        before = resident(process)
        padding = "x" * 4_000
        total = 8_000
        for start in range(0, total, 200):
            lines = b"\n".join(msgspec.json.encode({"n": n, "pad": padding}) for n in range(start, start + 200))
            http.post("/events", content=lines, headers={"content-type": "application/x-ndjson"})
            assert events.numbers(200) == list(range(start, start + 200))
        grown = resident(process) - before
        assert grown < 160 << 20, f"{grown >> 20} MiB"  # 32 MB were sent to each of 30: most of it must be gone
        shown = http.get("/metrics").text
        dropped = float(next(line for line in shown.splitlines() if line.startswith("whimbrel_dropped")).split()[1])
        assert dropped > 10_000


def resident(process: BrokerProcess) -> int:
    pages = int(Path(f"/proc/{process.process.pid}/statm").read_text().split()[1])
    return pages * 4096


def test_digests_come_in_time_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    behind = 0
    monkeypatch.setattr(streaming, "time_ns", lambda: time.time_ns() - behind * 1_000_000_000)
    waiting: list[StoredMessage] = []
    stream = Stream(Outbox("spill", "sse"), "owner", digest=DigestRequest(every="1s"))

    async def read(after: Cursor, _: int) -> tuple[list[StoredMessage], bool]:
        return [message for message in waiting if message.offset > after.offset], True

    async def tell_gap(_: Truncated) -> None:
        raise AssertionError

    async def work() -> None:
        nonlocal behind
        async with asyncio.timeout(30):
            async for _, payloads in follow(stream, read, Cursor(-1), 0.1, tell_gap):
                if payloads:
                    assert b"1970" not in payloads[0]
                    break
                if not waiting:  # it has found nothing, and waits for the end of a window
                    behind = 3_600
                    waiting.append(StoredMessage(0, b"{}", time=streaming.time_ns() // 1_000))

    asyncio.run(work())
