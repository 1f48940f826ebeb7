"""Follow a stream: first what is in the log behind the cursor, then what is pushed, without a gap or a repeat."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic, time_ns
from typing import TypeAlias

from whimbrel.broker.delivery.digests import closed_messages, digest_of, next_window
from whimbrel.broker.delivery.hub import Stream
from whimbrel.broker.delivery.message_reader import StoredMessage
from whimbrel.broker.delivery.outbox import FRAMINGS
from whimbrel.broker.requests.errors import Truncated
from whimbrel.broker.requests.webhook_sinks import DigestRequest
from whimbrel.broker.store import Cursor

Read: TypeAlias = Callable[[Cursor, int], Awaitable[tuple[list[StoredMessage], bool]]]
"""Reads messages behind a cursor, up to a number of them. The flag says that there are surely no more."""
TellGap: TypeAlias = Callable[[Truncated], Awaitable[None]]
"""Tell the consumer that messages were deleted before it read them."""

CATCH_UP = 500
"""Messages that are read from the log at a time."""
WRITE_BYTES = 64 << 10
"""Messages that wait are joined to writes of about this size: a slow consumer holds one such write and its outbox."""


async def follow(
    stream: Stream, read: Read | None, after: Cursor, heartbeat: float, tell_gap: TellGap
) -> AsyncIterator[tuple[Cursor, list[bytes]]]:
    """Yield (cursor of the last message, messages) until the stream is closed; an empty list is a heartbeat.

    `read` is for durable subscriptions. The stream is open in the hub already, so that what comes while the log is read
    waits in its outbox. When that overflows, a durable subscription reads the log again. Where the log was truncated
    meanwhile the consumer is told, and goes on from the floor. When the subscription changes to digests, or from them,
    or to other ones, the stream goes on with them.
    """
    while stream.outbox.closed is None:
        digest = stream.digest
        if read is not None and digest is not None:
            followed = _follow_digests(stream, digest, read, after, heartbeat, tell_gap)
        else:
            followed = _follow_messages(stream, read, after, heartbeat, tell_gap)
        async for reached, payloads in followed:
            after = reached
            yield reached, payloads


async def _follow_messages(
    stream: Stream, read: Read | None, after: Cursor, heartbeat: float, tell_gap: TellGap
) -> AsyncIterator[tuple[Cursor, list[bytes]]]:
    """As `follow`, one message per event."""
    outbox = stream.outbox
    frame = FRAMINGS[outbox.framing]
    caught_up = read is None
    while outbox.closed is None and stream.digest is None:
        if read is not None and (outbox.spilled or not caught_up):
            outbox.spilled = False
            try:
                found, complete = await read(after, CATCH_UP)
            except Truncated as gap:
                await tell_gap(gap)
                after, caught_up = Cursor(gap.first - 1), False
                continue
            caught_up = complete and not found
            if found:
                after = found[-1].cursor
                yield after, [frame(message.cursor, message.event) for message in found]
            continue
        if not await outbox.wait(heartbeat):
            yield after, []
            continue
        fresh = [one for one in outbox.take(WRITE_BYTES) if one[0] > after.offset]
        if fresh:
            after = Cursor(fresh[-1][0])
            yield after, [payload for _, payload in fresh]


async def _follow_digests(
    stream: Stream, digest: DigestRequest, read: Read, after: Cursor, heartbeat: float, tell_gap: TellGap
) -> AsyncIterator[tuple[Cursor, list[bytes]]]:
    """As `follow`, but the messages of windows that are over come together; nothing comes if there are none."""
    outbox = stream.outbox
    outbox.spilled = True  # nothing is pushed: the log is read when a window is over
    frame, seconds = FRAMINGS[outbox.framing], digest.seconds
    due = 0.0  # a moment of `monotonic()`: nobody waits longer because the clock is set back
    while outbox.closed is None and stream.digest == digest:
        if monotonic() >= due:
            now = time_ns() // 1_000
            try:
                found, complete = await read(after, digest.max)
            except Truncated as gap:
                await tell_gap(gap)
                after = Cursor(gap.first - 1)
                continue
            ready = closed_messages(found, seconds, now)
            if ready:
                after = ready[-1].cursor
                yield after, [frame(after, digest_of(ready, seconds))]
            elif complete:
                due = monotonic() + (next_window(now, seconds) - now) / 1e6
            continue
        if await outbox.wait(min(heartbeat, due - monotonic())):
            outbox.take()
        elif monotonic() < due:
            yield after, []
