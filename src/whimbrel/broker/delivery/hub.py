"""The hub: which streams are open, and who is told about an event. Used in the event loop only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from whimbrel.broker.delivery.outbox import FRAMINGS, Outbox
from whimbrel.broker.requests.webhook_sinks import DigestRequest
from whimbrel.broker.sequencing.request_group import LivePairs
from whimbrel.broker.store import Cursor

K = TypeVar("K", int, str)


@dataclass(slots=True, eq=False)
class Stream:
    """Somebody who waits for messages. `numbers` are the versions of subscriptions that it listens to.

    A stream of a durable subscription has its `id`, and so has a pull that waits (`is_pull`); ephemeral streams have
    none. `caller`, its `owner` or an admin, reads it. One with a `digest` reads the log when a window is over;
    nothing is pushed to it.
    """

    outbox: Outbox
    owner: str
    id: str | None = None
    numbers: set[int] = field(default_factory=set)
    caller: str = ""
    digest: DigestRequest | None = None
    tenant: str = ""  # whose publications it is about
    is_pull: bool = False


class Hub:
    """Pushes events to the outboxes of open streams."""

    def __init__(self) -> None:
        self._by_number: dict[int, tuple[Stream, ...]] = {}
        self._by_id: dict[str, tuple[Stream, ...]] = {}  # at most one of them is not a pull
        self._streams: set[Stream] = set()
        self.dropped = self.spills = 0  # of streams that are closed

    def open(self, stream: Stream, numbers: Iterable[int]) -> None:
        """Push messages to a stream from now on. A second stream on a subscription replaces the first."""
        if stream.outbox.closed is not None:
            return
        if stream.id is not None:
            for former in self._by_id.get(stream.id, ()):
                if not (stream.is_pull or former.is_pull):
                    former.outbox.close("replaced")
                    self.close(former)
            self._by_id[stream.id] = (*self._by_id.get(stream.id, ()), stream)
        self._streams.add(stream)
        for number in numbers:
            self.listen(stream, number)

    def listen(self, stream: Stream, number: int) -> None:
        """Push what this version matches to a stream, too."""
        stream.numbers.add(number)
        others = self._by_number.get(number, ())
        if stream not in others:
            self._by_number[number] = (*others, stream)

    def close(self, stream: Stream) -> None:
        """Push nothing more to a stream; a second call does nothing."""
        if stream not in self._streams:
            return
        self._streams.discard(stream)
        self.dropped += stream.outbox.dropped
        self.spills += stream.outbox.spills
        for number in stream.numbers:
            _take_out(self._by_number, number, stream)
        if stream.id is not None:
            _take_out(self._by_id, stream.id, stream)

    def is_open(self, id: str) -> bool:
        """Whether a subscription has a stream or a pull that waits."""
        return id in self._by_id

    def renumber(self, id: str, number: int, digest: DigestRequest | None) -> None:
        """Let the streams of a subscription listen to its new version, and use the digest of that."""
        for stream in self._by_id.get(id, ()):
            self.listen(stream, number)
            if stream.digest != digest and not stream.is_pull:
                stream.digest = digest
                stream.outbox.reread()

    def end(self, id: str, reason: str) -> None:
        """Close the stream of a subscription that ended, and let no pull wait for it."""
        for stream in self._by_id.get(id, ()):
            stream.outbox.close(reason)

    def end_of_owner(self, owner: str, reason: str) -> None:
        """Close all streams that a principal owns or reads."""
        for stream in list(self._streams):
            if owner in (stream.owner, stream.caller):
                stream.outbox.close(reason)

    def close_all(self, reason: str) -> None:
        """Close all streams."""
        for stream in list(self._streams):
            stream.outbox.close(reason)

    def deliver(self, pairs: LivePairs) -> None:
        """Push the events of a group. Takes time in proportion to the pairs, and none if no stream is open."""
        by_number = self._by_number
        if not by_number or not len(pairs.numbers):
            return
        if len(pairs.numbers) > 64:
            open_numbers = np.fromiter(by_number, np.int64, len(by_number))
            mine = np.flatnonzero(np.isin(pairs.numbers, open_numbers))
            numbers, offsets = pairs.numbers[mine].tolist(), pairs.offsets[mine].tolist()
        else:
            numbers, offsets = pairs.numbers.tolist(), pairs.offsets.tolist()
        framed: dict[tuple[str, int], bytes] = {}
        for number, offset in zip(numbers, offsets, strict=True):
            for stream in by_number.get(number, ()):
                key = stream.outbox.framing, offset
                payload = framed.get(key)
                if payload is None:
                    event = pairs.events.get(offset)
                    if event is None:
                        _push_notice(stream.outbox, pairs, number, offset)
                        continue
                    payload = framed[key] = FRAMINGS[key[0]](Cursor(offset), event)
                stream.outbox.push(offset, payload)

    def reread(self, numbers: NDArray[np.int64]) -> None:
        """Let the streams of these versions read on from the log: matches of older events have come."""
        by_number = self._by_number
        if by_number:
            open_numbers = np.fromiter(by_number, np.int64, len(by_number))
            for number in np.intersect1d(open_numbers, numbers).tolist():
                for stream in by_number[number]:
                    stream.outbox.reread()

    def counts(self) -> dict[str, int]:
        """Open streams, and what waits in their outboxes or was dropped."""
        return {
            "streams": len(self._streams),
            "waiting_messages": sum(len(stream.outbox) for stream in self._streams),
            "waiting_bytes": sum(stream.outbox.waiting_bytes for stream in self._streams),
            "spills": self.spills + sum(stream.outbox.spills for stream in self._streams),
            "dropped": self.dropped + sum(stream.outbox.dropped for stream in self._streams),
        }


def _take_out(streams: dict[K, tuple[Stream, ...]], key: K, stream: Stream) -> None:
    """Remove a stream from the ones that are listed under a key."""
    others = tuple(other for other in streams.pop(key, ()) if other is not stream)
    if others:
        streams[key] = others


def _push_notice(outbox: Outbox, pairs: LivePairs, number: int, offset: int) -> None:
    """Push what an entry other than an event means for a subscription, or let the stream read it from the log."""
    notice = pairs.notices.get(offset)
    message = None if notice is None else notice(number)
    if message is None:
        outbox.spill()
    else:
        outbox.push(offset, FRAMINGS[outbox.framing](Cursor(offset), message))
