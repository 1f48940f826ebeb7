"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec

from whimbrel.client import wire
from whimbrel.client.errors import Refused, Unreachable
from whimbrel.client.following import Following
from whimbrel.client.keyed import AsyncKeyedPublications, AsyncKeyedSpace, pages
from whimbrel.client.publisher import Publisher
from whimbrel.client.trust import trusted
from whimbrel.client.wire import Call, Event, Message, PublishResult, subscription_path

CONNECTIONS = httpx.Limits(max_keepalive_connections=20)
"""As many connections as there are streams and calls at one time: with a bound, streams would keep calls waiting."""
STREAM_TIMEOUT = httpx.Timeout(30.0, read=60.0)
"""Heartbeats come more often than that."""


class AsyncClient:
    """A broker at a URL. Requests that may be sent again are, until `attempts` have failed.

    With https, `ca` is a file of certificates (PEM) to trust instead of those that the system trusts, and `tls` a whole
    context in the place of it.
    Use it as `async with AsyncClient("http://127.0.0.1:8080") as client`.
    """

    def __init__(
        self, url: str, token: str | None = None, *, source: str = "whimbrel-client", attempts: int = 8,
        timeout: float = 30.0, tls: ssl.SSLContext | None = None, ca: str | Path | None = None,
    ) -> None:  # fmt: skip
        self.url = url.rstrip("/")
        self._source = source
        self._attempts = attempts
        self._timeout = timeout
        self._open({} if token is None else {"authorization": f"Bearer {token}"}, trusted(url, tls, ca))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def _open(self, headers: Mapping[str, str], verify: ssl.SSLContext | bool) -> None:
        self._http = httpx.AsyncClient(
            base_url=self.url, headers=headers, verify=verify, trust_env=False, limits=CONNECTIONS
        )

    async def _request(self, **request: Any) -> httpx.Response:
        return await self._http.request(**request)

    @asynccontextmanager
    async def _stream(self, **request: Any) -> AsyncIterator[tuple[httpx.Response, AsyncIterator[bytes]]]:
        async with self._http.stream("GET", **request, timeout=STREAM_TIMEOUT) as answer:
            yield answer, answer.aiter_raw()

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def publish(self, events: Event | Sequence[Event]) -> list[PublishResult]:
        """Publish events: CloudEvents, or dicts that become the data of one. Returns when they are on disk."""
        many = [events] if isinstance(events, Mapping) else events
        results: list[PublishResult] = []
        for batch in wire.batches(wire.as_cloud_event(event, self._source) for event in many):
            results += msgspec.json.decode(await self.call(wire.publish(batch)), type=wire.PublishResults).results
        return results

    @property
    def publications(self) -> AsyncKeyedPublications:
        """Publications with a key: put, patch, delete, get, list, update."""
        return AsyncKeyedPublications(self)

    def space(self, name: str) -> AsyncKeyedSpace:
        """A subject space: define, drop, put, patch, delete, subscribe."""
        return AsyncKeyedSpace(self, name)

    def publisher(self, batch: int = 100, linger: float = 0.005, pending: int = 10_000) -> Publisher:
        """A publisher that gathers events into batches; see `Publisher`."""
        return Publisher(self.publish, batch, linger, pending)

    async def create(self, /, filter: str | None = None, **fields: Any) -> dict[str, Any]:
        """Create a durable subscription; `fields` are those of the API."""
        return await self._object(wire.post("/subscriptions", wire.asked(filter, fields)))

    async def read(self, id: str) -> dict[str, Any]:
        """A subscription with its cursor and its lag."""
        return await self._object(wire.get(subscription_path(id)))

    async def replace(
        self, /, id: str, filter: str | None = None, version: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Give a subscription another filter; with a `version`, only if that is still the present one."""
        call = wire.put(subscription_path(id), wire.asked(filter, fields))
        if version is not None:  # it is not sent again: the first try may have made another version
            call = call._replace(headers={**call.headers, "if-match": f'"{version}"'}, repeatable=False)
        return await self._object(call)

    async def delete(self, id: str) -> None:
        """End a subscription."""
        await self.call(wire.delete(subscription_path(id)))

    async def list(self, /, **query: str) -> AsyncGenerator[dict[str, Any], None]:
        """All subscriptions that fulfil the query: protocol, source, type, owner, contains."""
        async for one in pages(self, "/subscriptions", "subscriptions", query):
            yield one

    async def import_many(self, subscriptions: Sequence[Mapping[str, Any]]) -> Sequence[dict[str, Any]]:
        """Create at most 20,000 subscriptions: the id or the error of each."""
        return await self._objects(wire.lines("/subscriptions/import", subscriptions), "results")

    async def validate(self, /, filter: str | None = None, **fields: Any) -> dict[str, Any]:
        """Whether a subscription would be taken, and what its filter means and costs."""
        return await self._object(wire.ask("/subscriptions/validate", wire.asked(filter, fields)))

    async def explain(self, event: Event | int, filter: str | None = None, id: str | None = None) -> dict[str, Any]:
        """Why an event, or the one at an offset, matches a filter or a subscription, or why not."""
        path = "/subscriptions" if id is None else subscription_path(id)
        return await self._object(wire.ask(f"{path}/explain", wire.named(event, filter)))

    async def near_misses(self, event: Event | int, limit: int = 10) -> Sequence[dict[str, Any]]:
        """The subscriptions that an event, or the one at an offset, almost matches."""
        body = {**wire.named(event, None), "limit": limit}
        return await self._objects(wire.ask("/subscriptions/near-misses", body), "near_misses")

    async def preview(self, filter: str, limit: int = 20, events: int = 10_000) -> dict[str, Any]:
        """What a filter would have matched among the newest stored events."""
        query = {"limit": str(limit), "events": str(events)}
        return await self._object(wire.ask("/subscriptions/preview", {"filter": filter}, query))

    async def schema(self) -> dict[str, Any]:
        """The broker's schema, extensions included, as a document."""
        return await self._object(wire.get("/schema"))

    async def schema_view(self, types: Sequence[str]) -> dict[str, Any]:
        """What an event of all of these types must and may have."""
        return await self._object(wire.get("/schema/views", {"types": ",".join(types)}))

    async def extend_schema(self, extensions: Sequence[Mapping[str, Any]]) -> Sequence[int | None]:
        """Extend the schema, by all or none; the offset of each extension, None if it was there already."""
        # The same extensions again change nothing.
        call = wire.post("/schema/extensions", {"extensions": extensions}, repeatable=True)
        offsets: Sequence[int | None] = (await self._object(call))["offsets"]
        return offsets

    async def pull(
        self, id: str, after: str | int | None = None, limit: int = 100, wait: float = 0.0
    ) -> Sequence[Message]:
        """Messages behind a cursor (default: the acknowledged one), waiting up to `wait` seconds for the first."""
        query = {"limit": str(limit), "wait": f"{wait:g}"} | ({} if after is None else {"after": str(after)})
        call = wire.get(f"{subscription_path(id)}/messages", query)._replace(patience=wait)
        while True:
            pulled = msgspec.json.decode(await self.call(call), type=wire.Pulled)
            if pulled.messages or pulled.complete:
                return pulled.messages

    async def acknowledge(self, id: str, cursor: str | int) -> None:
        """Acknowledge the messages up to a cursor."""
        await self.call(wire.post(f"{subscription_path(id)}/ack", {"cursor": str(cursor)}, repeatable=True))

    async def rotate(self, id: str, secret: str | None = None, keep: int = 86_400) -> str:
        """Sign a webhook with another secret, and return it; the former one signs too for `keep` seconds."""
        body = {"keep": keep} | ({} if secret is None else {"secret": secret})
        return str((await self._object(wire.post(f"{subscription_path(id)}/rotate", body)))["secret"])

    async def enable(self, id: str) -> None:
        """Deliver to the sink of a subscription again, now."""
        await self.call(wire.webhook(id, "enable"))

    async def disable(self, id: str) -> None:
        """Deliver nothing to the sink of a subscription until it is enabled."""
        await self.call(wire.webhook(id, "disable"))

    async def test(self, id: str) -> dict[str, Any]:
        """Send an event of type `whimbrel.test` to a sink: what its receiver said."""
        return await self._object(wire.webhook(id, "test", repeatable=False))

    async def attempts(self, id: str, limit: int = 100) -> Sequence[dict[str, Any]]:
        """The newest requests to a sink, the last one first."""
        return await self._objects(wire.get(f"{subscription_path(id)}/attempts", {"limit": str(limit)}), "attempts")

    async def undelivered(self, id: str, limit: int = 100) -> Sequence[dict[str, Any]]:
        """The deliveries to a sink that were given up."""
        call = wire.get(f"{subscription_path(id)}/dead-letters", {"limit": str(limit)})
        return await self._objects(call, "dead_letters")

    async def redeliver(self, id: str, number: int) -> dict[str, Any]:
        """Send a delivery that was given up again: what its receiver said."""
        return await self._object(wire.webhook(id, f"dead-letters/{number}/redeliver", repeatable=False))

    async def subscribe(
        self, filter: str | None = None, *, id: str | None = None, after: str | int | None = None,
        dialect: str | None = None, policy: str | None = None, on: str | None = None, leave: bool = False,
    ) -> AsyncGenerator[Message, None]:  # fmt: skip
        """Follow the messages of a filter from now on, or of a durable subscription, for good.

        Reconnects by itself. A durable subscription resumes behind the last message that was yielded, which also
        acknowledges it; a filter misses what was published while the connection was down. With `on="publications"` a
        filter is about publications: each connection begins with those that match already, and with `leave` it is told
        of those that cease to. StreamEnded if the broker ends the stream for good.
        """
        options = {"dialect": dialect, "policy": policy, "on": on, "leave": "true" if leave else None}
        following = Following(filter, id, after, options)
        while True:
            refused: Mapping[str, str] = {}
            try:
                request = {"url": following.path, "params": following.query, "headers": following.connecting()}
                async with self._stream(**request) as (answer, pieces):
                    if answer.status_code >= 400:
                        refused = answer.headers
                        wire.check(answer.status_code, b"".join([piece async for piece in pieces]))
                    async for piece in pieces:
                        for message in following.feed(piece):
                            yield message
            except httpx.ConnectError as error:
                following.failed(self.url, error)
            except httpx.TransportError:
                pass
            except Refused as error:
                if error.status not in wire.RETRY_STATUSES:
                    raise
            await self._sleep(following.pause(refused))

    async def call(self, call: Call) -> bytes:
        """Send a request and return the answer's content; again if that does no harm and the broker was not there."""
        attempt = 0
        while True:
            attempt += 1
            headers: Mapping[str, str] = {}
            try:
                answer = await self._request(
                    method=call.method, url=call.path, content=call.content, headers=call.headers, params=call.query,
                    timeout=self._timeout + call.patience,
                )  # fmt: skip
            except httpx.TransportError as error:
                is_harmless = call.repeatable or isinstance(error, httpx.ConnectError)
                if attempt >= self._attempts or not is_harmless:
                    raise Unreachable(self.url, str(error) or type(error).__name__, attempt) from error
            else:
                if attempt >= self._attempts or not call.is_retried(answer.status_code):
                    wire.check(answer.status_code, answer.content, call.accepted)
                    return answer.content
                headers = answer.headers
            await self._sleep(wire.pause(attempt - 1, headers))

    async def _object(self, call: Call) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(await self.call(call))
        return found

    async def _objects(self, call: Call, name: str) -> Sequence[dict[str, Any]]:
        found: Sequence[dict[str, Any]] = (await self._object(call))[name]
        return found
