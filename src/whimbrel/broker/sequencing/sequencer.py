"""The sequencer: one thread that puts events and changes into one order, matches, and gives offsets.

It takes what waits in its queue, decides every request in turn, and appends all of it to the log as one group. While
the disk syncs a group the next one gathers. When a group is on disk its effects are folded into the lists and the
store, streams are told, and only then the requests are answered. So no change slips between a match and its offset,
an answer means "on disk", and whoever has an answer sees its effect in the next call.

If the log or the store fails, nothing more is acknowledged and `on_failure` is called: the process must end. So it is
when deciding a request raises what nobody expected, because index and topics may have a part of it that the log will
never have. Only where a decision is known to have read and changed nothing so far, the request alone is refused: while
events are recognised and matched, and while updates of publications are read (see `unexpected`).
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from time import monotonic
from typing import Any, Protocol

from whimbrel.broker.lists.event_ids import EventIds
from whimbrel.broker.requests.errors import NoSpace, Unavailable
from whimbrel.broker.sequencing.publishing import Publishing
from whimbrel.broker.sequencing.request_group import Answer, Batch, Decide, IgnoredResult, Publish, RequestGroup, Result
from whimbrel.log import LogWriter
from whimbrel.model.errors import WhimbrelError

GROUP_EVENTS = 4_096
"""Events of one group, at most, except that the events of one request stay together."""
GROUP_CHANGES = 1_000
"""Changes of one group, at most. A bulk import counts as one."""
CHANGE_SECONDS = 0.05
"""While events wait, changes are taken at most this often."""
QUEUE_EVENTS = 100_000
QUEUE_BYTES = 128 << 20
"""What may wait for the sequencer; above that, requests are refused with 503."""
_CHANGE_BYTES = 256  # what a change counts for in the queue
IN_FLIGHT = 2
"""Groups between matching and the disk: one that is synced and one that waits."""

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds; a last bucket takes all that lasts longer."""

STAGES = {
    "queue": "the oldest request of a group waits for the sequencer",
    "decide": "changes are decided, events matched, match lists coded",
    "disk": "the group waits for the writer of the log and is synced",
    "fold": "matches go to the lists, changes to the store",
}


class StageTimes:
    """How long groups take in each stage, as histograms that cost a microsecond per group.

    One thread at a time observes a stage; any thread reads.
    """

    def __init__(self) -> None:
        self._counts = {stage: [0] * (len(BOUNDS) + 1) for stage in STAGES}
        self._sums = dict.fromkeys(STAGES, 0.0)

    def observe(self, stage: str, seconds: float) -> None:
        """Count how long a group took in a stage."""
        self._counts[stage][bisect_left(BOUNDS, seconds)] += 1
        self._sums[stage] += seconds

    def histograms(self) -> Iterator[tuple[str, list[tuple[str, int]], float]]:
        """For each stage the counts up to every bound, as Prometheus has them, and the sum of seconds."""
        for stage, counts in self._counts.items():
            bounds = [*map(str, BOUNDS), "+Inf"]
            yield stage, list(zip(bounds, accumulate(counts), strict=True)), self._sums[stage]


class GroupHooks(Protocol):
    """Called for every group: publications and spaces take part in it."""

    def begin(self, group: RequestGroup) -> None:
        """Called when a group begins."""

    def complete(self, group: RequestGroup) -> None:
        """Called when the changes of a group are decided."""


