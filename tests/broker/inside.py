"""A broker inside the test: what it takes to publish, subscribe and read without HTTP, or over it without a process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
from starlette.types import ASGIApp

from whimbrel.broker.http.app import application
from whimbrel.broker.peering.connector import Connector
from whimbrel.broker.peering.peering import Peering
from whimbrel.broker.requests.entries import Change
from whimbrel.broker.requests.envelope import Incoming, structured
from whimbrel.broker.requests.errors import BrokerError
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.requests.subscriptions import read_request
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import ANYBODY, Principal
from whimbrel.broker.store import Cursor, StoredSubscription

T = TypeVar("T")


def run(work: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        return await work()

    return asyncio.run(main())


@asynccontextmanager
async def opened(directory: Path, **settings: Any) -> AsyncIterator[Broker]:
    async with Broker(Settings(data=str(directory), **settings)) as broker:
        yield broker


def app_of(broker: Broker) -> ASGIApp:
    """The application that serves a broker."""
    peering = Peering(broker)
    return application(broker, peering, Connector(peering))


def http_of(broker: Broker) -> httpx.AsyncClient:
    """A client that calls the application of a broker in this event loop."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app_of(broker)), base_url="http://127.0.0.1")


def event(id: object, source: str = "test", type: str = "event", **attributes: Any) -> Incoming:
    """A CloudEvent; `data` is among the attributes."""
    return structured(
        msgspec.json.encode({"specversion": "1.0", "id": str(id), "source": source, "type": type, **attributes})
    )


async def publish(broker: Broker, *events: Incoming, by: Principal = ANYBODY) -> list[Published | BrokerError]:
    return await broker.publish(list(events), by)


def offsets(results: list[Published | BrokerError]) -> list[tuple[int, bool]]:
    """Where events are, and whether they were there already; none may be refused."""
    assert all(isinstance(result, Published) for result in results), results
    return [(result.offset, result.duplicate) for result in results]  # type: ignore[union-attr]


async def subscribe(broker: Broker, filter: str, by: Principal = ANYBODY, **fields: Any) -> StoredSubscription:
    body = msgspec.json.encode({"filter": filter, **fields})
    return await broker.subscriptions.create((read_request(body), body), by)


async def replace(
    broker: Broker, id: str, filter: str, by: Principal = ANYBODY, if_match: str | None = None
) -> StoredSubscription:
    body = msgspec.json.encode({"filter": filter})
    versions = None if if_match is None else frozenset({if_match})
    return await broker.subscriptions.replace(id, (read_request(body), body), by, versions)


async def ids_of(broker: Broker, subscription: StoredSubscription, after: int | None = None) -> list[str]:
    """The ids of all its messages."""
    position = broker.messages.position(subscription) if after is None else Cursor(after)
    found: list[str] = []
    while True:
        messages, complete = await broker.runtime.in_thread(broker.messages.read, subscription, position, 7)
        if not messages and complete:
            return found
        found += [msgspec.json.decode(message.event)["id"] for message in messages]
        position = messages[-1].cursor if messages else position


async def in_one_group(broker: Broker, *requests: Awaitable[Any]) -> list[Any]:
    """Await requests that the sequencer decides together, in this order; return their results or errors."""
    is_deciding, may_go_on = threading.Event(), threading.Event()

    def hold(_: int) -> tuple[list[Change], object]:
        is_deciding.set()
        may_go_on.wait()
        return [], None

    holding = broker.runtime.decide(hold)
    try:
        await broker.runtime.in_thread(is_deciding.wait)
        tasks: list[asyncio.Future[Any]] = []
        for request in requests:
            tasks.append(asyncio.ensure_future(request))
            while broker.sequencer.waiting[0] < len(tasks) and not tasks[-1].done():
                await asyncio.sleep(0.001)
    finally:
        may_go_on.set()
    await holding
    return await asyncio.gather(*tasks, return_exceptions=True)
