"""What strangers can send: other names and origins, heads without end, bombs, bad frames of TCP, HTTP and WebSocket."""

from __future__ import annotations

import contextlib
import gzip
import select
import socket
import struct
import time
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.processes import PLAIN, BrokerProcess
from tests.broker.test_http import subscribe
from whimbrel.client import Client

LINES = {"content-type": "application/x-ndjson"}


def test_without_tokens_only_loopback_names_may_call(broker: BrokerProcess, http: httpx.Client) -> None:
    port = broker.settings["port"]
    own = f"http://127.0.0.1:{port}"
    for host, origin, status in [
        (f"127.0.0.1:{port}", None, 200),
        (f"localhost:{port}", None, 200),
        (f"[::1]:{port}", None, 200),
        (f"127.0.0.1:{port}", own, 200),
        (f"evil.example:{port}", None, 403),
        (f"127.0.0.1.evil.example:{port}", None, 403),
        (f"127.0.0.1:{port}", "http://evil.example", 403),
        (f"127.0.0.1:{port}", "null", 403),
        (f"127.0.0.1:{port}", "http://127.0.0.1", 403),
    ]:
        headers = {"host": host} | ({} if origin is None else {"origin": origin})
        answer = http.get("/subscriptions", headers=headers)
        assert answer.status_code == status, (host, origin)
        assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_another_origin_opens_no_websocket(broker: BrokerProcess, http: httpx.Client) -> None:
    id = subscribe(http, filter="TRUE")
    for headers, status in [({}, 101), ({"origin": "http://evil.example"}, 403), ({"host": "evil.example"}, 403)]:
        assert upgraded(broker, f"/subscriptions/{id}/ws", headers) == status
    assert upgraded(broker, "/subscriptions/none/ws", {}) == 404
    assert upgraded(broker, f"/subscriptions/{id}/ws?credit=-1", {}) == 422
    assert http.get(f"/subscriptions/{id}/ws").status_code == 426


def test_other_origins_may_call_only_if_they_are_named(tmp_path: Path) -> None:
    page = "https://app.example"
    with (
        BrokerProcess(tmp_path, cors_origins=[page]) as process,
        httpx.Client(base_url=process.url, **PLAIN) as http,
    ):
        asked = {"origin": page, "access-control-request-method": "PUT"}
        flight = http.options("/subscriptions", headers=asked)
        assert flight.status_code == 204 and flight.headers["access-control-allow-origin"] == page
        assert "PUT" in flight.headers["access-control-allow-methods"]
        answer = http.get("/subscriptions", headers={"origin": page})
        assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == page
        for origin in ("https://evil.example", "https://app.example.evil.example", "null"):
            refused = http.options("/subscriptions", headers=asked | {"origin": origin})
            assert refused.status_code == 403 and "access-control-allow-origin" not in refused.headers
            assert http.get("/subscriptions", headers={"origin": origin}).status_code == 403


def test_heads_must_come_in_time_and_have_an_end(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, head_seconds=1.0) as process, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(raw(process)) for _ in range(20)]
        for number, connection in enumerate(slow):
            connection.sendall(b"POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\n"[: 2 * number])
        assert httpx.get(f"{process.url}/healthz", **PLAIN).status_code == 200
        for connection in slow:
            assert rest_of(connection)[:12] in (b"HTTP/1.1 408", b"")
        endless = stack.enter_context(raw(process))
        endless.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(OSError, match=r"reset|pipe|abort"):  # noqa: PT012
            for _ in range(10_000):
                endless.sendall(b"x-a: " + b"a" * 1000 + b"\r\n")
                time.sleep(0.001)
        assert httpx.get(f"{process.url}/healthz", **PLAIN).status_code == 200


