"""A broker as a process of its own, raw connections to it, and the CPU time that it takes."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec

from whimbrel.model.errors import WhimbrelError

BATCH, LINES = "application/cloudevents-batch+json", "application/x-ndjson"
"""The content types of many CloudEvents in one request, and of JSON lines."""
_IMPORTED = 20_000
"""Subscriptions of one request."""


class BrokerFailed(WhimbrelError):
    """A broker that is measured did not start, or refused a request."""


def cpu_seconds(process: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class BrokerProcess:
    """A broker with its data in a directory; `settings` are environment variables, such as WHIMBREL_NAME."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._environment = {**os.environ, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.host, self.port = "127.0.0.1", 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def start(self, port: int = 0) -> float:
        """Start it on a port, by default a free one. Return the seconds until it is ready."""
        began = time.perf_counter()
        command = [sys.executable, "-m", "whimbrel.cli.main", "serve", "--json", "--port", str(port), "--data"]
        self._process = subprocess.Popen(
            [*command, str(self._directory)], stderr=subprocess.PIPE, env=self._environment
        )
        assert self._process.stderr is not None
        line = b""
        for line in self._process.stderr:
            if b'"address"' in line:
                self.port = int(msgspec.json.decode(line)["address"].rpartition(":")[2])
                break
        else:
            self._process.communicate()
            raise BrokerFailed(f"Expected a broker to start, but it ended: {line.decode(errors='replace').strip()}")
        self.get("/readyz")
        return time.perf_counter() - began

    def stop(self) -> None:
        """Let it write what it has, and end."""
        assert self._process is not None
        self._process.terminate()
        self._process.communicate()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def cpu_seconds(self) -> float:
        """The CPU time that it has used."""
        assert self._process is not None
        return cpu_seconds(self._process.pid)

    def metrics(self) -> str:
        """Its metrics, as text."""
        return self.get("/metrics")

    def thread_seconds(self) -> dict[str, float]:
        """The CPU time of each of its threads, as its metrics tell it."""
        found = re.findall(r'whimbrel_thread_cpu_seconds_total{thread="([^"]+)"} (\S+)', self.metrics())
        return {name: float(seconds) for name, seconds in found}

    def get(self, path: str) -> str:
        """The answer to a GET, over a connection of its own."""

        async def ask() -> bytes:
            connection = await Connection.open(self.host, self.port)
            try:
                return await connection.request("GET", path)
            finally:
                connection.close()

        return asyncio.run(ask()).decode()

    async def import_lines(self, lines: Sequence[bytes]) -> float:
        """Create subscriptions, given as JSON. Return the seconds that it took."""
        groups = [lines[start : start + _IMPORTED] for start in range(0, len(lines), _IMPORTED)]
        return await self.post_all("/subscriptions/import", [b"\n".join(group) for group in groups], LINES, 1)

    async def post_all(self, path: str, bodies: Sequence[bytes], kind: str, connections: int) -> float:
        """Post all bodies over some connections. Return the seconds that it took; BrokerFailed if one is refused."""
        waiting = list(reversed(bodies))

        async def work() -> None:
            connection = await Connection.open(self.host, self.port)
            while waiting:
                answer = await connection.request("POST", path, waiting.pop(), kind)
                if b'"error"' in answer:
                    raise BrokerFailed(f"POST {path}: {answer[:300].decode(errors='replace')}")
            connection.close()

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(connections)))
        return time.perf_counter() - began

    def settle(self) -> None:
        """Wait until it has merged and saved what was imported."""
        quiet = 0
        while quiet < 7:  # longer than the pause after which the index is saved
            before = self.cpu_seconds()
            time.sleep(1)
            quiet = quiet + 1 if self.cpu_seconds() - before < 0.1 else 0


class Connection:
    """One HTTP/1.1 connection, kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, host: str, port: int) -> Connection:
        return cls(*await asyncio.open_connection(host, port, limit=1 << 24))

    async def request(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
        """Send a request and return the answer's body; BrokerFailed for a status of 400 or above."""
        self.send(method, path, body, kind)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        content = await self.reader.readexactly(int(length[1])) if length else b""
        if int(head[9:12]) >= 400:
            raise BrokerFailed(f"{method} {path}: {head[9:12].decode()} {content[:300].decode(errors='replace')}")
        return content

    def send(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> None:
        """Send a request, and do not wait for the answer."""
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n"
        self.writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    def close(self) -> None:
        self.writer.close()