@dataclass(eq=False)
class Sequencer:
    """Owns the order of the log, and with it the index. `submit` may be called from any thread.

    `publishing` decides what becomes of events, and shares `ids` with it.
    `fold` is called once per group, in order, when the group is on disk, before its answers are given to `settle`.
    `check_space` raises NoSpace if the disk has no room for so many bytes.
    `topics` may add to a group when it begins, and replace entries when its changes are decided.
    """

    _publishing: Publishing
    _writer: LogWriter
    _ids: EventIds
    _fold: Callable[[RequestGroup], None]
    _settle: Callable[[list[Answer]], None]
    _on_failure: Callable[[Exception], None]
    _check_space: Callable[[int], None]
    _topics: GroupHooks

    def __post_init__(self) -> None:
        self.stages = StageTimes()
        self._wake = threading.Condition()
        self._changes: deque[Decide] = deque()
        self._publishes: deque[Publish | Batch] = deque()
        self._changed = 0.0  # when changes were taken last
        self._waiting_events = self._waiting_bytes = 0
        self._stopping = False
        self._failure: Exception | None = None
        self._slots = threading.Semaphore(IN_FLIGHT)
        self._flight: deque[RequestGroup] = deque()
        self._folding = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="whimbrel-sequencer", daemon=True)

    def start(self) -> None:
        """Start to take requests from the queue."""
        self._thread.start()

    def submit(self, request: Publish | Decide | Batch) -> None:
        """Queue a request. Unavailable if too much waits already, or if the broker stops or has failed."""
        events, size = (1, _CHANGE_BYTES) if isinstance(request, Decide) else (_count(request), request.size)
        request.submitted = monotonic()
        with self._wake:
            if self._failure is not None or self._stopping:
                raise Unavailable("Expected to take a request, but the broker stops")
            waiting, bytes_ = self._waiting_events, self._waiting_bytes
            if waiting and (waiting + events > QUEUE_EVENTS or bytes_ + size > QUEUE_BYTES):
                raise Unavailable(f"Expected room in the queue, but {waiting:,} events wait")
            if isinstance(request, Decide):
                self._changes.append(request)
            else:
                self._publishes.append(request)
            self._waiting_events += events
            self._waiting_bytes += size
            self._wake.notify()

    @property
    def waiting(self) -> tuple[int, int]:
        """Events and bytes in the queue."""
        return self._waiting_events, self._waiting_bytes

    @property
    def in_flight(self) -> int:
        """Groups between matching and the answer."""
        return len(self._flight)

    def stop(self) -> None:
        """Finish what waits, then end the thread. Everything is on disk and answered when this returns."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join()
        for _ in range(IN_FLIGHT):
            self._slots.acquire()

    def _run(self) -> None:
        taken: tuple[list[Decide], list[Publish | Batch]] | None = None
        try:
            while (taken := self._take()) is not None:
                began = monotonic()
                self.stages.observe("queue", began - min(requests[0].submitted for requests in taken if requests))
                group = RequestGroup(self._writer.end)
                self._decide_all(group, *taken)
                group.appended = monotonic()
                self.stages.observe("decide", group.appended - began)
                self._append(group)
        except Exception as error:
            self._fail(error, [request.result for requests in taken or () for request in requests])

    def _take(self) -> tuple[list[Decide], list[Publish | Batch]] | None:
        """Wait for a free slot and for requests; None when the sequencer stops and nothing waits.

        While events wait, changes gather for a moment: after a change the index must prepare before it matches many
        events, and nobody can tell in which order requests came that were not answered yet.
        """
        self._slots.acquire()
        with self._wake:
            while not (self._changes or self._publishes):
                if self._stopping or self._failure is not None:
                    self._slots.release()
                    return None
                self._wake.wait()
            changes: list[Decide] = []
            if not self._publishes or monotonic() >= self._changed + CHANGE_SECONDS:
                while self._changes and len(changes) < GROUP_CHANGES:
                    changes.append(self._changes.popleft())
                self._changed = monotonic() if changes else self._changed
            publishes: list[Publish | Batch] = []
            events = 0
            while self._publishes and events < GROUP_EVENTS:
                request = self._publishes.popleft()
                publishes.append(request)
                events += _count(request)
                self._waiting_bytes -= request.size
            self._waiting_bytes -= _CHANGE_BYTES * len(changes)
            self._waiting_events -= events + len(changes)
        return changes, publishes

    def _decide_all(self, group: RequestGroup, changes: list[Decide], requests: list[Publish | Batch]) -> None:
        """Decide changes in the order in which they came, then match all events in one call, then decide batches."""
        self._topics.begin(group)
        for request in changes:
            try:
                entered, answer = request.decide(group.next)
            except WhimbrelError as error:
                group.answers.append((request.result, error))
                continue
            for change in entered:
                group.append(change)
            group.answers.append((request.result, answer))
        self._topics.complete(group)
        requests = self._with_space(group, requests)
        publishes = [request for request in requests if isinstance(request, Publish)]
        if publishes:
            self._publishing.publish(group, publishes)
        batches: dict[Callable[[RequestGroup, list[Batch]], None], list[Batch]] = {}
        for batch in requests:
            if isinstance(batch, Batch):
                batches.setdefault(batch.decide, []).append(batch)
        for decide, waiting in batches.items():
            decide(group, waiting)

    def _with_space(self, group: RequestGroup, requests: list[Publish | Batch]) -> list[Publish | Batch]:
        """The requests for which the disk has space: all, or only requests without a caller, such as expiries."""
        try:
            if requests:
                self._check_space(sum(request.size for request in requests) + self._writer.waiting_bytes)
        except NoSpace as error:
            group.answers += [(one.result, error) for one in requests if not isinstance(one.result, IgnoredResult)]
            return [one for one in requests if isinstance(one.result, IgnoredResult)]
        return requests

    def _append(self, group: RequestGroup) -> None:
        with self._folding:
            self._flight.append(group)
        if not group.rows:
            group.durable = True
            self._finish()
            return
        future = self._writer.append_rows(group.rows)
        self._ids.advance(group.next)

        def done(finished: Any) -> None:
            error = finished.exception()
            if error is not None:
                self._fail(error)
                return
            group.durable = True
            self._finish()

        future.add_done_callback(done)

    def _finish(self) -> None:
        """Fold and answer the groups at the front that are on disk."""
        with self._folding:
            if self._failure is not None:  # a group whose fold failed is not folded again
                self._fail(self._failure)
                return
            while self._flight and self._flight[0].durable:
                group = self._flight[0]
                began = monotonic()
                self.stages.observe("disk", began - group.appended)
                try:
                    self._fold(group)
                except Exception as error:
                    self._fail(error)
                    return
                self._flight.popleft()
                self.stages.observe("fold", monotonic() - began)
                self._settle(group.answers)
                self._slots.release()

    def _fail(self, error: Exception, undecided: Sequence[Result] = ()) -> None:
        """Take nothing more, and refuse everything that was not acknowledged, `undecided` too."""
        with self._wake:
            is_first = self._failure is None
            if is_first:
                self._failure = error
            waiting = [request.result for request in (*self._changes, *self._publishes)]
            self._changes.clear()
            self._publishes.clear()
            self._wake.notify()
        waiting += [result for group in list(self._flight) for result, _ in group.answers]
        if is_first:
            self._on_failure(error)
        reason = Unavailable(f"Expected to store the request, but the broker has failed: {error}")
        open_results = {id(result): result for result in (*waiting, *undecided)}  # some may be in a group already
        self._settle([(result, reason) for result in open_results.values()])
        for _ in range(IN_FLIGHT if is_first else 0):
            self._slots.release()


def _count(request: Publish | Batch) -> int:
    """What a request counts for in the queue."""
    return len(request.events) if isinstance(request, Publish) else request.count
