"""Publish to stream and fan-out: how long events take to listeners that match them all, and how many are delivered."""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from pathlib import Path
from typing import Any

from whimbrel.lab.measure.broker_process import BATCH, BrokerProcess, Connection, percentile

_EVENT = b'{"specversion":"1.0","id":"s%d","source":"bench","type":"e","data":{"bench":1,"sent":%f}}'
_SENT = re.compile(rb'"sent":([0-9.]+)}')


def measure_streams(directory: Path, streams: int, per_second: int, count: int) -> dict[str, Any]:
    """Publish at a rate to streams that match everything; milliseconds from publish to stream."""
    with BrokerProcess(directory) as broker:
        run = _StreamRun(broker, streams, per_second, count)
        mine, its = time.process_time(), broker.cpu_seconds()
        seconds = asyncio.run(run.work())
        broker_cpu = broker.cpu_seconds() - its
    arrived = run.arrived
    return {
        "streams": streams,
        "events_per_second": per_second,
        "deliveries_per_second": round(len(arrived) / seconds),
        "p50_ms": round(statistics.median(arrived), 2),
        "p99_ms": round(percentile(arrived, 0.99), 2),
        "messages_per_read": round(len(arrived) / max(1, run.reads), 1),
        "broker_cpu": round(broker_cpu / seconds, 2),
        "client_cpu": round((time.process_time() - mine) / seconds, 2),
    }


def sent_times(text: bytes) -> tuple[list[float], bytes]:
    """When the events in a piece of a stream were sent, and what is left behind the last of them.

    >>> sent_times(b'data: {"sent":1.5}\\n\\ndata: {"sent":2')
    ([1.5], b'\\n\\ndata: {"sent":2')
    """
    found = list(_SENT.finditer(text))
    return [float(sent[1]) for sent in found], text[found[-1].end() if found else 0 :]


class _StreamRun:
    """One publisher and many listeners. `arrived` has the milliseconds of every delivery."""

    def __init__(self, broker: BrokerProcess, streams: int, per_second: int, count: int) -> None:
        self.arrived: list[float] = []
        self.reads = 0
        self._broker = broker
        self._streams = streams
        self._per_second = per_second
        self._count = count

    async def work(self) -> float:
        """Publish all events and wait until every listener has them; seconds."""
        listening = [asyncio.create_task(self._listen()) for _ in range(self._streams)]
        await asyncio.sleep(1 + self._streams / 200)
        began = time.perf_counter()
        await self._publish(began)
        async with asyncio.timeout(120):
            await asyncio.gather(*listening)
        return time.perf_counter() - began

    async def _publish(self, began: float) -> None:
        publisher = await Connection.open(self._broker.host, self._broker.port)
        number = 0
        while number < self._count:
            now = time.perf_counter()
            due = min(self._count, int((now - began) * self._per_second) + 1)
            if due > number:
                group = b",".join(_EVENT % (n, now) for n in range(number, due))
                await publisher.request("POST", "/events", b"[" + group + b"]", BATCH)
                number = due
            await asyncio.sleep(max(0.0, began + number / self._per_second - time.perf_counter()))
        publisher.close()

    async def _listen(self) -> None:
        connection = await Connection.open(self._broker.host, self._broker.port)
        connection.send("GET", "/stream?filter=data.bench=1")
        await connection.reader.readuntil(b": whimbrel")
        rest = b""
        seen = 0
        while seen < self._count:
            piece = await connection.reader.read(1 << 16)
            now = time.perf_counter()
            self.reads += 1
            found, rest = sent_times(rest + piece)
            seen += len(found)
            self.arrived.extend((now - sent) * 1e3 for sent in found)
        connection.close()
