"""The outbox of one stream: messages as bytes that wait for a consumer, bounded in number and in bytes.

A durable subscription spills: a full outbox is emptied, and the stream reads on from the log. An ephemeral one has a
policy. Publishers never wait for a consumer. An outbox is used in the event loop only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

from whimbrel.broker.requests.envelope import CURSOR
from whimbrel.broker.store import Cursor

Policy: TypeAlias = Literal["spill", "drop-oldest", "drop-newest", "disconnect"]
EPHEMERAL_POLICIES = tuple(policy for policy in get_args(Policy) if policy != "spill")

OUTBOX_MESSAGES = 1_000
OUTBOX_BYTES = 1 << 20


def sse(cursor: Cursor, event: bytes) -> bytes:
    """An SSE event. Line breaks in JSON stand between tokens only, where a space means the same.

    >>> sse(Cursor(7), b'{"id": "a"}')
    b'id: 7\\ndata: {"id": "a"}\\n\\n'
    """
    if b"\n" in event or b"\r" in event:
        event = event.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"id: %b\ndata: %b\n\n" % (str(cursor).encode(), event)


def websocket(cursor: Cursor, event: bytes) -> bytes:
    """The event with its cursor as an extension attribute.

    >>> websocket(Cursor(7, 1), b' {"id": "a"}')
    b'{"whimbrelcursor":"7.1","id": "a"}'
    """
    return b'{"%b":"%b",%b' % (CURSOR.encode(), str(cursor).encode(), event.lstrip()[1:])


FRAMINGS: dict[str, Callable[[Cursor, bytes], bytes]] = {"sse": sse, "ws": websocket}
"""The framings by name."""


class Outbox:
    """Messages as (offset, payload) in the order of the log."""

    def __init__(self, policy: Policy, framing: str, messages: int = OUTBOX_MESSAGES, size: int = OUTBOX_BYTES) -> None:
        self.policy = policy
        self.framing = framing
        self.dropped = 0
        self.spilled = False
        self.spills = 0
        self.closed: str | None = None  # why the stream must end
        self._limits = messages, size
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """The size of all messages that wait."""
        return self._bytes

    def push(self, offset: int, payload: bytes) -> None:
        """Add a message. If the outbox is full, the policy decides what is dropped."""
        if self.closed is not None or self.spilled:
            return
        messages, size = self._limits
        while len(self._waiting) >= messages or (self._waiting and self._bytes + len(payload) > size):
            if self.policy == "drop-oldest":
                self._bytes -= len(self._waiting.popleft()[1])
                self.dropped += 1
                continue
            if self.policy == "drop-newest":
                self.dropped += 1
            elif self.policy == "spill":
                self.spill()
            else:
                self.dropped += len(self._waiting) + 1
                self.close("slow-consumer")
            return
        self._waiting.append((offset, payload))
        self._bytes += len(payload)
        self._wake.set()

    def spill(self) -> None:
        """Empty the outbox of a durable subscription: the stream reads on from the log instead."""
        if self.policy == "spill" and self.closed is None:
            self._waiting.clear()
            self._bytes = 0
            self.spilled = True
            self.spills += 1
        self._wake.set()

    def take(self, size: int | None = None) -> list[tuple[int, bytes]]:
        """The messages that wait, oldest first, and no more once they have `size` bytes."""
        if size is None or size >= self._bytes:
            taken = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
        else:
            taken, left = [], size
            while self._waiting and left > 0:
                taken.append(self._waiting.popleft())
                left -= len(taken[-1][1])
                self._bytes -= len(taken[-1][1])
        if not self._waiting and self.closed is None:
            self._wake.clear()
        return taken

    def close(self, reason: str) -> None:
        """End the stream, and drop the messages that wait."""
        if self.closed is None:
            self.closed = reason
            self._waiting.clear()
            self._bytes = 0
        self._wake.set()

    def reread(self) -> None:
        """Wake the stream of a durable subscription: it has more to read in the log."""
        self.spilled = self.policy == "spill"
        self._wake.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for a message or the end; False if neither came in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True
