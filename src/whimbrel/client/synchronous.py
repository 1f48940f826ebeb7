"""The client for programs without an event loop: the calls of `AsyncClient`, one at a time."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx

from whimbrel.client import wire
from whimbrel.client.asynchronous import CONNECTIONS, STREAM_TIMEOUT, AsyncClient
from whimbrel.client.blocking import blocking, blocking_iterator
from whimbrel.client.keyed import KeyedPublications, KeyedSpace
from whimbrel.client.threaded_publisher import ThreadedPublisher


class _BlockingCalls(AsyncClient):
    """The calls of `AsyncClient` over connections that block: its coroutines wait for no event loop."""

    def _open(self, headers: Mapping[str, str], verify: ssl.SSLContext | bool) -> None:
        self.http = httpx.Client(base_url=self.url, headers=headers, verify=verify, trust_env=False, limits=CONNECTIONS)

    async def _request(self, **request: Any) -> httpx.Response:
        return self.http.request(**request)

    @asynccontextmanager
    async def _stream(self, **request: Any) -> AsyncIterator[tuple[httpx.Response, AsyncIterator[bytes]]]:
        with self.http.stream("GET", **request, timeout=STREAM_TIMEOUT) as answer:
            yield answer, _each(answer.iter_raw())

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)


async def _each(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


class Client:
    """A broker at a URL, with the calls of `AsyncClient`. Requests that may be sent again are, until `attempts` failed.

    With https, `ca` is a file of certificates (PEM) to trust instead of those that the system trusts, and `tls` a whole
    context in the place of it. Several threads may use one client.
    Use it as `with Client("http://127.0.0.1:8080") as client`.
    """

    def __init__(
        self, url: str, token: str | None = None, *, source: str = "whimbrel-client", attempts: int = 8,
        timeout: float = 30.0, tls: ssl.SSLContext | None = None, ca: str | Path | None = None,
    ) -> None:  # fmt: skip
        self._calls = _BlockingCalls(url, token, source=source, attempts=attempts, timeout=timeout, tls=tls, ca=ca)
        self._http = self._calls.http
        self.url = self._calls.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    call = blocking(AsyncClient.call)
    publish = blocking(AsyncClient.publish)
    create = blocking(AsyncClient.create)
    read = blocking(AsyncClient.read)
    replace = blocking(AsyncClient.replace)
    delete = blocking(AsyncClient.delete)
    list = blocking_iterator(AsyncClient.list)
    import_many = blocking(AsyncClient.import_many)
    validate = blocking(AsyncClient.validate)
    explain = blocking(AsyncClient.explain)
    near_misses = blocking(AsyncClient.near_misses)
    preview = blocking(AsyncClient.preview)
    schema = blocking(AsyncClient.schema)
    schema_view = blocking(AsyncClient.schema_view)
    extend_schema = blocking(AsyncClient.extend_schema)
    pull = blocking(AsyncClient.pull)
    acknowledge = blocking(AsyncClient.acknowledge)
    subscribe = blocking_iterator(AsyncClient.subscribe)
    rotate = blocking(AsyncClient.rotate)
    enable = blocking(AsyncClient.enable)
    disable = blocking(AsyncClient.disable)
    test = blocking(AsyncClient.test)
    attempts = blocking(AsyncClient.attempts)
    undelivered = blocking(AsyncClient.undelivered)
    redeliver = blocking(AsyncClient.redeliver)

    @property
    def publications(self) -> KeyedPublications:
        """Publications with a key: put, patch, delete, get, list, update."""
        return KeyedPublications(self._calls.publications)

    def space(self, name: str) -> KeyedSpace:
        """A subject space: define, drop, put, patch, delete, subscribe."""
        return KeyedSpace(self._calls.space(name))

    def publisher(self, batch: int = 100, linger: float = 0.005, pending: int = 10_000) -> ThreadedPublisher:
        """A publisher that gathers events into batches; see `ThreadedPublisher`."""
        return ThreadedPublisher(self.publish, batch, linger, pending)

    def download(self, path: str) -> Iterator[bytes]:
        """The pieces of a long answer as they come. Refused if there is none; it is not tried again."""
        with self._http.stream("GET", path, timeout=STREAM_TIMEOUT) as answer:
            if answer.status_code >= 400:
                wire.check(answer.status_code, answer.read())
            yield from answer.iter_raw()
