"""Broker processes for tests: forked from a server that has imported everything, killed and started again at will."""

from __future__ import annotations

import multiprocessing
import random
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

PLAIN = {"trust_env": False, "verify": False}
"""For httpx: no proxy, and no certificates, which take 20 ms to load for each client."""
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.broker.preloaded"])


def free_port() -> int:
    """A port that nobody uses now, and that the system gives to no connection.

    It lies below the ports of outgoing connections (32768 and more). While a broker is down, clients that try again
    could otherwise get its port as their own, even connect to themselves, and the broker could not listen on it.
    """
    for port in random.SystemRandom().sample(range(20_000, 32_000), 1_000):
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("expected a free port from 20000 to 32000")


def _serve(settings: dict[str, Any], file_bytes: int | None, break_at: Path | None) -> None:
    import resource
    import sys

    from tests.broker.broken_disk import break_when
    from whimbrel.broker.requests.settings import Settings
    from whimbrel.broker.server import serve

    if file_bytes is not None:  # writes beyond fail, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if break_at is not None:
        break_when(break_at)
    sys.exit(serve(Settings(**settings)))


class BrokerProcess:
    """A broker on a port of its own, which it keeps when it is started again."""

    def __init__(self, data: Path, **settings: Any) -> None:
        self.settings = {"data": str(data), "port": free_port(), "heartbeat": 1.0, **settings}
        scheme = "https" if "tls_certificate" in settings else "http"
        self.url = f"{scheme}://127.0.0.1:{self.settings['port']}"
        self.process: Any = None

    def start(self, wait: bool = True, file_bytes: int | None = None, break_at: Path | None = None) -> BrokerProcess:
        self.process = CONTEXT.Process(target=_serve, args=(self.settings, file_bytes, break_at), daemon=True)
        self.process.start()
        while wait and not self.is_ready():
            assert self.process.exitcode is None, f"the broker ended with {self.process.exitcode}"
            time.sleep(0.01)
        return self

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5, **PLAIN).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def stop(self) -> int:
        """End it with SIGTERM, and return the exit status."""
        self.process.terminate()
        self.process.join(20)
        return int(self.process.exitcode)

    def __enter__(self) -> BrokerProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.is_alive():
            self.stop()
