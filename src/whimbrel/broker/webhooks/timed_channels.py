"""Channels that wait for a moment: a retry, a digest, the rate that a receiver allows. One timer serves them all."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from time import monotonic

from whimbrel.broker.webhooks.channel import Channel


class TimedChannels:
    """Calls `on_due` with the channels whose time has come. Used in one event loop.

    A channel that has another phase or another moment by then is left out: somebody has woken it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[list[Channel]], None]) -> None:
        self._loop = loop
        self._on_due = on_due
        self._waiting: list[tuple[float, int, Channel]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, channel: Channel, due: float) -> None:
        """Let a channel wait until a moment of `monotonic()`."""
        channel.phase, channel.due = "timed", due
        channel.buffer = []
        channel.is_stale = True  # by then somebody may have moved its cursor
        heapq.heappush(self._waiting, (due, next(self._order), channel))
        self._set_timer()

    def stop(self) -> None:
        """Wake nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self.stop()
        if self._waiting:
            self._timer = self._loop.call_later(max(0.001, self._waiting[0][0] - monotonic()), self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        now = monotonic()
        found: list[Channel] = []
        while self._waiting and self._waiting[0][0] <= now:
            due, _, channel = heapq.heappop(self._waiting)
            if channel.phase == "timed" and channel.due == due:
                found.append(channel)
        self._on_due(found)
        self._set_timer()
