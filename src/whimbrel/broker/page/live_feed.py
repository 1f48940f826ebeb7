"""What the broker does now, once a second: rates, latencies, the busiest subscriptions, the newest matched events.

Rates are kept all the time, so that a page shows the last minutes when it opens. Events and subscriptions are looked at
only while somebody watches, and then only some of each group, so that the load of a page does not grow with that of
the broker.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable
from time import monotonic, time
from typing import NamedTuple

import msgspec
import numpy as np

from whimbrel.broker.sequencing.request_group import LivePairs
from whimbrel.broker.store import Store

HISTORY_SECONDS = 300
"""Samples that a page gets when it opens."""
TAIL = 20
"""Matched events per second that a page shows, at most."""
TAIL_OF_GROUP = 4
"""Matched events of one group that are looked at, at most."""
SHOWN_BYTES = 2_048
"""Longer events are shown by their offset and size."""
PAIRS_OF_GROUP = 256
"""Pairs of one group that count for the busiest subscriptions; they stand for all since the last look."""
LOOK_SECONDS = 0.02
"""Groups that come sooner after a look are not looked at."""
BUSIEST = 8
_BUSY_KEPT = 1_000
_KEEP = 0.8  # of a subscription's rate, each second
_SHARES = (0.5, 0.9, 0.99)
LATENCY_SECONDS = 10
"""The seconds over which percentiles are computed."""
_LOWEST = 1e-5
_PER_E = 12.5  # buckets for a factor of e: each is 8 % wide
_BUCKETS = 202  # up to 100 s


class LatencyWindow:
    """Counts how long things took. Used in the event loop only; `observe` costs half a microsecond."""

    def __init__(self) -> None:
        self._present = [0] * _BUCKETS
        self._past: deque[list[int]] = deque(maxlen=LATENCY_SECONDS - 1)

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        place = int(_PER_E * math.log(max(seconds, _LOWEST) / _LOWEST))
        self._present[min(place, _BUCKETS - 1)] += 1

    def next_second(self) -> None:
        """Begin another second; the oldest one no longer counts."""
        self._past.append(self._present)
        self._present = [0] * _BUCKETS

    def percentiles(self, shares: tuple[float, ...]) -> list[float] | None:
        """The seconds below which these shares lie, to 8 %; None if nothing was observed.

        >>> window = LatencyWindow()
        >>> for milliseconds in range(1, 101):
        ...     window.observe(milliseconds / 1000)
        >>> [round(seconds * 1000) for seconds in window.percentiles((0.5, 0.99))]
        [52, 107]
        """
        counts = [sum(column) for column in zip(self._present, *self._past, strict=True)]
        total = sum(counts)
        if not total:
            return None
        found: list[float] = []
        seen, place = 0, -1
        for share in shares:
            while seen < share * total:
                place += 1
                seen += counts[place]
            found.append(_LOWEST * math.exp((place + 1) / _PER_E))
        return found


class Counts(NamedTuple):
    """What the broker has counted since its start, and how things stand."""

    published: int
    refused: int
    delivered: int
    waiting: int
    streams: int
    subscriptions: int
    end: int


class FeedSample(msgspec.Struct):
    """One second: rates per second, latencies of publishes in milliseconds (p50, p90, p99) over the last ten."""

    time: float
    published: float
    matched: float
    delivered: float
    refused: float
    latency: list[float] | None
    waiting: int
    streams: int
    subscriptions: int
    end: int


class BusySubscription(msgspec.Struct):
    """A subscription and how many events it matches per second, about."""

    id: str
    rate: float


class TailEvent(msgspec.Struct):
    """A matched event: how many subscriptions it matched and some of them. A large event has only its size."""

    offset: int
    size: int
    matches: int
    subscriptions: list[str]
    event: msgspec.Raw | None


class FeedSecond(msgspec.Struct):
    """What a page is told each second."""

    sample: FeedSample
    busiest: list[BusySubscription]
    tail: list[TailEvent]


class _Seen(NamedTuple):
    offset: int
    event: bytes
    matches: int
    numbers: list[int]


class LiveFeed:
    """Gathers a sample each second. `observe` runs in the writer of the log, everything else in the event loop."""

    def __init__(self, counts: Callable[[], Counts], store: Store) -> None:
        self.latency = LatencyWindow()
        self._counts = counts
        self._store = store
        self._matched = 0
        self._looked = 0.0
        self._passed = 0  # pairs since the last look
        self._viewers = 0
        self._history: deque[FeedSample] = deque(maxlen=HISTORY_SECONDS)
        self._seen: deque[_Seen] = deque(maxlen=TAIL)
        self._hits: deque[tuple[list[int], float]] = deque(maxlen=1_000)
        self._rates: dict[int, float] = {}
        self._next: asyncio.Future[bytes] | None = None
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to sample, in the running event loop."""
        self._next = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run())

    def close(self) -> None:
        """End the streams of all pages."""
        self._closed = True
        if self._next is not None and not self._next.done():
            self._next.set_result(b"")

    async def stop(self) -> None:
        """End the task that takes samples."""
        self.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def observe(self, pairs: LivePairs) -> None:
        """Count the matches of a group that is on disk, and look at some of them while somebody watches."""
        count = len(pairs.numbers)
        self._matched += count
        if not self._viewers or not count:
            return
        self._passed += count
        now = monotonic()
        if now < self._looked + LOOK_SECONDS:
            return
        sampled = pairs.numbers[:: -(-count // PAIRS_OF_GROUP)].tolist()
        self._hits.append((sampled, self._passed / len(sampled)))
        self._looked, self._passed = now, 0
        for offset in np.unique(pairs.offsets[-4096:])[-TAIL_OF_GROUP:].tolist():
            event = pairs.events.get(offset)  # none for an entry that is no event
            if event is not None:
                mine = pairs.numbers[pairs.offsets == offset]
                self._seen.append(_Seen(offset, event, len(mine), mine[mine >= 0][:3].tolist()))

    async def follow(self) -> AsyncGenerator[bytes, None]:
        """The past as a JSON array of samples, then each second as a JSON object."""
        assert self._next is not None
        self._viewers += 1
        try:
            yield msgspec.json.encode(list(self._history))
            while not self._closed:
                second = await asyncio.shield(self._next)
                if second:
                    yield second
        finally:
            self._viewers -= 1

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        before, matched, then = self._counts(), self._matched, loop.time()
        while not self._closed:
            await asyncio.sleep(1)
            now = loop.time()
            counts, so_far, seconds = self._counts(), self._matched, now - then
            sample = self._sample(before, counts, (so_far - matched) / seconds, seconds)
            before, matched, then = counts, so_far, now
            self._history.append(sample)
            if self._closed:
                return
            assert self._next is not None
            done, self._next = self._next, loop.create_future()
            if self._viewers:
                done.set_result(msgspec.json.encode(FeedSecond(sample, self._busiest(seconds), self._tail())))
            else:
                done.cancel()
                self._hits.clear()
                self._rates.clear()
                self._seen.clear()

    def _sample(self, before: Counts, counts: Counts, matched: float, seconds: float) -> FeedSample:
        def rate(now: int, then: int) -> float:
            return round((now - then) / seconds, 1)

        found = self.latency.percentiles(_SHARES)
        self.latency.next_second()
        return FeedSample(
            round(time(), 1),
            rate(counts.published, before.published),
            round(matched, 1),
            rate(counts.delivered, before.delivered),
            rate(counts.refused, before.refused),
            None if found is None else [round(1000 * one, 3) for one in found],
            counts.waiting,
            counts.streams,
            counts.subscriptions,
            counts.end,
        )

    def _busiest(self, seconds: float) -> list[BusySubscription]:
        """The subscriptions with the highest rates, as a moving average of the last seconds."""
        rates = {number: _KEEP * rate for number, rate in self._rates.items()}
        while self._hits:
            numbers, weight = self._hits.popleft()
            for number in numbers:
                rates[number] = rates.get(number, 0.0) + (1 - _KEEP) * weight / seconds
        kept = sorted(((rate, number) for number, rate in rates.items() if number >= 0), reverse=True)[:_BUSY_KEPT]
        self._rates = {number: rate for rate, number in kept if rate > 0.01}
        names = self._store.ids_of([number for _, number in kept[:BUSIEST]])
        return [BusySubscription(names[number], round(rate, 2)) for rate, number in kept[:BUSIEST] if number in names]

    def _tail(self) -> list[TailEvent]:
        seen = []
        while self._seen:
            seen.append(self._seen.popleft())
        names = self._store.ids_of(sorted({number for one in seen for number in one.numbers}))
        return [
            TailEvent(
                one.offset,
                len(one.event),
                one.matches,
                [names[number] for number in one.numbers if number in names],
                msgspec.Raw(one.event) if len(one.event) <= SHOWN_BYTES else None,
            )
            for one in seen
        ]
