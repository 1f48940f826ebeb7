"""Follow a stream: first what is in the log behind the cursor, then what is pushed, without a gap or a repeat."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from whimbrel.broker.delivery.framing import FRAMINGS
from whimbrel.broker.delivery.hub import Stream
from whimbrel.broker.delivery.reader import StoredMessage

Read: TypeAlias = Callable[[int, int], Awaitable[tuple[list[StoredMessage], bool]]]
"""Messages behind an offset, at most so many, and whether there are surely no more of them."""

CATCH_UP = 500
"""Messages that are read from the log at a time."""
WRITE_BYTES = 64 << 10
"""Messages that wait are joined to writes of about this size: a slow consumer holds one such write and its outbox."""


async def follow(
    stream: Stream, read: Read | None, after: int, heartbeat: float, limit: int | None = None
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Yield (offset of the last message, messages) until the stream is closed; an empty list is a heartbeat.

    `read` is for durable subscriptions. The stream is open in the hub already, so that what comes while the log is read
    waits in its outbox. When that overflows, a durable subscription reads the log again.
    """
    outbox = stream.outbox
    frame = FRAMINGS[outbox.framing]
    caught_up = read is None
    while outbox.closed is None:
        if read is not None and (outbox.spilled or not caught_up):
            outbox.spilled = False
            found, complete = await read(after, min(CATCH_UP, limit or CATCH_UP))
            caught_up = complete and not found
            if found:
                after = found[-1].offset
                yield after, [frame(message.offset, message.event) for message in found]
            continue
        if not await outbox.wait(heartbeat):
            yield after, []
            continue
        fresh = [one for one in outbox.take(limit, WRITE_BYTES) if one[0] > after]
        if fresh:
            after = fresh[-1][0]
            yield after, [payload for _, payload in fresh]
