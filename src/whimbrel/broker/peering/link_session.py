"""One connection to a peer, from its hello to its end.

Four tasks share it: one reads, one writes, one follows our log and sends what the peer wants, and one acknowledges what
came when it is on disk. What is under way when a connection breaks is sent again on the next one, from the cursor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import NamedTuple, Protocol

from whimbrel.broker.peering import wire
from whimbrel.broker.peering.link import Link
from whimbrel.broker.peering.log_feed import LogFeed
from whimbrel.broker.peering.wire import BadLink
from whimbrel.broker.requests.envelope import Incoming, structured
from whimbrel.broker.requests.errors import BrokerError, Unavailable
from whimbrel.broker.sequencing.request_group import Forwarding, Published
from whimbrel.broker.service.retention import boundary
from whimbrel.log import BelowFloor, LogReader
from whimbrel.log.reader import Row
from whimbrel.model.errors import WhimbrelError
from whimbrel.overlay.tree.prefix import PREFIX_BYTES

logger = logging.getLogger("whimbrel.overlay")

WINDOW_EVENTS = 4_096
WINDOW_BYTES = 16 << 20
"""Events and bytes that are sent before the peer must acknowledge."""
UNSETTLED = 16
"""Messages of events that wait for the disk; then the connection is not read."""
OUT_BYTES = 256 << 20
"""What may wait to be written besides events; a peer that reads so slowly is cut off, and told all again."""
_ROWS = 1_024
_BUSY_SECONDS = 0.05


class LinkConnection(Protocol):
    """Frames to and from a peer. `receive` and `send` raise ConnectionError when it is gone."""

    async def send(self, frame: bytes) -> None:
        """Send a frame; waits while the peer does not read."""

    async def receive(self) -> bytes:
        """Wait for the next frame; ConnectionError if there is none."""

    async def close(self, reason: str) -> None:
        """Close the connection; the peer is told the reason."""


class SessionOwner(Protocol):
    """What a session needs of its broker; `whimbrel.broker.peering.peering.Peering` has it."""

    @property
    def log(self) -> LogReader:
        """The log of this broker."""

    def is_own(self, origin: str) -> bool:
        """Whether events of an origin are our own."""

    async def read_rows(self, start: int, limit: int) -> list[Row]:
        """Entries of the log that are on disk; none if there are none yet."""

    async def outgoing(self, link: Link, feed: LogFeed, rows: list[Row]) -> list[wire.ForwardedItem]:
        """Return the events among some entries that a peer wants, as they are sent."""

    def take_events(
        self, link: Link, tenant: str, events: list[Incoming], forwarding: Forwarding
    ) -> asyncio.Future[list[Published | BrokerError]]:
        """Put events into the log; Unavailable if too many wait."""

    async def take_message(self, link: Link, message: wire.LinkMessage) -> None:
        """Handle a message that is not about events: filters, trees, regions and traces."""


class LinkSession:
    """A connection to the peer of a link. `run` returns when it ends; `reason` says why."""

    def __init__(self, owner: SessionOwner, link: Link, connection: LinkConnection) -> None:
        self.owner = owner
        self.link = link
        self.reason = ""
        self._connection = connection
        self._is_cut = False
        self._out: deque[wire.LinkMessage] = deque()
        self._out_bytes = 0
        self._last_bytes = 0  # of the newest message that waits
        self._sending = asyncio.Lock()
        self._has_messages = asyncio.Event()
        self._grown = asyncio.Event()
        self._welcome: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._in_flight: deque[_Sent] = deque()
        self._acked = asyncio.Event()
        self._unsettled: asyncio.Queue[tuple[int, list[asyncio.Future[list[Published | BrokerError]]]]] = asyncio.Queue(
            UNSETTLED
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Exchange messages until the connection ends."""
        work = (self._read(), self._write(), self._feed(), self._acknowledge())
        self._tasks = [asyncio.create_task(one) for one in work]
        if self._is_cut:  # before it began
            self.cut(self.reason)
        try:
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception() if not task.cancelled() else None
                if isinstance(error, BadLink):
                    self.link.refused_messages += 1
                    await self._say_bye(error.code, error.message)
                elif isinstance(error, ConnectionError):
                    self.reason = self.reason or f"the connection broke: {error}"
                elif error is not None:
                    self.reason = f"the link failed: {error}"
                    logger.error("the link with %s failed", self.link.label or self.link.peer, exc_info=error)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._connection.close(self.reason)

    async def end(self, code: str, reason: str) -> None:
        """Tell the peer why the connection ends, and close it."""
        await self._say_bye(code, reason)
        self.cut(reason)

    def cut(self, reason: str) -> None:
        """Close the connection without a word; it is made again."""
        self.reason, self._is_cut = reason, True
        for task in self._tasks:
            task.cancel()

    def say(self, message: wire.LinkMessage) -> None:
        """Queue a message behind those that wait. Filters that follow each other become one message, within limits."""
        size = _size(message)
        self._out_bytes += size
        if isinstance(message, wire.Filters):
            last = self._out[-1] if self._out else None
            if isinstance(last, wire.Filters) and self._fits(last, message, size):
                last.added.extend(message.added)
                last.removed.extend(message.removed)
                self._last_bytes += size
                return
            message = wire.Filters(list(message.added), list(message.removed))
        self._out.append(message)
        self._last_bytes = size
        self._has_messages.set()
        if self._out_bytes > OUT_BYTES:
            self.cut("the peer reads too slowly")

    def _fits(self, last: wire.Filters, more: wire.Filters, size: int) -> bool:
        """Whether filters can join the newest message: a receiver adds before it removes, and refuses long ones."""
        count = len(last.added) + len(last.removed) + len(more.added) + len(more.removed)
        is_short = count <= wire.FILTERS_AT_ONCE and self._last_bytes + size <= wire.FILTERS_BYTES
        return is_short and not (last.removed and more.added)

    def wake(self) -> None:
        """Wake the task that reads the log, which has new entries."""
        self._grown.set()

    async def _say_bye(self, code: str, reason: str) -> None:
        self.reason = reason
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._send(wire.Bye(code, reason[:4096]))

    async def _send(self, message: wire.LinkMessage) -> None:
        """Send a message. One at a time: frames of another, while the peer reads slowly, would come between."""
        data = wire.encode(message)
        if len(data) > wire.LINK_MESSAGE.value:
            return  # a tree that is too large: the peer goes on without it
        async with self._sending:
            for frame in wire.frames(data):
                await self._connection.send(frame)

    async def _write(self) -> None:
        while True:
            while self._out:
                message = self._out.popleft()
                self._out_bytes -= _size(message)
                await self._send(message)
            self._out_bytes = 0  # messages that were joined are smaller than they were alone
            self._has_messages.clear()
            await self._has_messages.wait()

    async def _read(self) -> None:
        assembler = wire.Assembler(wire.LINK_MESSAGE.value)
        while True:
            whole = assembler.add(await self._connection.receive())
            if whole is None:
                continue
            message = wire.decode(whole)
            if isinstance(message, wire.Events):
                await self._take_events(message.items)
            elif isinstance(message, wire.Ack):
                self._take_ack(message.offset)
            elif isinstance(message, wire.Welcome):
                if not self._welcome.done():
                    self._welcome.set_result(message.received)
            elif isinstance(message, wire.Bye):
                self.reason = message.reason
                await self.owner.take_message(self.link, message)
                return
            else:
                await self.owner.take_message(self.link, message)

    async def _take_events(self, items: list[wire.ForwardedItem]) -> None:
        """Put events into the log. Neighbours with the same origin and tenant go in together."""
        results: list[asyncio.Future[list[Published | BrokerError]]] = []
        start = 0
        while start < len(items):
            first = items[start]
            end = start + 1
            while end < len(items) and (items[end].origin, items[end].tenant) == (first.origin, first.tenant):
                end += 1
            result = await self._submit(items[start:end])
            if result is not None:
                results.append(result)
            start = end
        if items:
            await self._unsettled.put((items[-1].offset, results))

    async def _submit(self, items: list[wire.ForwardedItem]) -> asyncio.Future[list[Published | BrokerError]] | None:
        events: list[Incoming] = []
        forwarding = Forwarding(self.link.peer, items[0].origin, [], [], [])
        if self.owner.is_own(items[0].origin):  # it must not come back
            self.link.refused_events += len(items)
            return None
        for item in items:
            try:
                events.append(structured(item.raw))
            except (BrokerError, WhimbrelError):
                self.link.refused_events += 1
                continue
            forwarding.offsets.append(item.origin_offset)
            forwarding.positions.append(item.offset)
            if len(item.prefix) > PREFIX_BYTES.value:
                self.link.refused_prefixes += 1
            forwarding.prefixes.append(item.prefix if len(item.prefix) <= PREFIX_BYTES.value else b"")
        while events:
            try:
                return self.owner.take_events(self.link, items[0].tenant, events, forwarding)
            except Unavailable:
                await asyncio.sleep(_BUSY_SECONDS)
        return None

    async def _acknowledge(self) -> None:
        """Tell the peer what is on disk, in the order in which it came."""
        while True:
            last, results = await self._unsettled.get()
            for result in results:
                for one in await result:
                    if isinstance(one, BrokerError):
                        self.link.refused_events += 1
                    elif one.duplicate:
                        self.link.repeated_events += 1
                    else:
                        self.link.events_in += 1
            self.link.received = last
            self.say(wire.Ack(last))

    def _take_ack(self, offset: int) -> None:
        while self._in_flight and self._in_flight[0].last <= offset:
            self.link.cursor = self._in_flight.popleft().cursor
        self._acked.set()

    async def _feed(self) -> None:
        """Follow the log from the cursor on."""
        received = await self._welcome
        log = self.owner.log
        start = self.link.cursor
        if start is None:
            start = log.end if received is None else boundary(log, received + 1)
        feed = LogFeed(log, start)
        position = start
        self.link.cursor = start
        while True:
            self._grown.clear()
            try:
                rows = await self.owner.read_rows(position, _ROWS)
            except BelowFloor as error:
                self.link.missed += error.floor - position
                logger.warning(
                    "%s was away too long: entries %d to %d of the log were deleted before it had them",
                    self.link.label or self.link.peer, position, error.floor - 1,
                )  # fmt: skip
                position = error.floor
                feed = LogFeed(log, position)
                continue
            if not rows:
                await self._grown.wait()
                continue
            items = await self.owner.outgoing(self.link, feed, rows)
            position = rows[-1][0] + 1
            await self._send_events([item for item in items if received is None or item.offset > received], feed.resume)

    async def _send_events(self, items: list[wire.ForwardedItem], resume: int) -> None:
        """Send events; the cursor is at `resume` when the last of them is acknowledged."""
        if not items:
            if self._in_flight:
                self._in_flight[-1] = self._in_flight[-1]._replace(cursor=resume)
            else:
                self.link.cursor = resume
            return
        before = self._in_flight[-1].cursor if self._in_flight else self.link.cursor
        start = 0
        while start < len(items):
            size, end = 0, start
            while end < len(items) and end - start < wire.EVENTS_AT_ONCE and size < wire.EVENTS_BYTES:
                size += len(items[end].raw) + len(items[end].prefix) + 128
                end += 1
            while self._in_flight and self._is_full(end - start, size):
                self._acked.clear()
                await self._acked.wait()
            cursor = resume if end == len(items) else before
            self._in_flight.append(_Sent(items[end - 1].offset, cursor, end - start, size))
            await self._send(wire.Events(items[start:end]))
            self.link.events_out += end - start
            start = end

    def _is_full(self, events: int, size: int) -> bool:
        """Whether the window has no capacity for more events of a size in bytes."""
        waiting = sum(one.events for one in self._in_flight)
        return waiting + events > WINDOW_EVENTS or sum(one.size for one in self._in_flight) + size > WINDOW_BYTES


class _Sent(NamedTuple):
    """Events under way: the offset of the last, and where the cursor is when it is acknowledged."""

    last: int
    cursor: int | None
    events: int
    size: int


def _size(message: wire.LinkMessage) -> int:
    """The approximate bytes of a message."""
    match message:
        case wire.Filters(added, removed):
            return 64 + sum(len(text) + 32 for _, text in added) + 24 * len(removed)
        case wire.TreeUpdateMessage(_, _, changes):
            return 64 + sum(len(text) + 48 for _, text, _ in changes)
        case wire.WholeTreeMessage(_, data) | wire.TraceAnswer(_, data):
            return 64 + len(data)
        case wire.Trace(_, prefix, raw):
            return 64 + len(prefix) + len(raw)
        case wire.HeldFilters(keys):
            return 64 + 24 * len(keys)
    return 256
