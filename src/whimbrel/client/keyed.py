"""Calls about what stays: publications with a key, and subject spaces, for both clients.

`client.publications` and `client.space(name)` give these objects; every call returns when its effect is on disk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from whimbrel.client import wire
from whimbrel.client.wire import Call, PublishResult

Region = Mapping[str, Any]


class Caller(Protocol):
    """A client that blocks until the broker answers."""

    def call(self, call: Call) -> bytes:
        """Send a request and return the answer's content."""


class AsyncCaller(Protocol):
    """A client for programs with an event loop."""

    async def call(self, call: Call) -> bytes:
        """Send a request and return the answer's content."""


class KeyedCalls:
    """The requests about the publications below a path."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _one(self, key: str) -> str:
        return f"{self._path}/{quote(key, safe='')}"

    def put_call(self, key: str, state: Any) -> Call:
        """Give a publication a new state."""
        return wire.put(self._one(key), state)

    def patch_call(self, key: str, patch: Any) -> Call:
        """Change a publication. Sent twice, it says the same."""
        return wire.put(self._one(key), patch)._replace(method="PATCH")

    def delete_call(self, key: str) -> Call:
        """Delete a publication."""
        return Call("DELETE", self._one(key), repeatable=False)

    def get_call(self, key: str) -> Call:
        """Read a publication."""
        return wire.get(self._one(key))

    def page_call(self, after: str) -> Call:
        """One page of publications."""
        return Call("GET", self._path, query={"after": after, "limit": "1000"})

    def update_call(self, updates: Sequence[Mapping[str, Any]]) -> Call:
        """Change many publications."""
        lines = b"\n".join(msgspec.json.encode(one) for one in updates)
        return Call("POST", self._path, lines, wire.LINES, repeatable=False, accepted=frozenset({422}))


def _offset(content: bytes) -> int:
    offset: int = msgspec.json.decode(content)["offset"]
    return offset


def _space_path(name: str) -> str:
    return f"/spaces/{quote(name, safe='')}"


def _subscription_call(space: str, id: str, regions: Sequence[Region], fields: Mapping[str, Any]) -> Call:
    path = f"{_space_path(space)}/subscriptions/{quote(id, safe='')}"
    return wire.put(path, {"regions": list(regions), **fields})


def _patch_of(change: Region, region: int | None) -> dict[str, Any]:
    return {"change": change} if region is None else {"change": change, "region": region}


class KeyedPublications(KeyedCalls):
    """The publications of the token's tenant. See `Client.publications`."""

    def __init__(self, caller: Caller, path: str = "/publications") -> None:
        super().__init__(path)
        self._caller = caller

    def put(self, key: str, state: Mapping[str, Any]) -> int:
        """Give a publication a new state, and return the offset of that."""
        return _offset(self._caller.call(self.put_call(key, state)))

    def patch(self, key: str, patch: Mapping[str, Any]) -> int:
        """Change some attributes (a JSON merge patch: None deletes), and return the offset of that."""
        return _offset(self._caller.call(self.patch_call(key, patch)))

    def delete(self, key: str) -> int:
        """Delete a publication, and return the offset of that."""
        return _offset(self._caller.call(self.delete_call(key)))

    def get(self, key: str) -> dict[str, Any]:
        """A publication: key, offset, time, state."""
        found: dict[str, Any] = msgspec.json.decode(self._caller.call(self.get_call(key)))
        return found

    def list(self) -> Iterator[dict[str, Any]]:
        """All publications, in the order of their keys."""
        after: str | None = ""
        while after is not None:
            page = msgspec.json.decode(self._caller.call(self.page_call(after)))
            yield from page["publications"]
            after = page["next"]

    def update(self, updates: Sequence[Mapping[str, Any]]) -> Sequence[PublishResult]:
        """Change many: {"key", "state"}, {"key", "patch"} or {"key", "delete": True} each; at most 10,000."""
        return wire.published(self._caller.call(self.update_call(updates)))