def test_behind_an_answer_a_whole_head_must_come_in_time(tmp_path: Path) -> None:
    """Neither an empty line nor a body that nobody reads keeps a connection open."""
    whole = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    with BrokerProcess(tmp_path, head_seconds=1.0) as process, contextlib.ExitStack() as stack:
        for head, rest in [
            (whole + b"\r\n", b"\r\n"),
            (whole + b"transfer-encoding: chunked\r\n\r\n", b"9\r\nabc"),
            (whole + b"content-length: 9\r\n\r\n", b"abc"),
        ]:
            connection = stack.enter_context(raw(process))
            connection.sendall(head)
            answered(connection)
            connection.sendall(rest)
            assert b"HTTP/1.1 408" in rest_of(connection), rest
        # A WebSocket has no next head.
        connection = stack.enter_context(raw(process))
        connection.sendall(whole + b"\r\n")
        answered(connection)
        id = httpx.post(f"{process.url}/subscriptions", json={"filter": "FALSE"}, **PLAIN).json()["id"]
        connection.sendall(upgrade_request(f"/subscriptions/{id}/ws", {}))
        assert b"101" in connection.recv(4096)
        connection.settimeout(2.0)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_strangers_who_are_slow_use_up_nothing_that_others_need(tmp_path: Path) -> None:
    """They may send no large bodies, and do not count as one principal."""
    login = b"POST /login HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n"
    with BrokerProcess(tmp_path, connections_per_token=1) as process, contextlib.ExitStack() as stack:
        for _ in range(3):
            connection = stack.enter_context(raw(process))
            connection.sendall(login % 100 + b"{")
        assert httpx.get(f"{process.url}/healthz", **PLAIN).status_code == 200
        answer = httpx.post(f"{process.url}/login", content=b'{"token": "%b"}' % (b"x" * 100_000), **PLAIN)
        assert answer.status_code == 413


