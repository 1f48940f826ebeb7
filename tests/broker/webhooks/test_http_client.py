"""The HTTP client of webhooks against receivers that do what they should not, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.broker.inside import run
from whimbrel.broker.requests.webhook_sinks import SinkUrl
from whimbrel.broker.webhooks import http_client
from whimbrel.broker.webhooks.addresses import Addresses
from whimbrel.broker.webhooks.connection import BODY_BYTES, HEAD_BYTES, ConnectionFailed, HttpResponse
from whimbrel.broker.webhooks.http_client import WebhookClient

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi"


async def with_server(
    serve: Serve,
    work: Callable[[WebhookClient, SinkUrl], Awaitable[None]],
    seconds: float = 5.0,
    host: str = "127.0.0.1",
) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, host, 0)
    client = WebhookClient(Addresses(["127.0.0.0/8"]), seconds)
    try:
        await work(client, SinkUrl(False, "127.0.0.1", server.sockets[0].getsockname()[1], "/"))
    finally:
        client.close()
        server.close()


def answering(answer: bytes, close: bool = False) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readexactly(len(REQUEST))
            writer.write(answer)
            await writer.drain()
            if close:
                return

    return serve


GOOD = {
    b"HTTP/1.1 204 No Content\r\n\r\n": (204, {}),
    b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc": (200, {}),
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n": (200, {}),
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Slow\r\nRetry-After: 7\r\ncontent-length: 0\r\n\r\n": (
        429,
        {"retry-after": "7"},
    ),
    b"HTTP/1.1 103 Early Hints\r\nretry-after: 9\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n": (200, {}),
}


@pytest.mark.parametrize("answer", GOOD)
def test_a_response_is_read_and_the_connection_used_again(answer: bytes) -> None:
    connections = 0
    inner = answering(answer)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await inner(reader, writer)

    async def work(client: WebhookClient, url: SinkUrl) -> None:
        for _ in range(3):
            assert await client.request(url, REQUEST) == HttpResponse(*GOOD[answer])

    run(lambda: with_server(serve, work))
    assert connections == 1


def test_connections_that_are_in_use_do_not_count_as_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "IDLE_CONNECTIONS", 1)
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests = 0
        while True:
            await reader.readexactly(len(REQUEST))
            requests += 1
            if requests == 2:
                is_asked.set()
                await may_answer.wait()
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            await writer.drain()

    async def work(client: WebhookClient, url: SinkUrl) -> None:
        await client.request(url, REQUEST)
        second = asyncio.create_task(client.request(url, REQUEST))
        await is_asked.wait()
        for host in ("127.0.0.2", "127.0.0.3"):  # the second takes the place of the first
            assert (await client.request(url._replace(host=host), REQUEST)).status == 204
        may_answer.set()
        assert (await second).status == 204

    run(lambda: with_server(serve, work, host="0.0.0.0"))


def test_without_a_length_the_body_ends_with_the_connection() -> None:
    async def work(client: WebhookClient, url: SinkUrl) -> None:
        for _ in range(2):
            assert (await client.request(url, REQUEST)).status == 200

    run(lambda: with_server(answering(b"HTTP/1.0 200 OK\r\n\r\nabc", close=True), work))


def test_a_connection_that_was_closed_meanwhile_is_replaced() -> None:
    async def work(client: WebhookClient, url: SinkUrl) -> None:
        for _ in range(3):
            assert (await client.request(url, REQUEST)).status == 204
            await asyncio.sleep(0)

    run(lambda: with_server(answering(b"HTTP/1.1 204 No Content\r\n\r\n", close=True), work))


BAD = [
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\x00" * 100,
    b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * (2 * HEAD_BYTES),
    b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * HEAD_BYTES + b"\r\n",
]


@pytest.mark.parametrize("answer", BAD, ids=["ssh", "zeros", "long header", "many headers"])
def test_what_is_no_response_or_too_long_is_a_failure(answer: bytes) -> None:
    async def work(client: WebhookClient, url: SinkUrl) -> None:
        with pytest.raises(ConnectionFailed):
            await client.request(url, REQUEST)

    run(lambda: with_server(answering(answer, close=True), work))


def test_an_endless_body_is_cut_and_the_status_counts() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(REQUEST))
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"%x\r\n%b\r\n" % (BODY_BYTES, b"x" * BODY_BYTES))
            await writer.drain()

    async def work(client: WebhookClient, url: SinkUrl) -> None:
        assert (await client.request(url, REQUEST)).status == 200

    run(lambda: with_server(serve, work))


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab"])
def test_time_is_up_for_a_receiver_that_does_not_go_on(start: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(REQUEST))
        writer.write(start)
        await reader.read()

    async def work(client: WebhookClient, url: SinkUrl) -> None:
        if start.endswith(b"ab"):  # the head was whole
            assert (await client.request(url, REQUEST)).status == 200
        else:
            with pytest.raises(ConnectionFailed, match="within"):
                await client.request(url, REQUEST)

    run(lambda: with_server(serve, work, 0.2))


def test_a_port_where_nobody_listens() -> None:
    async def work(client: WebhookClient, url: SinkUrl) -> None:
        with pytest.raises(ConnectionFailed, match="connect"):
            await client.request(url._replace(port=1), REQUEST)

    run(lambda: with_server(answering(b""), work))


def test_a_certificate_must_be_for_the_name_although_the_address_is_pinned(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hook.test"]
    names = ["-addext", "subjectAltName=DNS:hook.test"]
    subprocess.run([*command, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def resolve(_: str) -> list[str]:
        return ["127.0.0.1"]

    async def work() -> None:
        serve = answering(b"HTTP/1.1 204 No Content\r\n\r\n")
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        trusting = WebhookClient(Addresses(["127.0.0.0/8"], resolve), 5.0, str(certificate))
        assert (await trusting.request(SinkUrl(True, "hook.test", port, "/"), REQUEST)).status == 204
        for client, host in (
            (trusting, "other.test"),
            (WebhookClient(Addresses(["127.0.0.0/8"], resolve), 5.0), "hook.test"),
        ):
            with pytest.raises(ConnectionFailed, match="certificate"):
                await client.request(SinkUrl(True, host, port, "/"), REQUEST)
        trusting.close()
        server.close()

    run(work)
