"""The broker without HTTP: restarts, failures, and who waits for whom."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.broker.inside import event, ids_of, offsets, opened, publish, replace, run, subscribe
from whimbrel.broker.delivery.history import History
from whimbrel.broker.delivery.message_reader import StoredMessage
from whimbrel.broker.requests.errors import InternalError, Unavailable
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import ANYBODY
from whimbrel.broker.service.runtime import READERS
from whimbrel.broker.store import Cursor, Store, StoredSubscription
from whimbrel.broker.store.formats import StoreError
from whimbrel.engine.index import Index
from whimbrel.log import LogFailed
from whimbrel.log.matched_numbers import MatchedNumbers


def test_a_saved_index_may_hold_what_never_reached_the_disk(tmp_path: Path) -> None:
    """The index is saved while groups are in flight: a version that a crash undid must not come back."""

    async def before() -> int:
        async with opened(tmp_path) as broker:
            await subscribe(broker, "data.n = 1")
            return broker.end

    end = run(before)
    index = Index.open(tmp_path / "index")
    facts = index.facts
    assert facts["offset"] == end
    for number in (end, end + 1, -1):
        index.add(number, "TRUE")
    index.save(tmp_path / "index", facts)

    async def after() -> None:
        async with opened(tmp_path) as broker:
            assert len(broker.index) == 1
            held = await subscribe(broker, "data.n = 2")
            assert held.number == end
            await publish(broker, event(1, data={"n": 1}), event(2, data={"n": 2}))
            assert [entry.matches for entry in broker.log.read(end + 1)] == [[0], [end]]

    run(after)


def test_a_saved_index_may_lack_what_never_ended(tmp_path: Path) -> None:
    """The index is saved while the end of a subscription is in flight, and a crash undoes that."""

    async def before() -> StoredSubscription:
        async with opened(tmp_path) as broker:
            await subscribe(broker, "TRUE", on="publications")
            return await subscribe(broker, "data.n = 1")

    held = run(before)
    index = Index.open(tmp_path / "index")
    facts = index.facts
    index.remove(held.number)
    index.save(tmp_path / "index", facts)

    async def after() -> None:
        async with opened(tmp_path) as broker:
            await publish(broker, event(1, data={"n": 1}))
            assert await ids_of(broker, held) == ["1"]

    run(after)


def test_a_failed_log_stops_everything(tmp_path: Path) -> None:
    failures: list[Exception] = []

    async def work() -> None:
        broker = Broker(Settings(data=str(tmp_path)), failures.append)
        async with broker:
            await publish(broker, event(1))
            connection = broker._opened.writer._connection
            connection.execute("PRAGMA max_page_count = 1")  # the disk is full
            with pytest.raises(Unavailable, match="the broker has failed"):
                await publish(broker, *(event(n, data="x" * 1_000) for n in range(2, 2_000)))
            with pytest.raises(Unavailable):
                await publish(broker, event(9_999))
            assert not broker.ready
            await asyncio.sleep(0)
        assert isinstance(broker.failure, LogFailed) and failures == [broker.failure]

    run(work)

    async def again() -> None:
        async with opened(tmp_path) as broker:
            assert offsets(await publish(broker, event(1))) == [(0, True)]

    run(again)


def test_a_broker_that_does_not_serve_does_nothing_by_itself(tmp_path: Path) -> None:
    """It has no settings of its own: retention would delete, and webhooks would be sent, by the defaults."""
    own = {"whimbrel-upkeep", "whimbrel-webhooks"}

    async def work() -> None:
        async with opened(tmp_path) as broker:
            assert own <= {thread.name for thread in threading.enumerate()}
            offset = offsets(await publish(broker, event(1)))
        async with Broker(Settings(data=str(tmp_path)), serve=False) as broker:
            assert own.isdisjoint(thread.name for thread in threading.enumerate())
            token = await broker.tokens.create("shop", ["publish"], "", {})
            assert token.startswith("whb.shop.")
        async with opened(tmp_path) as broker:
            assert list(broker.tokens.stored) == ["shop"]
            assert offsets(await publish(broker, event(1))) == [(offset[0][0], True)]

    run(work)


def test_a_change_that_fails_unexpectedly_ends_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:

            def fail(*_: object) -> None:
                raise RuntimeError("a mistake")

            monkeypatch.setattr(broker.live, "add", fail)
            async with asyncio.timeout(10):
                with pytest.raises(Unavailable, match="a mistake"):
                    await subscribe(broker, "TRUE")
            assert not broker.ready

    run(work)


def test_an_event_that_cannot_be_matched_fails_its_request_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "TRUE")
            match = broker.live.match

            def fail(events: list[bytes]) -> MatchedNumbers:
                if any(b"bad" in one for one in events):
                    raise RuntimeError("a mistake")
                return match(events)

            monkeypatch.setattr(broker.live, "match", fail)
            asked = [[event("a")], [event("b"), event("bad")], [event("a"), event("c")]]
            async with asyncio.timeout(10):
                results = await asyncio.gather(*(publish(broker, *each) for each in asked), return_exceptions=True)
                assert isinstance(results[1], InternalError) and "a mistake" in str(results[1])
                assert [one for one in results if not isinstance(one, BaseException)] == [
                    [Published(1)],
                    [Published(1, True), Published(2)],
                ]
                assert await ids_of(broker, held) == ["a", "c"]
                assert broker.ready and offsets(await publish(broker, event("b"))) == [(3, False)]

    run(work)


def test_a_store_that_is_refused_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "broker.sqlite"
    Store(path, "a" * 32).close()

    def open_files() -> list[str]:
        return [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.exists()]

    with pytest.raises(StoreError, match="belongs to log") as refused:
        Store(path, "b" * 32)
    assert not [one for one in open_files() if one.startswith(str(path))], refused


def test_searches_of_older_events_hold_up_nobody_elses_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, find = threading.Event(), History.find

    def slow(self: History, subscription: StoredSubscription, after: int, limit: int) -> Any:
        if subscription.start is not None:
            gate.wait(30)
        return find(self, subscription, after, limit)

    async def work() -> None:
        async with opened(tmp_path) as broker:
            plain = await subscribe(broker, "TRUE")
            await publish(broker, event(1))
            early = [await subscribe(broker, "TRUE", start="beginning") for _ in range(READERS)]
            monkeypatch.setattr(History, "find", slow)
            pulls = [asyncio.create_task(broker.delivery.pull(one, None, 10, 0.0)) for one in early]
            await asyncio.sleep(0.05)
            try:
                async with asyncio.timeout(5):
                    found, _ = await broker.delivery.pull(plain, None, 10, 0.0)
            finally:
                gate.set()
            assert len(found) == 1
            assert [len(messages) for messages, _ in await asyncio.gather(*pulls)] == [1] * READERS

    run(work)


def test_a_pull_that_waits_hears_of_a_new_filter_and_of_the_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "data.n = 1")

            async def pull() -> list[StoredMessage]:
                async with asyncio.timeout(20):
                    return (await broker.delivery.pull(held, None, 10, 30.0))[0]

            waiting = asyncio.create_task(pull())
            await replace(broker, held.id, "data.n = 2")
            await publish(broker, event(2, data={"n": 2}))
            assert [message.offset for message in await waiting] == [broker.end - 1]
            await broker.delivery.acknowledge(held, Cursor(broker.end - 1))
            waiting = asyncio.create_task(pull())
            await asyncio.sleep(0)
            await broker.subscriptions.delete(held.id, ANYBODY)
            assert await waiting == []
            assert broker.hub.counts()["streams"] == 0

    run(work)
