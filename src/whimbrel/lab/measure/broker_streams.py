"""Publish to stream and fan-out: how long events take to listeners that match them all, and how many are delivered."""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from whimbrel.lab.measure.broker_process import BATCH, BrokerFailed, BrokerProcess, Connection, percentile

_EVENT = b'{"specversion":"1.0","id":"s%d","source":"bench","type":"e","data":{"bench":1,"sent":%f}}'
_PATIENCE = 300.0
"""Seconds beyond those of publishing until every stream must have every event."""
_SENT = re.compile(rb'"sent":([0-9.]+)}')


def measure_streams(directory: Path, streams: int, per_second: int, count: int) -> dict[str, Any]:
    """Publish at a rate to streams that match everything; milliseconds from publish to stream."""
    with BrokerProcess(directory) as broker:
        return asyncio.run(_measured(broker, streams, per_second, count))


async def _measured(broker: BrokerProcess, streams: int, per_second: int, count: int) -> dict[str, Any]:
    """Open the streams, publish all events, and wait until every stream has them."""
    arrived: list[float] = []
    reads = 0
    clocks: list[float] = []  # when all streams were open
    opened = asyncio.Barrier(streams + 1)

    async def listen() -> None:
        nonlocal reads
        with closing(await Connection.open(broker.host, broker.port)) as connection:
            connection.send("GET", "/stream?filter=data.bench=1")
            await connection.reader.readuntil(b": whimbrel")
            await opened.wait()
            rest, seen = b"", 0
            while seen < count:
                piece = await connection.reader.read(1 << 16)
                if not piece:
                    raise BrokerFailed(f"Expected {count:,} events of a stream, but it ended after {seen:,}")
                now = time.perf_counter()
                reads += 1
                found, rest = sent_times(rest + piece)
                seen += len(found)
                arrived.extend((now - sent) * 1e3 for sent in found)

    async def publish() -> None:
        await opened.wait()
        clocks.extend((time.perf_counter(), time.process_time(), broker.cpu_seconds()))
        await _publish(broker, per_second, count)

    async with asyncio.timeout(_PATIENCE + count / per_second):
        await asyncio.gather(publish(), *(listen() for _ in range(streams)))
    began, client_before, broker_before = clocks
    seconds = time.perf_counter() - began
    return {
        "streams": streams,
        "events_per_second": per_second,
        "deliveries_per_second": round(len(arrived) / seconds),
        "p50_ms": round(statistics.median(arrived), 2),
        "p99_ms": round(percentile(arrived, 0.99), 2),
        "messages_per_read": round(len(arrived) / max(1, reads), 1),
        "broker_cpu": round((broker.cpu_seconds() - broker_before) / seconds, 2),
        "client_cpu": round((time.process_time() - client_before) / seconds, 2),
    }


async def _publish(broker: BrokerProcess, per_second: int, count: int) -> None:
    """Publish events at an even rate; what is due by now goes in one request."""
    with closing(await Connection.open(broker.host, broker.port)) as publisher:
        began = time.perf_counter()
        number = 0
        while number < count:
            now = time.perf_counter()
            due = min(count, int((now - began) * per_second) + 1)
            if due > number:
                group = b",".join(_EVENT % (n, now) for n in range(number, due))
                await publisher.request("POST", "/events", b"[" + group + b"]", BATCH)
                number = due
            await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))


def sent_times(text: bytes) -> tuple[list[float], bytes]:
    """When the events in a piece of a stream were sent, and what is left behind the last of them.

    >>> sent_times(b'data: {"sent":1.5}\\n\\ndata: {"sent":2')
    ([1.5], b'\\n\\ndata: {"sent":2')
    """
    found = list(_SENT.finditer(text))
    return [float(sent[1]) for sent in found], text[found[-1].end() if found else 0 :]
