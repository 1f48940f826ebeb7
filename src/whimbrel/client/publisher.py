"""Publish event by event, in batches underneath, with a bound on what waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

import msgspec

from whimbrel.client.errors import PublisherClosed
from whimbrel.client.wire import Event, PublishResult


class Publisher:
    """Gathers events into batches of at most `batch`, waiting up to `linger` seconds for more.

    `send` waits while `pending` events are not on disk yet: a program that publishes faster than the broker takes is
    slowed down, not its memory filled. Use it as `async with client.publisher() as publisher`.
    """

    def __init__(
        self, publish: Callable[[list[Event]], Awaitable[list[PublishResult]]], batch: int, linger: float, pending: int
    ) -> None:
        self._publish = publish
        self._batch = batch
        self._linger = linger
        self._free = asyncio.Semaphore(pending)
        self._is_open = False
        self._queue: asyncio.Queue[tuple[Event, asyncio.Future[PublishResult]] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._is_open = True
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._is_open = False
        self._queue.put_nowait(None)
        await self._task

    async def send(self, event: Event) -> asyncio.Future[PublishResult]:
        """Queue an event; waits while too many are pending. The future gives its result once it is on disk.

        PublisherClosed if the publisher is closed, also while this waits; what msgspec raises if it is no JSON.
        """
        msgspec.json.encode(event)  # raises here, and not for all events of its batch
        await self._free.acquire()
        if not self._is_open:
            self._free.release()
            raise PublisherClosed
        future: asyncio.Future[PublishResult] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _: self._free.release())
        self._queue.put_nowait((event, future))
        return future

    async def _run(self) -> None:
        open_ = True
        while open_:
            first = await self._queue.get()
            if first is None:
                return
            batch = [first]
            deadline = asyncio.get_running_loop().time() + self._linger
            while len(batch) < self._batch:
                try:
                    async with asyncio.timeout_at(deadline):
                        item = await self._queue.get()
                except TimeoutError:
                    break
                if item is None:
                    open_ = False
                    break
                batch.append(item)
            await self._send(batch)

    async def _send(self, batch: list[tuple[Event, asyncio.Future[PublishResult]]]) -> None:
        try:
            results = await self._publish([event for event, _ in batch])
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