def test_a_head_that_is_too_long_is_refused_in_words_however_it_comes(broker: BrokerProcess) -> None:
    """In one piece; in several; as a URL; as trailers behind a body, which the parser would keep without end."""
    chunked = b"POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n"
    for pieces in [
        [b"GET /healthz HTTP/1.1\r\nx-a: " + b"a" * 40_000 + b"\r\n\r\n"],
        [b"GET /healthz HTTP/1.1\r\nx-a: ", *[b"a" * 10_000] * 100],
        [b"GET /healthz?" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n"],
        [chunked + b"0\r\nx-a: ", *[b"a" * 10_000] * 100],
        [chunked + b"0\r\n", *[b"x-a: a\r\n" * 1_000] * 100],
        [chunked + b"1;", *[b"a" * 10_000] * 100],
    ]:
        with raw(broker) as connection:
            with contextlib.suppress(OSError):  # it may be closed before all is sent
                for piece in pieces:
                    connection.sendall(piece)
            assert b"431" in rest_of(connection)[:12]
    with raw(broker) as connection:
        connection.sendall(b"this is not HTTP\r\n\r\n")
        assert rest_of(connection).endswith(
            b'{"error":{"code":"bad-request","message":"Expected a request of HTTP/1.1"}}'
        )


def test_a_long_body_is_not_part_of_the_head_that_follows_it(broker: BrokerProcess) -> None:
    body = b'"' + b"x" * 60_000 + b'"'
    with raw(broker) as connection:
        connection.sendall(b"POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % len(body))
        connection.sendall(body + b"GET /healthz HTT")
        assert connection.recv(15) == b"HTTP/1.1 200 OK"


def test_bombs_stay_packed(broker: BrokerProcess, http: httpx.Client) -> None:
    bomb = gzip.compress(b" " * (64 << 20))
    for encoding in ("gzip", "GZIP", "deflate", "br", "identity, gzip"):
        for path in ("/events", "/subscriptions", "/subscriptions/import"):
            answer = http.post(path, content=bomb, headers={"content-encoding": encoding})
            assert answer.status_code == 415, (encoding, path)
    # A WebSocket that offers compression gets none.
    id = subscribe(http, filter="FALSE")
    with raw(broker) as connection:
        offer = {"sec-websocket-extensions": "permessage-deflate"}
        connection.sendall(upgrade_request(f"/subscriptions/{id}/ws", offer))
        assert b"permessage-deflate" not in connection.recv(4096)


def test_large_bodies_are_refused_before_they_come(tmp_path: Path) -> None:
    """Also from somebody without a token: limits come before who somebody is."""
    with (
        BrokerProcess(tmp_path, body_bytes=1000, connections=3) as process,
        httpx.Client(base_url=process.url, **PLAIN) as stranger,
        httpx.Client(base_url=process.url, **PLAIN) as http,
    ):
        root = http.post("/tokens", json={"name": "root", "scopes": ["admin"]}).json()["token"]
        assert stranger.post("/events", content=b"x" * 1001).status_code == 413
        assert stranger.post("/events", content=b"x").status_code == 401
        http.headers["authorization"] = f"Bearer {root}"
        chunked = http.post("/events", content=iter([b"x" * 600, b"x" * 600]))
        assert chunked.status_code == 413
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(http.stream("GET", "/stream"))
            for client in (http, stranger):
                refused = client.get("/subscriptions")
                assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
            assert stranger.get("/healthz").status_code == 200  # it is busy, and works


def test_bodies_are_bounded_together(tmp_path: Path) -> None:
    """Many requests with large bodies that come slowly do not add up; who is refused may come again."""
    with BrokerProcess(tmp_path, bodies_bytes=1_000_000) as process, contextlib.ExitStack() as stack:
        head = b"POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 900001\r\n\r\n"
        deadline = time.monotonic() + 20
        kind = {"content-type": "application/json"}
        slow: socket.socket | None = None
        while True:
            if slow is None or select.select([slow], [], [], 0)[0]:  # refused itself: the other body was there first
                slow = stack.enter_context(raw(process))
                slow.sendall(head + b" " * 900_000)
            answer = httpx.post(f"{process.url}/events", content=b"[%b]" % (b" " * 200_000), headers=kind, **PLAIN)
            if answer.status_code == 503 or time.monotonic() > deadline:
                break
        assert answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1
        assert httpx.get(f"{process.url}/subscriptions", **PLAIN).status_code == 200
        slow.sendall(b"1")
        assert slow.recv(1000).startswith(b"HTTP/1.1 200")
        answer = httpx.post(f"{process.url}/events", content=b"[%b]" % (b" " * 200_000), headers=kind, **PLAIN)
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /subscriptions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET /subscriptions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -1\r\n\r\n",
        b"GET /subscriptions HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: evil.example\r\n\r\n",
        b"GET /subscriptions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n",
        b"GET /subscriptions HTTP/1.1\r\nhost: 127.0.0.1\r\norigin: http://127.0.0.1\r\norigin: http://x\r\n\r\n",
        b"POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\nce-id: 1\r\nce-id: 2\r\ncontent-length: 2\r\n\r\n{}",
        b"POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-type: text/plain\r\n"
        b"content-length: 2\r\n\r\n{}",
        b"GET /subscriptions/%ff%00/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"GET /subscriptions/\xff\xfe HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"GET /subscriptions?limit=%ff HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"GET /stream?filter=%ff%fe HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"GET /subscriptions HTTP/1.1\r\nhost: \xff\xff\r\n\r\n",
        b"POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\nabc",
        b"POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"\x00\x01\x02 garbage\r\n\r\n",
    ],
)
def test_odd_requests_get_a_4xx(broker: BrokerProcess, head: bytes) -> None:
    with raw(broker) as connection:
        connection.sendall(head)
        assert connection.recv(1000).startswith(b"HTTP/1.1 4")