class KeyedSpace:
    """A subject space. See `Client.space`."""

    def __init__(self, caller: Caller, name: str) -> None:
        self._caller = caller
        self._name = name
        self.publications = KeyedPublications(caller, f"{_space_path(name)}/publications")

    def define(self, dimensions: Mapping[str, Any]) -> None:
        """Define the space by the types of its dimensions. The same definition again changes nothing."""
        self._caller.call(wire.put(_space_path(self._name), {"dimensions": dimensions}))

    def drop(self) -> None:
        """Drop the space with its publications, and end the subscriptions on it."""
        self._caller.call(Call("DELETE", _space_path(self._name), repeatable=False))

    def put(self, key: str, regions: Sequence[Region]) -> int:
        """Give a publication regions, and return the offset of that."""
        return self.publications.put(key, {"regions": list(regions)})

    def patch(self, key: str, change: Region, region: int | None = None) -> int:
        """Change some dimensions of a publication's only region, or of the one at a place; None removes one."""
        return self.publications.patch(key, _patch_of(change, region))

    def delete(self, key: str) -> int:
        """Delete a publication, and return the offset of that."""
        return self.publications.delete(key)

    def subscribe(self, id: str, regions: Sequence[Region], **fields: Any) -> dict[str, Any]:
        """Create or replace a durable subscription: `leave`, `hysteresis`, `dwell` and the fields of others."""
        content = self._caller.call(_subscription_call(self._name, id, regions, fields))
        made: dict[str, Any] = msgspec.json.decode(content)
        return made


class AsyncKeyedPublications(KeyedCalls):
    """The publications of the token's tenant. See `AsyncClient.publications`."""

    def __init__(self, caller: AsyncCaller, path: str = "/publications") -> None:
        super().__init__(path)
        self._caller = caller

    async def put(self, key: str, state: Mapping[str, Any]) -> int:
        """Give a publication a new state, and return the offset of that."""
        return _offset(await self._caller.call(self.put_call(key, state)))

    async def patch(self, key: str, patch: Mapping[str, Any]) -> int:
        """Change some attributes (a JSON merge patch: None deletes), and return the offset of that."""
        return _offset(await self._caller.call(self.patch_call(key, patch)))

    async def delete(self, key: str) -> int:
        """Delete a publication, and return the offset of that."""
        return _offset(await self._caller.call(self.delete_call(key)))

    async def get(self, key: str) -> dict[str, Any]:
        """A publication: key, offset, time, state."""
        found: dict[str, Any] = msgspec.json.decode(await self._caller.call(self.get_call(key)))
        return found

    async def list(self) -> AsyncIterator[dict[str, Any]]:
        """All publications, in the order of their keys."""
        after: str | None = ""
        while after is not None:
            page = msgspec.json.decode(await self._caller.call(self.page_call(after)))
            for one in page["publications"]:
                yield one
            after = page["next"]

    async def update(self, updates: Sequence[Mapping[str, Any]]) -> Sequence[PublishResult]:
        """Change many: {"key", "state"}, {"key", "patch"} or {"key", "delete": True} each; at most 10,000."""
        return wire.published(await self._caller.call(self.update_call(updates)))


class AsyncKeyedSpace:
    """A subject space. See `AsyncClient.space`."""

    def __init__(self, caller: AsyncCaller, name: str) -> None:
        self._caller = caller
        self._name = name
        self.publications = AsyncKeyedPublications(caller, f"{_space_path(name)}/publications")

    async def define(self, dimensions: Mapping[str, Any]) -> None:
        """Define the space by the types of its dimensions. The same definition again changes nothing."""
        await self._caller.call(wire.put(_space_path(self._name), {"dimensions": dimensions}))

    async def drop(self) -> None:
        """Drop the space with its publications, and end the subscriptions on it."""
        await self._caller.call(Call("DELETE", _space_path(self._name), repeatable=False))

    async def put(self, key: str, regions: Sequence[Region]) -> int:
        """Give a publication regions, and return the offset of that."""
        return await self.publications.put(key, {"regions": list(regions)})

    async def patch(self, key: str, change: Region, region: int | None = None) -> int:
        """Change some dimensions of a publication's only region, or of the one at a place; None removes one."""
        return await self.publications.patch(key, _patch_of(change, region))

    async def delete(self, key: str) -> int:
        """Delete a publication, and return the offset of that."""
        return await self.publications.delete(key)

    async def subscribe(self, id: str, regions: Sequence[Region], **fields: Any) -> dict[str, Any]:
        """Create or replace a durable subscription: `leave`, `hysteresis`, `dwell` and the fields of others."""
        content = await self._caller.call(_subscription_call(self._name, id, regions, fields))
        made: dict[str, Any] = msgspec.json.decode(content)
        return made
