"""Calls about what stays: publications with a key, and subject spaces, for both clients.

`client.publications` and `client.space(name)` give these objects; every call returns when its effect is on disk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from whimbrel.client import wire
from whimbrel.client.blocking import blocking, blocking_iterator
from whimbrel.client.wire import Call, PublishResult

Region = Mapping[str, Any]


class AsyncCaller(Protocol):
    """What sends requests: a client."""

    async def call(self, call: Call) -> bytes:
        """Send a request and return the answer's content."""


async def pages(
    caller: AsyncCaller, path: str, name: str, query: Mapping[str, str] = {}
) -> AsyncGenerator[dict[str, Any], None]:
    """All items of a list that comes in pages, each with the items under a name."""
    after: str | None = ""
    while after is not None:
        page = msgspec.json.decode(await caller.call(wire.get(path, {**query, "after": after, "limit": "1000"})))
        for one in page[name]:
            yield one
        after = page["next"]


def _offset(content: bytes) -> int:
    offset: int = msgspec.json.decode(content)["offset"]
    return offset


class AsyncKeyedPublications:
    """The publications below a path: those of the token's tenant, or of a space. See `AsyncClient.publications`."""

    def __init__(self, caller: AsyncCaller, path: str = "/publications") -> None:
        self._caller = caller
        self._path = path

    def _one(self, key: str) -> str:
        return self._path + wire.path_of(key)

    async def put(self, key: str, state: Mapping[str, Any]) -> int:
        """Give a publication a new state, and return the offset of that."""
        return _offset(await self._caller.call(wire.put(self._one(key), state)))

    async def patch(self, key: str, patch: Mapping[str, Any]) -> int:
        """Change some attributes (a JSON merge patch: None deletes), and return the offset of that."""
        return _offset(await self._caller.call(wire.put(self._one(key), patch)._replace(method="PATCH")))

    async def delete(self, key: str) -> int:
        """Delete a publication, and return the offset of that."""
        return _offset(await self._caller.call(wire.delete(self._one(key))))

    async def get(self, key: str) -> dict[str, Any]:
        """A publication: key, offset, time, state."""
        found: dict[str, Any] = msgspec.json.decode(await self._caller.call(wire.get(self._one(key))))
        return found

    async def list(self) -> AsyncGenerator[dict[str, Any], None]:
        """All publications, in the order of their keys."""
        async for one in pages(self._caller, self._path, "publications"):
            yield one

    async def update(self, updates: Sequence[Mapping[str, Any]]) -> Sequence[PublishResult]:
        """Change many: {"key", "state"}, {"key", "patch"} or {"key", "delete": True} each; at most 10,000."""
        content = await self._caller.call(wire.lines(self._path, updates))
        return msgspec.json.decode(content, type=wire.PublishResults).results


class AsyncKeyedSpace:
    """A subject space. See `AsyncClient.space`."""

    def __init__(self, caller: AsyncCaller, name: str) -> None:
        self._caller = caller
        self._path = wire.path_of("spaces", name)
        self.publications = AsyncKeyedPublications(caller, f"{self._path}/publications")

    async def define(self, dimensions: Mapping[str, Any]) -> None:
        """Define the space by the types of its dimensions. The same definition again changes nothing."""
        await self._caller.call(wire.put(self._path, {"dimensions": dimensions}))

    async def drop(self) -> None:
        """Drop the space with its publications, and end the subscriptions on it."""
        await self._caller.call(wire.delete(self._path))

    async def put(self, key: str, regions: Sequence[Region]) -> int:
        """Give a publication regions, and return the offset of that."""
        return await self.publications.put(key, {"regions": list(regions)})

    async def patch(self, key: str, change: Region, region: int | None = None) -> int:
        """Change some dimensions of a publication's only region, or of the one at a place; None removes one."""
        place = {} if region is None else {"region": region}
        return await self.publications.patch(key, {"change": change, **place})

    async def delete(self, key: str) -> int:
        """Delete a publication, and return the offset of that."""
        return await self.publications.delete(key)

    async def subscribe(self, /, id: str, regions: Sequence[Region], **fields: Any) -> dict[str, Any]:
        """Create or replace a durable subscription: `leave`, `hysteresis`, `dwell` and the fields of others."""
        path = self._path + wire.subscription_path(id)
        content = await self._caller.call(wire.put(path, {"regions": list(regions), **fields}))
        made: dict[str, Any] = msgspec.json.decode(content)
        return made


class KeyedPublications:
    """The calls of `AsyncKeyedPublications`, which block. See `Client.publications`."""

    def __init__(self, calls: AsyncKeyedPublications) -> None:
        self._calls = calls

    put = blocking(AsyncKeyedPublications.put)
    patch = blocking(AsyncKeyedPublications.patch)
    delete = blocking(AsyncKeyedPublications.delete)
    get = blocking(AsyncKeyedPublications.get)
    list = blocking_iterator(AsyncKeyedPublications.list)
    update = blocking(AsyncKeyedPublications.update)


class KeyedSpace:
    """The calls of `AsyncKeyedSpace`, which block. See `Client.space`."""

    def __init__(self, calls: AsyncKeyedSpace) -> None:
        self._calls = calls
        self.publications = KeyedPublications(calls.publications)

    define = blocking(AsyncKeyedSpace.define)
    drop = blocking(AsyncKeyedSpace.drop)
    put = blocking(AsyncKeyedSpace.put)
    patch = blocking(AsyncKeyedSpace.patch)
    delete = blocking(AsyncKeyedSpace.delete)
    subscribe = blocking(AsyncKeyedSpace.subscribe)
