"""Publish event by event from threads, in batches underneath, with a bound on what waits."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Self, TypeAlias

import msgspec

from whimbrel.client.errors import PublisherClosed
from whimbrel.client.wire import Event, PublishResult

_Item: TypeAlias = tuple[Event, "Future[PublishResult]"]


class ThreadedPublisher:
    """Gathers events into batches of at most `batch`, waiting up to `linger` seconds for more. A thread sends them.

    `send` waits while `pending` events are not on disk yet: a program that publishes faster than the broker takes is
    slowed down, not its memory filled. Use it as `with client.publisher() as publisher`.
    """

    def __init__(
        self, publish: Callable[[list[Event]], list[PublishResult]], batch: int, linger: float, pending: int
    ) -> None:
        self._publish = publish
        self._batch = batch
        self._linger = linger
        self._pending = pending
        self._waiting: deque[_Item] = deque()
        self._unsaved = 0  # events that are not on disk yet
        self._is_open = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="whimbrel-publisher", daemon=True)

    def __enter__(self) -> Self:
        self._is_open = True
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        self._thread.join()

    def send(self, event: Event) -> Future[PublishResult]:
        """Queue an event; waits while too many are pending. The future gives its result once it is on disk.

        PublisherClosed if the publisher is closed, also while this waits; what msgspec raises if it is no JSON.
        """
        msgspec.json.encode(event)  # raises here, and not for all events of its batch
        future: Future[PublishResult] = Future()
        future.set_running_or_notify_cancel()  # from now on it cannot be cancelled
        with self._changed:
            self._changed.wait_for(lambda: self._unsaved < self._pending or not self._is_open)
            if not self._is_open:
                raise PublisherClosed
            self._unsaved += 1
            self._waiting.append((event, future))
            self._changed.notify_all()
        return future

    def _run(self) -> None:
        while batch := self._gathered():
            self._send(batch)
            with self._changed:
                self._unsaved -= len(batch)
                self._changed.notify_all()

    def _gathered(self) -> list[_Item]:
        """The next batch, when it is full or has waited long enough; empty at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self._is_open)
            deadline = monotonic() + self._linger
            while len(self._waiting) < self._batch and self._is_open and monotonic() < deadline:
                self._changed.wait(deadline - monotonic())
            return [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]

    def _send(self, batch: list[_Item]) -> None:
        try:
            results = self._publish([event for event, _ in batch])
        except Exception as error:
            for _, future in batch:
                future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            future.set_result(result)
