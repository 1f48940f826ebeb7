"""NATS JetStream and Redis Streams on what a broker does without matching: publish and plain fan-out.

Bias: neither matches anything; every listener gets every event. Redis syncs each group of appends (appendfsync always),
as the broker does. JetStream 2.9 syncs its files every two minutes, so its publishes survive a crash of the process but
not a loss of power. Their protocols are spoken here over raw sockets, as the broker's is. A server that is not
installed (Debian: nats-server, redis-server) is left out with a reason.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import statistics
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from whimbrel.lab.measure.broker_bench import RivalTask
from whimbrel.lab.measure.broker_process import cpu_seconds, percentile
from whimbrel.lab.measure.broker_streams import sent_times

_START_SECONDS = 10.0
_CONNECTIONS = 8
_PER_SECOND = 150
"""Events per second that go to many listeners."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class RivalBroker(ABC):
    """One server: how it is started, and its words for publish and listen."""

    name: ClassVar[str]
    program: ClassVar[str]

    @abstractmethod
    def command(self, directory: Path, port: int) -> list[str]:
        """The command that starts it, durable, on loopback."""

    @abstractmethod
    async def prepare(self, connection: Streams, number: int) -> None:
        """Send what a publisher's connection needs first."""

    @abstractmethod
    def publish(self, number: int, event: bytes) -> bytes:
        """The request that appends an event, on connection `number`."""

    @abstractmethod
    def acknowledged(self, piece: bytes) -> int:
        """How many events the answers in a piece acknowledge; a piece may end anywhere behind a line."""

    @abstractmethod
    async def listen(self, connection: Streams, count: int, times: list[float]) -> None:
        """Read events until `count` have come, and note the milliseconds that each took."""


class NatsJetStream(RivalBroker):
    """A stream on files; listeners are subscribers of its subject."""

    name, program = "NATS JetStream", "nats-server"

    def command(self, directory: Path, port: int) -> list[str]:
        return [self.program, "-js", "-sd", str(directory), "-a", "127.0.0.1", "-p", str(port)]

    async def prepare(self, connection: Streams, number: int) -> None:
        reader, writer = connection
        await reader.readline()
        writer.write(b'CONNECT {"verbose":false}\r\nSUB acks.%d 1\r\n' % number)
        if number == 0:
            stream = json.dumps({"name": "BENCH", "subjects": ["bench"], "storage": "file"}).encode()
            writer.write(b"SUB made 2\r\nPUB $JS.API.STREAM.CREATE.BENCH made %d\r\n%b\r\n" % (len(stream), stream))
            await reader.readuntil(b"}\r\n")

    def publish(self, number: int, event: bytes) -> bytes:
        return b"PUB bench acks.%d %d\r\n%b\r\n" % (number, len(event), event)

    def acknowledged(self, piece: bytes) -> int:
        return piece.count(b'"seq":')

    async def listen(self, connection: Streams, count: int, times: list[float]) -> None:
        reader, writer = connection
        await reader.readline()
        writer.write(b'CONNECT {"verbose":false}\r\nSUB bench 1\r\n')
        seen = 0
        while seen < count:
            piece = await reader.readuntil(b"}\r\n")
            now = time.perf_counter()
            found, _ = sent_times(piece)
            times += [(now - sent) * 1e3 for sent in found]
            seen += len(found)


class RedisStreams(RivalBroker):
    """A stream in memory with an append-only file that is synced before the answer; listeners block on XREAD."""

    name, program = "Redis Streams", "redis-server"

    def command(self, directory: Path, port: int) -> list[str]:
        flags = {"port": port, "bind": "127.0.0.1", "dir": directory, "appendonly": "yes", "appendfsync": "always"}
        chosen = [text for name, value in flags.items() for text in (f"--{name}", str(value))]
        return [self.program, *chosen, "--save", ""]

    async def prepare(self, connection: Streams, number: int) -> None:
        """Send nothing: a stream is made by its first entry."""

    def publish(self, number: int, event: bytes) -> bytes:
        return _resp(b"XADD", b"bench", b"*", b"e", event)

    def acknowledged(self, piece: bytes) -> int:
        return piece.count(b"$")

    async def listen(self, connection: Streams, count: int, times: list[float]) -> None:
        reader, writer = connection
        last, seen = b"0", 0
        while seen < count:
            writer.write(_resp(b"XREAD", b"COUNT", b"1000", b"BLOCK", b"0", b"STREAMS", b"bench", last))
            head = b""
            while head[:1] != b"*":
                head = await reader.readline()
            for _ in range(3):  # a pair of the stream's name and its entries, the length of the name, the name
                await reader.readline()
            entries = int((await reader.readline())[1:])
            for _ in range(entries):
                lines = [await reader.readline() for _ in range(8)]
                now = time.perf_counter()
                last = lines[2].strip()
                times += [(now - sent) * 1e3 for sent in sent_times(lines[7])[0]]
            seen += entries


