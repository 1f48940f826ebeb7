"""A channel: a subscription with a sink that has something to deliver, or had a moment ago.

Some channels wait for a moment: for a retry, a digest, or the rate that their receiver allows.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time_ns
from typing import Literal
from uuid import uuid4

from whimbrel.broker.delivery.message_reader import StoredMessage
from whimbrel.broker.store import Cursor, WebhookState
from whimbrel.broker.webhooks.target import WebhookTarget

BEFORE_ALL = Cursor(-1)
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
BOOT = BOOT_ID.read_text().strip() if BOOT_ID.exists() else uuid4().hex
"""Moments with the same boot id can be compared: all of one run of the machine, or else of this process."""
AT_ONCE, IDLE = 0.0, math.inf
"""When a channel wants its next turn, if not at a moment: at once, because it has more; or never, until it is woken."""


@dataclass(slots=True, eq=False)
class Channel:
    """The state of one subscription's deliveries. A channel that is stale is loaded again before it is used.

    It is idle, waits for its host, runs, or waits for a moment. Moments are those of `monotonic()`, so that no channel
    waits longer because the clock of the system is set back.
    """

    id: str
    phase: Literal["idle", "queued", "running", "timed"] = "idle"
    is_stale: bool = True
    is_woken: bool = False
    due: float = 0.0  # the moment that it waits for
    paced: float = 0.0  # by the rate that the receiver allows, nothing is sent before this moment
    troubles: int = 0  # turns in a row that raised what nobody expected
    target: WebhookTarget | None = None
    state: WebhookState | None = None
    position: Cursor = BEFORE_ALL
    buffer: list[StoredMessage] = field(default_factory=list)
    """Messages behind the position, read ahead."""


def moment_of(time: int) -> float:
    """Convert a time in microseconds since 1970 to a moment of `monotonic()`, by what the clock says now."""
    return monotonic() + max(0, time - time_ns() // 1_000) / 1e6


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
