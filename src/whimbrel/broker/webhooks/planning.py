"""Which messages the next request of a channel has.

A batch has whatever waits, so its events depend on when it is made. Before its first attempt the broker stores a plan:
up to which cursor messages are cut into requests. The cut follows from the cursor, the plan and the log alone, so that
a request that is repeated after a crash has the same events and the same webhook-id. A single message needs no plan.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from time import monotonic

from whimbrel.broker.delivery.digests import DIGEST_BYTES, closed_messages, next_window
from whimbrel.broker.delivery.message_reader import MessageReader, StoredMessage
from whimbrel.broker.requests.errors import Truncated
from whimbrel.broker.store import Cursor
from whimbrel.broker.webhooks.channel import AT_ONCE, IDLE, Channel, moment_of
from whimbrel.broker.webhooks.outgoing import REQUEST_BYTES, fitting
from whimbrel.broker.webhooks.records import WebhookRecords, now_us
from whimbrel.broker.webhooks.target import WebhookTarget

READ_AHEAD = 64
"""Messages that are read at a time for requests of one event."""
PLANNED = 256
"""Messages of batches that one plan has, at most, unless one batch has more."""
BUFFER_BYTES = 128 << 10
"""Bytes of messages that a channel keeps for its next turns."""
REFUSED_SECONDS = 1.0
"""When a channel is looked at again whose plan the store refuses; until then others have its turn."""


@dataclass(eq=False)
class RequestPlanner:
    """Reads the messages of channels and cuts them into requests. Used in the event loop of webhooks."""

    _reader: MessageReader
    _records: WebhookRecords
    _counts: Counter[str]

    async def next_messages(self, channel: Channel, target: WebhookTarget) -> tuple[list[StoredMessage], float]:
        """The messages of the next request; if there are none, when to look again."""
        if not target.is_grouped:
            complete = True
            if not channel.buffer:
                found, complete = await self._read(channel, target, READ_AHEAD)
                channel.buffer = fitting(found, len(found), BUFFER_BYTES)
            return channel.buffer[:1], IDLE if complete else AT_ONCE
        until = self._planned(channel)
        messages, complete = await self._enough(channel, target, until)
        if until is not None:
            # None are left up to the plan's end if retention was faster: then there is a new plan.
            messages = [one for one in messages if one.cursor.place <= until.place] or messages
            if not messages or messages[0].cursor.place > until.place:
                until = None
        if not messages:
            return [], IDLE if complete else AT_ONCE
        if until is None:
            if target.digest is not None:
                ready = closed_messages(messages[: target.batch], target.digest.seconds, now_us())
                if not ready:
                    return [], moment_of(next_window(messages[0].time, target.digest.seconds))
                messages = ready
            self._plan(channel, messages[-1].cursor)
        if not self._records.is_stored(channel.id):
            if not await self._records.stored():
                return [], monotonic() + REFUSED_SECONDS
            if channel.is_stale or channel.state is None or channel.state.disabled is not None:  # changed meanwhile
                return [], AT_ONCE
        found = fitting(messages, target.batch, REQUEST_BYTES if target.digest is None else DIGEST_BYTES)
        channel.buffer = _kept(messages, len(found))
        return found, AT_ONCE

    def _planned(self, channel: Channel) -> Cursor | None:
        """The end of the plan, unless the channel is through with it."""
        until = None if channel.state is None else channel.state.until
        return None if until is None or until.place <= channel.position.place else until

    def _plan(self, channel: Channel, until: Cursor) -> None:
        """Set how far messages are cut into requests."""
        assert channel.state is not None
        channel.state = channel.state._replace(until_offset=until.offset, until_part=until.part)
        self._records.set_state(channel.id, channel.state)

    async def _enough(
        self, channel: Channel, target: WebhookTarget, until: Cursor | None
    ) -> tuple[list[StoredMessage], bool]:
        """Messages behind the position: what a request may have, or all up to the end of the plan."""
        limit, found, complete, position = target.batch, channel.buffer, True, channel.position
        if len(found) >= limit or (found and until is not None and found[-1].cursor.place >= until.place):
            return found, complete
        count = limit if target.digest is not None else limit * max(1, PLANNED // limit)
        found, complete = await self._read(channel, target, count)
        # A scan of older events stops now and then; a planned request goes on to its end.
        while until is not None and found and not complete and len(found) < limit:
            if found[-1].cursor.place >= until.place:
                break
            more, complete = await self._read(channel, target, limit - len(found), found[-1].cursor)
            if channel.position != position:  # retention was faster
                return [], False
            found = found + more
        return found, complete

    async def _read(
        self, channel: Channel, target: WebhookTarget, count: int, after: Cursor | None = None
    ) -> tuple[list[StoredMessage], bool]:
        held, after = target.held, after or channel.position
        try:
            if held.start is not None and after.offset < held.first:  # a scan of the log takes its time
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(None, self._reader.read, held, after, count)
            return self._reader.read(held, after, count)
        except Truncated as gap:  # retention was faster than the receiver
            channel.position = Cursor(gap.first - 1)
            self._records.move(channel.id, channel.position)
            self._counts["gaps"] += 1
            return [], False


def _kept(messages: list[StoredMessage], sent: int) -> list[StoredMessage]:
    """What a channel keeps while a request is sent: its messages, and the ones behind them if they are small."""
    behind = messages[sent:]
    return messages if sum(len(one.event) for one in behind) <= BUFFER_BYTES else messages[:sent]
