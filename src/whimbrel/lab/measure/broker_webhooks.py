"""Webhooks: how many messages a broker delivers to a receiver on loopback, in batches and one by one.

The receiver runs in this process and does as little as HTTP/1.1 allows. Broker and receiver share the machine.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.lab.measure.broker_process import BATCH, BrokerProcess, Connection

_EVENT = b'{"specversion":"1.0","id":"w%d","source":"bench","type":"e","data":{"bench":1,"text":"%b"}}'
_LENGTH = re.compile(rb"content-length: ([0-9]+)")
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_PUBLISHED = 500


class _Counted:
    """Messages and requests that came; `done` when there are enough messages."""

    def __init__(self, wanted: int) -> None:
        self.messages = self.requests = 0
        self.done = asyncio.Event()
        self._wanted = wanted
        self.connections: set[asyncio.Transport] = set()

    def add(self, messages: int) -> None:
        """Count a request and its messages."""
        self.requests += 1
        self.messages += messages
        if self.messages >= self._wanted:
            self.done.set()


class _Receiver(asyncio.Protocol):
    """Answers every request with 204, and counts the events in it."""

    def __init__(self, counted: _Counted) -> None:
        self._counted = counted
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of a new connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._counted.connections.add(transport)

    def data_received(self, data: bytes) -> None:
        """Parse part of a request, or several requests, and answer those that are complete."""
        assert self._transport is not None
        self._rest += data
        while (head := self._rest.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._rest, 0, head)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(self._rest) < end:
                return
            messages = self._rest.count(b'"specversion"', head, end)
            self._rest = self._rest[end:]
            self._transport.write(_ANSWER)
            self._counted.add(messages)


def measure_webhooks(directory: Path, subscriptions: int, events: int, batch: int | None) -> dict[str, Any]:
    """Publish events that all subscriptions match, and wait until their receiver has them all."""
    with BrokerProcess(directory, {"WHIMBREL_WEBHOOK_NETWORKS": "127.0.0.0/8"}) as broker:
        broker_before, client_before = broker.cpu_seconds(), time.process_time()
        seconds, requests = asyncio.run(_run(broker, subscriptions, events, batch))
        broker_cpu, receiver_cpu = broker.cpu_seconds() - broker_before, time.process_time() - client_before
    deliveries = subscriptions * events
    return {
        "subscriptions": subscriptions,
        "events": events,
        "batch": batch or 1,
        "deliveries_per_second": round(deliveries / seconds),
        "events_per_request": round(deliveries / requests, 1),
        "broker_us_per_delivery": round(broker_cpu / deliveries * 1e6, 1),
        "receiver_us_per_delivery": round(receiver_cpu / deliveries * 1e6, 1),
    }


async def _run(broker: BrokerProcess, subscriptions: int, events: int, batch: int | None) -> tuple[float, int]:
    counted = _Counted(subscriptions * events)
    server = await asyncio.get_running_loop().create_server(lambda: _Receiver(counted), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connection = await Connection.open(broker.host, broker.port)
    settings = {"consent": "waived"} | ({} if batch is None else {"batch": batch})
    for number in range(subscriptions):
        asked = {
            "filter": "data.bench = 1", "protocol": "HTTP", "sink": f"http://127.0.0.1:{port}/{number}",
            "protocolsettings": settings,
        }  # fmt: skip
        await connection.request("POST", "/subscriptions", msgspec.json.encode(asked))
    began = time.perf_counter()
    for first in range(0, events, _PUBLISHED):
        group = b",".join(_EVENT % (n, b"x" * 200) for n in range(first, min(events, first + _PUBLISHED)))
        await connection.request("POST", "/events", b"[" + group + b"]", BATCH)
    async with asyncio.timeout(300):
        await counted.done.wait()
    seconds = time.perf_counter() - began
    connection.close()
    server.close()
    for transport in counted.connections:
        transport.abort()
    await asyncio.sleep(0)  # connections are closed in the next round of the loop
    return seconds, counted.requests
