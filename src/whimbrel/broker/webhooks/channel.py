"""A channel: a subscription with a sink that has something to deliver, or had a moment ago."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from time import monotonic, time_ns
from typing import Literal

from whimbrel.broker.delivery.message_reader import StoredMessage
from whimbrel.broker.store import Cursor, WebhookState
from whimbrel.broker.webhooks.target import WebhookTarget

BEFORE_ALL = Cursor(-1)
AT_ONCE, IDLE = 0.0, math.inf
"""When a channel's next turn is, besides a moment: it has more, or nothing."""


@dataclass(slots=True, eq=False)
class Channel:
    """The state of one subscription's deliveries. A channel that is stale is loaded again before it is used.

    It is idle, waits for its host, runs, or waits for a moment. Moments are those of `monotonic()`, so that no channel
    waits longer because the clock of the system is set back. The times that are stored are times since 1970.
    """

    id: str
    phase: Literal["idle", "queued", "running", "timed"] = "idle"
    is_stale: bool = True
    is_woken: bool = False
    due: float = 0.0  # the moment that it waits for
    paced: float = 0.0  # by the rate that the receiver allows, nothing is sent before this moment
    retry: tuple[int, float] = (0, 0.0)  # the time of the next attempt, as it is stored, and the moment
    troubles: int = 0  # turns in a row that raised what nobody expected
    target: WebhookTarget | None = None
    state: WebhookState | None = None
    position: Cursor = BEFORE_ALL
    buffer: list[StoredMessage] = field(default_factory=list)
    """Messages behind the position, read ahead."""

    def retry_moment(self) -> float:
        """The moment before which no attempt is made after one that failed; 0.0 if none has failed."""
        due = None if self.state is None else self.state.due
        if due is None:
            return 0.0
        if self.retry[0] != due:  # another process failed
            self.retry = due, moment_of(due)
        return self.retry[1]


def moment_of(time: int) -> float:
    """The moment of `monotonic()` at which a time comes, in microseconds since 1970, if no clock is set meanwhile."""
    return monotonic() + max(0, time - time_ns() // 1_000) / 1e6