@settings(max_examples=20, deadline=None)
@given(
    st.binary(max_size=300), st.sampled_from([b"", b"GET ", b"POST /events HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nhost: "])
)
def test_random_bytes_break_nothing(content: bytes, start: bytes) -> None:
    process = shared()
    with raw(process) as connection, contextlib.suppress(OSError):
        connection.sendall(start + content + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert not rest_of(connection).startswith(b"HTTP/1.1 5")
    assert httpx.get(f"{process.url}/healthz", **PLAIN).status_code == 200


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 255), st.integers(0, 255), st.binary(max_size=200))
def test_random_frames_end_only_their_own_websocket(first: int, second: int, content: bytes) -> None:
    """Any head of a frame, also with reserved bits, unknown operations, no mask, or a length that never comes."""
    process = shared()
    id = _shared[1]
    with raw(process) as connection, contextlib.suppress(OSError):
        connection.sendall(upgrade_request(f"/subscriptions/{id}/ws", {}))
        assert connection.recv(4096).startswith(b"HTTP/1.1 101")
        connection.sendall(bytes([first, second]) + content + struct.pack("!BBI", 0x88, 0x80, 0))
        connection.shutdown(socket.SHUT_WR)
        rest_of(connection)
    assert httpx.get(f"{process.url}/healthz", **PLAIN).status_code == 200


def test_a_broker_stops_while_a_socket_closes_that_has_not_read_everything(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as process, Client(process.url) as client:
        id = client.create("TRUE")["id"]
        client.publish([{"pad": "x" * 500_000} for _ in range(20)])
        with raw(process) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.sendall(upgrade_request(f"/subscriptions/{id}/ws?after=-1", {}))
            assert connection.recv(12) == b"HTTP/1.1 101"
            time.sleep(0.5)  # what the system buffers is sent, the rest waits
            connection.sendall(struct.pack("!BBI", 0x88, 0x80, 0))
            time.sleep(0.2)  # the broker answers, and waits for the rest to be read
            assert process.stop() == 0


def test_lines_are_a_stream_of_any_length(broker: BrokerProcess, http: httpx.Client) -> None:
    id = subscribe(http, filter="data.stream = 1")
    count = 0

    def lines() -> object:
        nonlocal count
        for number in range(120):  # more than the body of another request may have
            pad = b"x" * 150_000
            yield b'{"stream":1,"n":%d,"pad":"%b"}\n{"n' % (number, pad)
            yield b'":-1}\nnonsense\n'
            count += 1

    answer = http.post("/events", content=lines(), headers=LINES)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert len(results) == 3 * count == 360
    assert ["error" in one for one in results] == [False, False, True] * count
    assert http.get(f"/subscriptions/{id}").json()["lag"] == count
    # Reads end after some bytes, not after some messages.
    pulled = http.get(f"/subscriptions/{id}/messages", params={"limit": 1000}).json()["messages"]
    assert 1 < len(pulled) < count
    long = http.post("/events", content=b'{"a":"' + b"x" * (3 << 20) + b'"}\n{"a":1}', headers=LINES).json()["results"]
    assert long[0]["error"]["code"] == "too-large" and "offset" in long[1]


def raw(process: BrokerProcess) -> contextlib.closing[socket.socket]:
    connection = socket.create_connection(("127.0.0.1", process.settings["port"]))
    connection.settimeout(20)
    return contextlib.closing(connection)


def answered(connection: socket.socket) -> None:
    """Read a short answer in JSON."""
    found = b""
    while not found.endswith(b"}"):
        found += connection.recv(4096)


def rest_of(connection: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            found += piece
    return found


def upgrade_request(path: str, headers: dict[str, str]) -> bytes:
    all_headers = {
        "host": "127.0.0.1",
        "upgrade": "websocket",
        "connection": "upgrade",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    } | headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()


def upgraded(process: BrokerProcess, path: str, headers: dict[str, str]) -> int:
    with raw(process) as connection:
        connection.sendall(upgrade_request(path, headers))
        return int(connection.recv(4096).split()[1])


_shared: tuple[BrokerProcess, str]


def shared() -> BrokerProcess:
    return _shared[0]


@pytest.fixture(autouse=True, scope="module")
def _share(broker: BrokerProcess) -> None:
    global _shared  # noqa: PLW0603
    with httpx.Client(base_url=broker.url, **PLAIN) as http:
        _shared = broker, subscribe(http, filter="FALSE")
