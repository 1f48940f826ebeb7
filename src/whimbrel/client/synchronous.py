"""The client for programs without an event loop: the calls of `AsyncClient`, one at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import httpx
import msgspec

from whimbrel.client import wire
from whimbrel.client.asynchronous import pause
from whimbrel.client.errors import Refused, Unreachable
from whimbrel.client.wire import Call, Event, Message, PublishResult


class Client:
    """A broker at a URL. Use it as `with Client("http://127.0.0.1:8080") as client`."""

    def __init__(
        self, url: str, token: str | None = None, *, source: str = "whimbrel-client", attempts: int = 8,
        timeout: float = 30.0,
    ) -> None:  # fmt: skip
        self.url = url.rstrip("/")
        self._source = source
        self._attempts = attempts
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def publish(self, events: Event | Sequence[Event]) -> list[PublishResult]:
        """Publish events: CloudEvents, or dicts that become the data of one. Returns when they are on disk."""
        many = [events] if isinstance(events, Mapping) else events
        call = wire.publish(wire.as_cloud_event(event, self._source) for event in many)
        return wire.published(self.call(call, frozenset({422})))

    def create(self, filter: str | None = None, **fields: Any) -> dict[str, Any]:
        """Create a durable subscription; `fields` are those of the API."""
        asked = fields if filter is None else {"filter": filter, **fields}
        made: dict[str, Any] = msgspec.json.decode(self.call(wire.create(asked)))
        return made

    def delete(self, id: str) -> None:
        """End a subscription."""
        self.call(wire.delete(id))

    def pull(self, id: str, after: str | int | None = None, limit: int = 100, wait: float = 0.0) -> list[Message]:
        """Messages behind a cursor (default: the acknowledged one)."""
        return wire.pulled(self.call(wire.pull(id, after, limit, wait)))

    def acknowledge(self, id: str, cursor: str | int) -> None:
        """The messages up to the cursor are done."""
        self.call(wire.acknowledge(id, cursor))

    def subscribe(
        self, filter: str | None = None, *, id: str | None = None, after: str | int | None = None
    ) -> Iterator[Message]:
        """Follow messages for good, as `AsyncClient.subscribe` does."""
        if (filter is None) == (id is None):
            raise ValueError("Expected either a filter or the id of a subscription")
        path = "/stream" if id is None else f"/subscriptions/{id}/stream"
        query = {} if filter is None else {"filter": filter}
        last = None if after is None else str(after)
        attempt = 0
        while True:
            try:
                headers = {} if last is None else {"last-event-id": last}
                timeout = httpx.Timeout(30.0, read=60.0)
                with self._http.stream("GET", path, params=query, headers=headers, timeout=timeout) as answer:
                    if answer.status_code >= 400:
                        wire.check(answer.status_code, answer.read())
                    parser = wire.EventParser()
                    for piece in answer.iter_raw():
                        for name, at, data in parser.feed(piece):
                            if name == "end" and msgspec.json.decode(data)["reason"] != "stopping":
                                return
                            if name == "message":
                                attempt = 0
                                yield wire.message_of(at, data)
                                last = at if id is not None else None
            except httpx.TransportError:
                pass
            except Refused as error:
                if error.status not in wire.RETRY_STATUSES:
                    raise
            time.sleep(pause(attempt))
            attempt += 1

    def call(self, call: Call, accepted: frozenset[int] = frozenset()) -> bytes:
        """Send a request and return the answer's content; again if that does no harm and the broker was not there."""
        problem = ""
        for attempt in range(self._attempts):
            try:
                answer = self._http.request(
                    call.method, call.path, content=call.content, headers=call.headers, params=call.query
                )
            except httpx.ConnectError as error:
                problem = str(error) or type(error).__name__
            except httpx.TransportError as error:
                problem = str(error) or type(error).__name__
                if not call.repeatable:
                    raise Unreachable(self.url, problem, attempt + 1) from error
            else:
                if answer.status_code not in wire.RETRY_STATUSES or attempt + 1 == self._attempts:
                    wire.check(answer.status_code, answer.content, accepted)
                    return answer.content
                problem = f"status {answer.status_code}"
            time.sleep(pause(attempt))
        raise Unreachable(self.url, problem, self._attempts)
