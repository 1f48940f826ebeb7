"""A channel: a subscription with a sink that has something to deliver, or had a moment ago."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from whimbrel.broker.delivery.message_reader import StoredMessage
from whimbrel.broker.store import Cursor, WebhookState
from whimbrel.broker.webhooks.target import WebhookTarget

BEFORE_ALL = Cursor(-1)
AT_ONCE, IDLE = 0.0, math.inf
"""When a channel's next turn is, besides a time: it has more, or nothing."""


@dataclass(slots=True, eq=False)
class Channel:
    """The state of one subscription's deliveries. A channel that is stale is loaded again before it is used.

    It is idle, waits for its host, runs, or waits for a time (`due`, in seconds since 1970).
    """

    id: str
    phase: Literal["idle", "queued", "running", "timed"] = "idle"
    is_stale: bool = True
    is_woken: bool = False
    due: float = 0.0
    paced: float = 0.0  # by the rate that the receiver allows, nothing is sent before this time
    troubles: int = 0  # turns in a row that raised what nobody expected
    target: WebhookTarget | None = None
    state: WebhookState | None = None
    position: Cursor = BEFORE_ALL
    buffer: list[StoredMessage] = field(default_factory=list)
    """Messages behind the position, read ahead."""
