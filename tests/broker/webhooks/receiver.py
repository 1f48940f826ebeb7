"""A receiver of webhooks on loopback: a real HTTP server that notes what it gets and answers as it is told."""

from __future__ import annotations

import base64
import hmac
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import msgspec

CONSENT = {"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "*"}


class Got(NamedTuple):
    """A request, with the names of its headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    time: float

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        found = self.json
        if isinstance(found, list):
            return list(found)
        return list(found.get("events", [found]))

    def is_signed(self, secret: str) -> bool:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        good = "v1," + base64.b64encode(hmac.digest(key, signed, sha256)).decode()
        return good in self.headers["webhook-signature"].split(" ")


Answer = int | tuple[int, dict[str, str]]
Behave = Callable[[Got], Answer]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A broker that is killed resets its connections."""

    request_queue_size = 512


class Receiver:
    """Listens until it is closed. `behave` decides the answer to a POST, `consent` the headers of that to OPTIONS."""

    def __init__(
        self,
        behave: Behave | None = None,
        host: str = "127.0.0.1",
        consent: dict[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self.got: list[Got] = []
        self.asked: list[Got] = []
        self.behave = behave or (lambda _: 204)
        self.consent = CONSENT if consent is None else consent
        self._more = threading.Condition()
        self.closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                got = self.read()
                answer = outer.behave(got)
                with outer._more:
                    outer.got.append(got)
                    outer._more.notify_all()
                status, headers = answer if isinstance(answer, tuple) else (answer, {})
                self.answer(status, headers)

            def do_OPTIONS(self) -> None:
                got = self.read()
                with outer._more:
                    outer.asked.append(got)
                    outer._more.notify_all()
                self.answer(200, outer.consent)

            def read(self) -> Got:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                return Got(self.command, self.path, headers, body, time.time())

            def answer(self, status: int, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server((host, port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://{host}:{self.port}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def wait(self, count: int = 1, seconds: float = 30.0) -> list[Got]:
        """The requests, when there are so many."""
        self.until(lambda: len(self.got) >= count, seconds)
        return list(self.got)

    def wait_asked(self, count: int = 1, seconds: float = 30.0) -> list[Got]:
        self.until(lambda: len(self.asked) >= count, seconds)
        return list(self.asked)

    def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        with self._more:
            assert self._more.wait_for(condition, seconds), f"{len(self.got)} requests, {len(self.asked)} asked"

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for got in list(self.got) for event in got.events]

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
