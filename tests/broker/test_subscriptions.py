"""Subscriptions without HTTP: versions, starts, rules, ends, cursors, and tokens that end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.broker.inside import event, ids_of, opened, publish, replace, run, subscribe
from whimbrel.broker.delivery.hub import Stream
from whimbrel.broker.delivery.outbox import Outbox
from whimbrel.broker.requests.errors import (
    BrokerError,
    Conflict,
    Forbidden,
    NotFound,
    PreconditionFailed,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unprocessable,
)
from whimbrel.broker.requests.subscriptions import read_request
from whimbrel.broker.sequencing.request_group import Decide, Published
from whimbrel.broker.service import ephemeral_streams
from whimbrel.broker.service.principal import ANYBODY, Principal
from whimbrel.broker.store import Cursor, StoredSubscription
from whimbrel.model.filter import Filter


def test_a_replaced_filter_holds_from_its_offset_on(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "data.n < 5")
            await publish(broker, event("a", data={"n": 1}), event("b", data={"n": 9}))
            newer = await replace(broker, held.id, "data.n > 5")
            await publish(broker, event("c", data={"n": 1}), event("d", data={"n": 9}))
            assert await ids_of(broker, newer) == ["a", "d"]
            assert newer.first == held.number < newer.number
            with pytest.raises(PreconditionFailed):
                await replace(broker, held.id, "TRUE", if_match=str(held.number))
            newest = await replace(broker, held.id, "TRUE", if_match=str(newer.number))
            await publish(broker, event("e", data={"n": 5}))
            assert await ids_of(broker, newest) == ["a", "d", "e"]
            await broker.subscriptions.delete(held.id, ANYBODY)
            with pytest.raises(NotFound):
                broker.subscriptions.find(held.id, ANYBODY)
            assert len(broker.index) == 0

    run(work)


def test_a_subscription_can_start_in_the_past(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            await publish(broker, *(event(n, data={"n": n}) for n in range(20)))
            beginning = await subscribe(broker, "data.n >= 15", start="beginning")
            later = await subscribe(broker, "data.n >= 15", start=17)
            now = await subscribe(broker, "data.n >= 15")
            long_ago = await subscribe(broker, "data.n >= 15", start="2001-01-01T00:00:00Z")
            future = await subscribe(broker, "data.n >= 15", start="2999-01-01T00:00:00Z")
            await publish(broker, event(20, data={"n": 20}))
            assert await ids_of(broker, beginning) == ["15", "16", "17", "18", "19", "20"]
            assert await ids_of(broker, long_ago) == ["15", "16", "17", "18", "19", "20"]
            assert await ids_of(broker, later) == ["17", "18", "19", "20"]
            assert await ids_of(broker, now) == ["20"] == await ids_of(broker, future)
            # The early matches keep the first version's filter.
            changed = await replace(broker, beginning.id, "data.n = 20")
            assert await ids_of(broker, changed) == ["15", "16", "17", "18", "19", "20"]
            with pytest.raises(Unprocessable):
                await subscribe(broker, "TRUE", start=10_000)

    run(work)


def test_rules_hide_events_whose_attribute_has_other_or_more_values(tmp_path: Path) -> None:
    seven = Principal("seven", frozenset({"publish", "subscribe"}), rules={"tenant": 7})

    async def work() -> None:
        async with opened(tmp_path) as broker:
            await broker.tokens.create("seven", ["publish", "subscribe"], rules={"tenant": 7})
            mine = await subscribe(broker, "data.n > 0 OR tenant = 8", by=seven)
            early = await subscribe(broker, "TRUE", by=seven, start="beginning")
            await publish(
                broker,
                event("a", tenant=7, data={"n": 1}),
                event("b", tenant=8, data={"n": 1}),
                event("c", tenant=[7, 8], data={"n": 1}),
                event("d", data={"n": 1}),
                event("e", tenant=7, data={"n": -1}),
                event("f", tenant=[7, 7], data={"n": 2}),
            )
            assert await ids_of(broker, mine) == ["a", "f"]
            assert await ids_of(broker, early) == ["a", "e", "f"]
            found = await publish(
                broker, event("g", tenant=7), event("h", tenant=8), event("i", tenant=[7, 8]), by=seven
            )
            assert [isinstance(one, Published) for one in found] == [True, False, False]
            assert isinstance(found[1], Forbidden)
            with pytest.raises(NotFound):
                broker.subscriptions.find(mine.id, Principal("eight", frozenset({"subscribe"})))

    async def after_restart() -> None:
        async with opened(tmp_path) as broker:
            (mine, *_) = [one for one in broker.subscriptions.page(seven, "", 10) if "OR" in one.spec.decode()]
            await publish(broker, event("j", tenant=[7, 8], data={"n": 1}), event("k", tenant=7, data={"n": 1}))
            assert (await ids_of(broker, mine))[-1] == "k"

    run(work)
    run(after_restart)


def test_a_subscription_that_is_replaced_while_it_expires_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "TRUE", expires="2999-01-01T00:00:00Z")
            # Upkeep looked just before it got this expiry.
            monkeypatch.setattr(broker.store, "expired", lambda *_: [held.id])
            broker._upkeep._expire()
            await subscribe(broker, "FALSE")  # what was asked for before is decided before
            assert broker.subscriptions.find(held.id, ANYBODY) == held

    run(work)


def test_a_subscription_on_publications_cannot_start_in_the_past(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            for start in (0, "beginning", "2026-01-01T00:00:00Z"):
                with pytest.raises(Unprocessable, match=r"Expected no start"):
                    await subscribe(broker, "TRUE", on="publications", start=start)
            await subscribe(broker, "TRUE", on="publications", start="now")

    run(work)


def test_open_streams_of_a_filter_count_for_its_owners_quota(tmp_path: Path) -> None:
    async def work() -> None:
        wide = Filter.parse(" OR ".join(f"data.a{n} != {n}" for n in range(200)))  # some 200 ns
        async with opened(tmp_path, token_nanoseconds=1_000.0) as broker:
            streams: list[Stream] = []

            async def open_one() -> None:
                streams.append(await broker.streams.open_on_events(wide, ANYBODY, Outbox("drop-oldest", "sse")))

            with pytest.raises(TooManyRequests):  # noqa: PT012
                for _ in range(50):
                    await open_one()
            assert len(streams) > 1
            with pytest.raises(TooManyRequests):
                await subscribe(broker, str(wide))
            for stream in streams:
                broker.streams.close(stream)
            await open_one()

    run(work)


def test_expired_subscriptions_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "TRUE", expires="2999-01-01T00:00:00Z")
            broker.store.apply([], 0)
            with broker.store._transaction() as connection:
                connection.execute("UPDATE subscription SET expires = 1")
            async with asyncio.timeout(20):
                while broker.store.subscription(held.id) is not None:
                    await asyncio.sleep(0.02)
            with pytest.raises(Unprocessable, match="in the future"):
                await subscribe(broker, "TRUE", expires="2001-01-01T00:00:00Z")

    run(work)


def test_imports_tell_what_became_of_each_line(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path, subscriptions_per_token=8) as broker:
            bodies = [
                b'{"id": "mine", "filter": "data.n < 5"}',
                b'{"filter": "data.n <<"}',
                b'{"filters": [{"exact": {"type": "event"}}]}',
                b'{"id": "mine", "filter": "TRUE"}',
                b'{"filter": "a = 1", "dialect": "klingon"}',
            ]
            found = await broker.subscriptions.import_many([(read_request(body), body) for body in bodies], ANYBODY)
            assert [isinstance(one, BrokerError) for one in found] == [False, True, False, True, True]
            await publish(broker, event(1, data={"n": 1}))
            assert await ids_of(broker, broker.subscriptions.find("mine", ANYBODY)) == ["1"]
            again = await broker.subscriptions.import_many([(read_request(bodies[0]), bodies[0])], ANYBODY)
            assert isinstance(again[0], Conflict)
            with pytest.raises(TooManyRequests):
                await broker.subscriptions.import_many([(read_request(bodies[2]), bodies[2])] * 7, ANYBODY)

    run(work)


def test_cursors_move_forward_only(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "TRUE")
            await publish(broker, *(event(n) for n in range(5)))
            assert (await broker.delivery.pull(held, None, 2, 0))[0][-1].offset == 2
            assert await broker.delivery.acknowledge(held, Cursor(2)) == Cursor(2)
            assert await broker.delivery.acknowledge(held, Cursor(1)) == Cursor(2)
            assert await broker.delivery.acknowledge(held, Cursor(3, 0)) == Cursor(3, 0)
            assert await broker.delivery.acknowledge(held, Cursor(3)) == Cursor(3)
            assert await ids_of(broker, held) == ["3", "4"]
            assert await ids_of(broker, held, after=-1) == ["0", "1", "2", "3", "4"]
            assert broker.messages.lag(held, 3) == 2
            with pytest.raises(Unprocessable):
                await broker.delivery.acknowledge(held, Cursor(100))

    run(work)


def test_a_pull_waits_for_the_next_event(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "data.n = 1")
            waiting = asyncio.ensure_future(broker.delivery.pull(held, None, 10, 20))
            await publish(broker, event("no", data={"n": 2}))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await publish(broker, event("yes", data={"n": 1}))
            messages, _ = await waiting
            assert [msgspec.json.decode(one.event)["id"] for one in messages] == ["yes"]
            assert broker.hub.counts()["streams"] == 0

    run(work)


def test_tokens_change_and_end_with_their_filters(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            await broker.tokens.create("reader", ["subscribe"], rules={"tenant": 7})
            with pytest.raises(Conflict):
                await broker.tokens.create("reader", ["subscribe"])
            reader = Principal("reader", frozenset({"subscribe"}), rules={"tenant": 7})
            held = await subscribe(broker, "data.n > 0", by=reader)
            await publish(broker, event("a", tenant=7, data={"n": 1}), event("b", tenant=8, data={"n": 1}))
            # A subscription that is created in the same moment gets the new rules, too, or is refused.
            creating = asyncio.gather(*(subscribe(broker, "TRUE", by=reader) for _ in range(3)), return_exceptions=True)
            await asyncio.sleep(0.005)
            changing = asyncio.ensure_future(broker.tokens.change("reader", ["subscribe"], "", {"tenant": 8}))
            created = await creating
            await changing
            await publish(broker, event("c", tenant=7, data={"n": 1}), event("d", tenant=8, data={"n": 1}))
            assert await ids_of(broker, held) == ["a", "d"]
            for one in created:
                if isinstance(one, BaseException):
                    assert isinstance(one, Conflict)
                else:
                    assert await ids_of(broker, one) == ["d"]
            # Neither the old rules nor a change by an admin get around the new ones.
            with pytest.raises(Conflict):
                await subscribe(broker, "TRUE", by=reader)
            with pytest.raises(Conflict):
                await broker.streams.open_on_events(Filter.parse("TRUE"), reader, Outbox("drop-oldest", "sse"))
            await replace(broker, held.id, "TRUE")  # by an admin
            await publish(broker, event("e", tenant=7), event("f", tenant=8))
            assert await ids_of(broker, held) == ["a", "d", "f"]
            await broker.tokens.revoke("reader")
            with pytest.raises(Unauthorized):
                await subscribe(broker, "TRUE", by=reader)
            assert (
                broker.subscriptions.page(reader, "", 10) == []
                and len(broker.index) == 0
                and broker.tokens.stored == {}
            )

    run(work)


def test_a_bad_line_of_an_import_is_told_of_that_line(tmp_path: Path) -> None:
    """Also where lines before it are not about events, and one of those is refused later than the filters are."""

    async def work() -> None:
        async with opened(tmp_path) as broker:
            bodies = [
                b'{"on": "publications", "filter": "x < 5"}',
                b'{"filter": "data.n <<"}',
                b'{"on": "spaces/nowhere", "regions": [{"x": "[0, 1]"}]}',
                b'{"filter": "data.n = 1"}',
            ]
            found = await broker.subscriptions.import_many([(read_request(body), body) for body in bodies], ANYBODY)
            assert [isinstance(one, BrokerError) for one in found] == [False, True, True, False]
            assert isinstance(found[2], NotFound)
            assert len(broker.index) == 1
            await subscribe(broker, "data.n = 2")
            await publish(broker, event(1, data={"n": 1}), event(2, data={"n": 2}))
            assert isinstance(found[3], StoredSubscription)
            assert await ids_of(broker, found[3]) == ["1"]

    run(work)


def test_a_subscription_that_has_ended_has_no_cursor(tmp_path: Path) -> None:
    """An acknowledgement that comes late would be taken for one of the next subscription with that id."""

    async def work() -> None:
        async with opened(tmp_path) as broker:
            await publish(broker, event(1, data={"n": 1}))
            held = await subscribe(broker, "TRUE")
            await broker.subscriptions.delete(held.id, ANYBODY)
            await broker.delivery.acknowledge(held, Cursor(1))
            assert broker.store.cursor(held.id) is None

    run(work)


def test_a_stream_that_ends_while_the_queue_is_full_leaves_no_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ephemeral_streams, "RETRY_SECONDS", 0.01)

    async def work() -> None:
        async with opened(tmp_path) as broker:
            filter = Filter.parse("x = 1")
            on_events = await broker.streams.open_on_events(filter, ANYBODY, Outbox("drop-oldest", "sse"))
            outbox = Outbox("drop-oldest", "sse")
            on_publications, _ = await broker.streams.open_on_publications(filter, ANYBODY, outbox, False)
            submit, refused = broker.runtime.submit, []

            def submit_or_refuse(request: Decide) -> None:
                if len(refused) < 4:
                    refused.append(request)
                    raise Unavailable("Expected room in the queue")
                submit(request)

            monkeypatch.setattr(broker.runtime, "submit", submit_or_refuse)
            broker.streams.close(on_events)
            broker.streams.close(on_publications)
            async with asyncio.timeout(10):
                while len(broker.index) or broker.publications.topics.publications._watchers:
                    await asyncio.sleep(0.01)
            assert len(refused) == 4

    run(work)
