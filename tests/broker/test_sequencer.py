"""The sequencer alone: requests are answered also when the log fails, and events that are deferred wait for a match."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any, cast

import numpy as np

from tests.broker.inside import event
from whimbrel.broker.lists.event_ids import EventIds
from whimbrel.broker.publications.topics import StatefulTopics
from whimbrel.broker.requests.entries import Change, SubscriptionEnd
from whimbrel.broker.requests.errors import Unavailable
from whimbrel.broker.sequencing.publishing import LiveIndex, Publishing
from whimbrel.broker.sequencing.request_group import (
    Answer,
    Decide,
    Forwarding,
    Publish,
    RequestGroup,
    settle_now,
)
from whimbrel.broker.sequencing.sequencer import Sequencer
from whimbrel.broker.sequencing.watermark import WaitingRange, Watermark
from whimbrel.log import LogFailed, LogWriter
from whimbrel.log.matched_numbers import MatchedNumbers


class FailingLog:
    """A log whose first group fails when the test says so; it takes no other."""

    end = 0
    waiting_bytes = 0

    def __init__(self) -> None:
        self.first: Future[range] = Future()
        self.is_full = threading.Event()

    def append_rows(self, _: object) -> Future[range]:
        if self.first.done():
            raise LogFailed("log", "no space")
        self.is_full.set()
        return self.first


class Quiet:
    """Takes part in nothing."""

    def begin(self, group: RequestGroup) -> None:
        """Nothing is due."""

    def complete(self, group: RequestGroup) -> None:
        """Nothing is told."""

    def advance(self, end: int) -> bool:
        return False

    def fold(self, group: RequestGroup) -> None:
        raise AssertionError("nothing is on disk")


def settle(answers: list[Answer]) -> None:
    settle_now([answer for answer in answers if not cast("Future[Any]", answer[0]).done()])


def test_a_request_that_is_decided_while_the_log_fails_is_answered() -> None:
    log, quiet, failures = FailingLog(), Quiet(), list[Exception]()
    sequencer = Sequencer(
        cast("Publishing", quiet), cast("LogWriter", log), cast("EventIds", quiet), quiet.fold, settle, failures.append,
        lambda _: None, cast("StatefulTopics", quiet),
    )  # fmt: skip
    is_deciding, may_decide = threading.Event(), threading.Event()

    def decide(_: int) -> tuple[list[Change], object]:
        is_deciding.set()
        may_decide.wait()
        return [SubscriptionEnd("b")], None

    first, second, third = Future[object](), Future[object](), Future[object]()
    sequencer.submit(Decide(lambda _: ([SubscriptionEnd("a")], None), first))
    sequencer.start()
    assert log.is_full.wait(10)
    sequencer.submit(Decide(decide, second))
    assert is_deciding.wait(10)
    sequencer.submit(Decide(decide, third))
    log.first.set_exception(LogFailed("log", "no space"))
    may_decide.set()
    for answer in (first, second, third):
        assert isinstance(answer.exception(10), Unavailable)
    assert len(failures) == 1
    sequencer.stop()


class NoIds:
    """Knows no event."""

    def digest(self, tenant: str, source: str, id: str) -> int:
        return hash((tenant, source, id))

    def look_up(self, _: object) -> dict[int, list[int]]:
        return {}

    def remember(self, _: object) -> None:
        """Nothing is kept."""


class Deferring:
    """An index whose events another engine matches."""

    deferred = True

    def match(self, events: list[bytes]) -> MatchedNumbers:
        return MatchedNumbers(np.zeros(len(events) + 1, np.int64), np.zeros(0, np.int64), {})


def test_events_of_peers_with_one_id_wait_for_their_match_all_of_them() -> None:
    """Peers' events are recognised by where they were published: two brokers may publish events with the same id."""
    watermark = Watermark(WaitingRange(5, 5))
    publishing = Publishing(cast("LiveIndex", Deferring()), cast("EventIds", NoIds()), watermark, {})
    group = RequestGroup(5)
    requests = [
        Publish([event(1)], Future[object](), forwarding=Forwarding(peer, peer, [7], [7], [b""])) for peer in "ab"
    ]
    publishing.publish(group, requests)
    (first, second) = group.events
    assert watermark.waiting == WaitingRange(first, second + 1)
    assert np.concatenate(group.offsets).size == 0
