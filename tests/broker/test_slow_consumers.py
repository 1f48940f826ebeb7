"""Many streams, a tenth of which hardly read: memory stays bounded, and the others get everything in order."""

from __future__ import annotations

import asyncio
import re
import resource
import socket
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from tests.broker.processes import PLAIN, BrokerProcess

EVENTS, BATCH, PADDING = 600, 50, "x" * 4_000
_ID = re.compile(rb"id: (\d+)\n")


class FastReader:
    """Reads a stream as fast as it comes."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    async def read(self, port: int, path: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        writer.write(b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" % path.encode())
        try:
            rest = b""
            while piece := await reader.read(1 << 17):
                rest += piece
                cut = rest.rfind(b"\n\n") + 1  # 0 where no event is whole yet
                self.offsets += map(int, _ID.findall(rest[:cut]))
                rest = rest[cut:]
        finally:
            writer.close()


async def drip(sockets: list[socket.socket]) -> None:
    """Read 1 KB a second from each."""
    while True:
        for one in sockets:
            with suppress(BlockingIOError):
                one.recv(100)
        await asyncio.sleep(0.1)


def slow_socket(port: int, path: str) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" % path.encode())
    connection.setblocking(False)
    return connection


def resident(process: BrokerProcess) -> int:
    """Bytes of memory that a broker uses."""
    return int(Path(f"/proc/{process.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def metric(http: httpx.Client, name: str) -> float:
    return float(
        next(line for line in http.get("/metrics").text.splitlines() if line.startswith(f"{name} ")).split()[1]
    )


async def publish(http: httpx.AsyncClient, first: int) -> list[int]:
    lines = "\n".join(f'{{"n": {number}, "padding": "{PADDING}"}}' for number in range(first, first + BATCH))
    answer = await http.post("/events", content=lines, headers={"content-type": "application/x-ndjson"})
    return [result["offset"] for result in answer.json()["results"]]


def slow_and_fast(directory: Path, streams: int, growth: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * streams)), hard))
    with (
        BrokerProcess(directory) as process,
        httpx.Client(base_url=process.url, timeout=120, **PLAIN) as http,
    ):
        ids = [http.post("/subscriptions", json={"filter": "TRUE"}).json()["id"] for _ in range(streams // 5)]
        paths = [f"/subscriptions/{id}/stream" for id in ids] + ["/stream?filter=TRUE"] * (streams - len(ids))
        slow_ids, slow_paths = ids[::10], paths[::10]
        fast_paths = [path for place, path in enumerate(paths) if place % 10]
        port = process.settings["port"]

        async def work() -> int:
            sockets = [slow_socket(port, path) for path in slow_paths]
            readers = [FastReader() for _ in fast_paths]
            tasks = [asyncio.create_task(drip(sockets))]
            tasks += [asyncio.create_task(one.read(port, path)) for one, path in zip(readers, fast_paths, strict=True)]
            while await asyncio.to_thread(metric, http, "whimbrel_streams") < streams:
                await asyncio.sleep(0.05)
            before = resident(process)
            offsets: list[int] = []
            async with httpx.AsyncClient(base_url=process.url, timeout=120, **PLAIN) as publisher:
                for first in range(0, EVENTS, BATCH):
                    offsets += await publish(publisher, first)
                    while any(len(one.offsets) < len(offsets) for one in readers):
                        await asyncio.sleep(0.005)
            grown = resident(process) - before
            for task in tasks:
                task.cancel()
            for one in sockets:
                one.close()
            assert all(one.offsets == offsets for one in readers)
            return grown

        grown = asyncio.run(work())
        assert grown < growth, f"{grown >> 20} MiB"
        assert metric(http, "whimbrel_dropped_messages_total") > 0 and metric(http, "whimbrel_spills_total") > 0
        for id in slow_ids:  # durable: everything is still there
            found: list[int] = []
            while more := http.get(
                f"/subscriptions/{id}/messages?limit=1000&after={found[-1]}"
                if found
                else f"/subscriptions/{id}/messages?limit=1000"
            ).json()["messages"]:
                found += [message["offset"] for message in more]
            assert len(found) == EVENTS and all(one < other for one, other in pairwise(found))


def test_two_hundred_streams_of_which_twenty_hardly_read(tmp_path: Path) -> None:
    slow_and_fast(tmp_path, 200, 64 << 20)


@pytest.mark.soak
def test_a_thousand_streams_of_which_a_hundred_hardly_read(tmp_path: Path) -> None:
    slow_and_fast(tmp_path, 1_000, 256 << 20)
