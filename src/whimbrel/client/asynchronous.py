"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self

import httpx
import msgspec

from whimbrel.client import wire
from whimbrel.client.errors import Refused, Unreachable
from whimbrel.client.publisher import Publisher
from whimbrel.client.wire import Call, Event, Message, PublishResult

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0


def pause(attempt: int) -> float:
    """Seconds before the next attempt: doubling, and random, so that clients do not come back all at once."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * float(2**attempt)) * random.uniform(0.5, 1.0)


class AsyncClient:
    """A broker at a URL. Requests that may be sent again are, until `attempts` have failed.

    Use it as `async with AsyncClient("http://127.0.0.1:8080") as client`.
    """

    def __init__(
        self, url: str, token: str | None = None, *, source: str = "whimbrel-client", attempts: int = 8,
        timeout: float = 30.0,
    ) -> None:  # fmt: skip
        self.url = url.rstrip("/")
        self._source = source
        self._attempts = attempts
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=timeout, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def publish(self, events: Event | Sequence[Event]) -> list[PublishResult]:
        """Publish events: CloudEvents, or dicts that become the data of one. Returns when they are on disk."""
        many = [events] if isinstance(events, Mapping) else events
        call = wire.publish(wire.as_cloud_event(event, self._source) for event in many)
        return wire.published(await self.call(call, frozenset({422})))

    def publisher(self, batch: int = 100, linger: float = 0.005, pending: int = 10_000) -> Publisher:
        """A publisher that gathers events into batches; see `Publisher`."""
        return Publisher(self.publish, batch, linger, pending)

    async def create(self, filter: str | None = None, **fields: Any) -> dict[str, Any]:
        """Create a durable subscription; `fields` are those of the API."""
        asked = fields if filter is None else {"filter": filter, **fields}
        made: dict[str, Any] = msgspec.json.decode(await self.call(wire.create(asked)))
        return made

    async def delete(self, id: str) -> None:
        """End a subscription."""
        await self.call(wire.delete(id))

    async def pull(self, id: str, after: str | int | None = None, limit: int = 100, wait: float = 0.0) -> list[Message]:
        """Messages behind a cursor (default: the acknowledged one)."""
        return wire.pulled(await self.call(wire.pull(id, after, limit, wait)))

    async def acknowledge(self, id: str, cursor: str | int) -> None:
        """The messages up to the cursor are done."""
        await self.call(wire.acknowledge(id, cursor))

    async def subscribe(
        self, filter: str | None = None, *, id: str | None = None, after: str | int | None = None
    ) -> AsyncIterator[Message]:
        """Follow messages for good: those of a filter from now on, or of a durable subscription.

        Reconnects by itself. A durable subscription resumes behind the last message that was yielded, which also
        acknowledges it; a filter misses what was published while the connection was down.
        """
        if (filter is None) == (id is None):
            raise ValueError("Expected either a filter or the id of a subscription")
        path = "/stream" if id is None else f"/subscriptions/{id}/stream"
        query = {} if filter is None else {"filter": filter}
        last = None if after is None else str(after)
        attempt = 0
        while True:
            try:
                headers = {} if last is None else {"last-event-id": last}
                async with self._http.stream("GET", path, params=query, headers=headers, timeout=_STREAM) as answer:
                    if answer.status_code >= 400:
                        wire.check(answer.status_code, await answer.aread())
                    parser = wire.EventParser()
                    async for piece in answer.aiter_raw():
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
            await asyncio.sleep(pause(attempt))
            attempt += 1

    async def call(self, call: Call, accepted: frozenset[int] = frozenset()) -> bytes:
        """Send a request and return the answer's content; again if that does no harm and the broker was not there."""
        problem = ""
        for attempt in range(self._attempts):
            try:
                answer = await self._http.request(
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
            await asyncio.sleep(pause(attempt))
        raise Unreachable(self.url, problem, self._attempts)


_STREAM = httpx.Timeout(30.0, read=60.0)  # heartbeats come more often than that
