"""What the parts of a broker run on: the event loop, the queue of the sequencer, and pools of threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from whimbrel.broker.requests.entries import Change
from whimbrel.broker.sequencing.request_group import Batch, Decide, Publish

T = TypeVar("T")
Decision: TypeAlias = Callable[[int], tuple[list[Change], object]]
"""A change, decided in the sequencer: from the next offset to the entries to append and the answer."""

READERS = 4
"""Threads that read messages."""
PARSERS = 2
"""Threads that parse filters: a large one takes a second, for which nobody else's reads wait."""


class Runtime:
    """Runs work in the thread that it belongs to. `submit` queues a request for the sequencer; set by the broker."""

    submit: Callable[[Publish | Decide | Batch], None]

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._readers = ThreadPoolExecutor(READERS, "whimbrel-reader")
        self._parsers = ThreadPoolExecutor(PARSERS, "whimbrel-parser")
        self._long_work = ThreadPoolExecutor(1, "whimbrel-scan")

    def start(self) -> None:
        """Use the running event loop."""
        self._loop = asyncio.get_running_loop()

    def stop(self) -> None:
        """Wait until the pools of threads have finished."""
        self._readers.shutdown()
        self._parsers.shutdown()
        self._long_work.shutdown()

    @property
    def waiting(self) -> int:
        """Reads that wait for a thread of the pool."""
        return self._readers._work_queue.qsize()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the broker."""
        assert self._loop is not None
        return self._loop

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call something in the event loop, from any thread."""
        self.loop.call_soon_threadsafe(function, *arguments)

    def decide(self, decision: Decision) -> Awaitable[Any]:
        """Queue a change for the sequencer; the answer comes when it is on disk."""
        future = self.loop.create_future()
        self.submit(Decide(decision, future))
        return future

    async def in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a blocking read in the pool."""
        return await self.loop.run_in_executor(self._readers, function, *arguments)

    async def in_parser(self, function: Callable[..., T], *arguments: object) -> T:
        """Parse filters in a pool of their own."""
        return await self.loop.run_in_executor(self._parsers, function, *arguments)

    async def in_background(self, function: Callable[..., T], *arguments: object) -> T:
        """Run work that takes long, one at a time, so that it holds up nobody's reads."""
        return await self.loop.run_in_executor(self._long_work, function, *arguments)