def measure(rival: RivalBroker, task: RivalTask) -> dict[str, Any]:
    """Measure a server; if it is not installed, `skipped` has the reason."""
    if shutil.which(rival.program) is None:
        return {"name": rival.name, "skipped": f"{rival.program} is not installed"}
    events, port, directory = task.events, _free_port(), task.directory / rival.program
    with _running(rival, directory, port) as server:
        server_before, client_before = cpu_seconds(server), time.process_time()
        seconds = asyncio.run(_publish_all(rival, port, events, task.batch))
        published = {
            "events_per_second": round(len(events) / seconds),
            "server_us_per_event": round((cpu_seconds(server) - server_before) / len(events) * 1e6, 1),
            "client_us_per_event": round((time.process_time() - client_before) / len(events) * 1e6, 1),
        }
    with _running(rival, directory, port) as server:
        server_before, client_before = cpu_seconds(server), time.process_time()
        times, seconds = asyncio.run(_fan_out(rival, port, task.streams, task.fan_out))
        server_cpu, client_cpu = cpu_seconds(server) - server_before, time.process_time() - client_before
    delivered = {
        "streams": task.streams,
        "deliveries_per_second": round(len(times) / seconds),
        "p50_ms": round(statistics.median(times), 2),
        "p99_ms": round(percentile(times, 0.99), 2),
        "server_cpu": round(server_cpu / seconds, 2),
        "client_cpu": round(client_cpu / seconds, 2),
    }
    return {"name": rival.name, "publish": published, "fan_out": delivered}


@contextmanager
def _running(rival: RivalBroker, directory: Path, port: int) -> Iterator[int]:
    """The process of a server that is ready, with an empty directory, which is deleted when it has ended."""
    directory.mkdir(parents=True)
    server = subprocess.Popen(rival.command(directory, port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield server.pid
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(directory)


async def _publish_all(rival: RivalBroker, port: int, events: Sequence[bytes], batch: int) -> float:
    """Publish in batches over some connections, each of which waits for the answers of its batch; seconds."""
    waiting = [events[start : start + batch] for start in range(0, len(events), batch)]
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(_CONNECTIONS)]
    for number, connection in enumerate(opened):
        await rival.prepare(connection, number)

    async def work(number: int) -> None:
        reader, writer = opened[number]
        while waiting:
            group = waiting.pop()
            writer.write(b"".join(rival.publish(number, event) for event in group))
            left = len(group)
            while left > 0:
                left -= rival.acknowledged(await reader.readline())
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(_CONNECTIONS)))
    return time.perf_counter() - began


async def _fan_out(rival: RivalBroker, port: int, streams: int, count: int) -> tuple[list[float], float]:
    """Publish at a rate to many listeners; the milliseconds of all deliveries, and the seconds of the run."""
    times: list[float] = []
    reader, writer = publisher = await asyncio.open_connection("127.0.0.1", port)
    await rival.prepare(publisher, 0)
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(streams)]
    listening = [asyncio.create_task(rival.listen(connection, count, times)) for connection in opened]
    await asyncio.sleep(1 + streams / 500)
    began = time.perf_counter()
    number = 0
    while number < count:
        due = min(count, int((time.perf_counter() - began) * _PER_SECOND) + 1)
        sent = time.perf_counter()
        group = [b'{"id":"s%d","data":{"bench":1,"sent":%f}}' % (one, sent) for one in range(number, due)]
        writer.write(b"".join(rival.publish(0, event) for event in group))
        left, number = len(group), due
        while left > 0:
            left -= rival.acknowledged(await reader.readline())
        await asyncio.sleep(max(0.0, began + number / _PER_SECOND - time.perf_counter()))
    async with asyncio.timeout(120):
        await asyncio.gather(*listening)
    seconds = time.perf_counter() - began
    for _, one in opened:
        one.close()
    return times, seconds


def _resp(*words: bytes) -> bytes:
    """A command in the protocol of Redis."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
