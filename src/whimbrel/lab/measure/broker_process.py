"""A broker as a process of its own, raw connections to it, and the CPU time that it takes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

BATCH = "application/cloudevents-batch+json"
"""The content type of many CloudEvents in one request."""


def cpu_seconds(process: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class BrokerProcess:
    """A broker in a temporary directory; `settings` are environment variables, such as WHIMBREL_NAME."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._environment = {**os.environ, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.host, self.port = "127.0.0.1", 0

    def start(self) -> float:
        """Start it, and return the seconds until it is ready."""
        began = time.perf_counter()
        command = [sys.executable, "-m", "whimbrel.cli.main", "serve", "--json", "--port", "0", "--data"]
        self._process = subprocess.Popen(
            [*command, str(self._directory)], stderr=subprocess.PIPE, env=self._environment
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if b'"address"' in line:
                self.port = int(msgspec.json.decode(line)["address"].rpartition(":")[2])
                break
        asyncio.run(self._until_ready())
        return time.perf_counter() - began

    async def _until_ready(self) -> None:
        connection = await Connection.open(self.host, self.port)
        await connection.request("GET", "/readyz")
        connection.close()

    def stop(self) -> None:
        """End it in an orderly way."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate()

    def cpu_seconds(self) -> float:
        """The CPU time that it has used."""
        assert self._process is not None
        return cpu_seconds(self._process.pid)

    def thread_seconds(self) -> dict[str, float]:
        """The CPU time of each of its threads, as its metrics tell it."""
        text = asyncio.run(self._metrics()).decode()
        found = re.findall(r'whimbrel_thread_cpu_seconds_total{thread="([^"]+)"} (\S+)', text)
        return {name: float(seconds) for name, seconds in found}

    async def _metrics(self) -> bytes:
        connection = await Connection.open(self.host, self.port)
        content = await connection.request("GET", "/metrics")
        connection.close()
        return content

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
        """Connect."""
        return cls(*await asyncio.open_connection(host, port, limit=1 << 24))

    async def request(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
        """Send a request and return the answer's body; RuntimeError for a status of 400 or above."""
        self.send(method, path, body, kind)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        content = await self.reader.readexactly(int(length[1])) if length else b""
        if int(head[9:12]) >= 400:
            raise RuntimeError(f"{method} {path}: {head[9:12].decode()} {content[:300].decode(errors='replace')}")
        return content

    def send(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> None:
        """Send a request."""
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n"
        self.writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    def close(self) -> None:
        """Close it."""
        self.writer.close()
