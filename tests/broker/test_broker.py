"""The broker without HTTP: order, idempotency, versions, starts, rules, restarts, failures."""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.inside import event, ids_of, opened, publish, replace, run, subscribe
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
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.requests.subscriptions import read_request
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import ANYBODY, Principal
from whimbrel.broker.store import Cursor
from whimbrel.engine.index import Index
from whimbrel.log import LogFailed
from whimbrel.model.errors import FilterError
from whimbrel.model.filter import Filter


def offsets(results: list[Published | BrokerError]) -> list[tuple[int, bool]]:
    assert all(isinstance(result, Published) for result in results), results
    return [(result.offset, result.duplicate) for result in results]  # type: ignore[union-attr]


def test_an_event_is_taken_once_per_tenant_source_and_id(tmp_path: Path) -> None:
    other = Principal("other", frozenset({"publish"}), tenant="t2")

    async def first() -> None:
        async with opened(tmp_path) as broker:
            assert offsets(await publish(broker, event(1), event(2), event(1))) == [(0, False), (1, False), (0, True)]
            assert offsets(await publish(broker, event(2), event(3))) == [(1, True), (2, False)]
            assert offsets(await publish(broker, event(1, source="s2"))) == [(3, False)]
            # A tenant's events come behind an entry that names it.
            assert offsets(await publish(broker, event(1), event(9), by=other)) == [(5, False), (6, False)]

    async def second() -> None:
        async with opened(tmp_path) as broker:
            assert offsets(await publish(broker, event(3), event(1))) == [(2, True), (0, True)]
            assert offsets(await publish(broker, event(9), by=other)) == [(6, True)]
            assert offsets(await publish(broker, event(9))) == [(7, False)]

    run(first)
    run(second)
    shutil.rmtree(tmp_path / "ids")  # derived: made anew from the log

    async def third() -> None:
        async with opened(tmp_path) as broker:
            assert offsets(await publish(broker, event(9), by=other)) == [(6, True)]
            assert offsets(await publish(broker, event(9), event(3))) == [(7, True), (2, True)]

    run(third)


def test_concurrent_publishes_of_the_same_event_store_it_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            found = await asyncio.gather(*(publish(broker, event(n % 5)) for n in range(50)))
            places = [offsets(one)[0] for one in found]
            assert sum(not duplicate for _, duplicate in places) == 5
            assert len(set(places)) <= 10 and broker.end == 5

    run(work)


def test_one_bad_event_does_not_harm_the_others(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            everything = await subscribe(broker, "data.n IS MISSING OR data.n >= 0")
            deep: Any = 1
            for _ in range(200):
                deep = [deep]
            found = await publish(broker, event(1, data={"n": 1}), event(2, data=deep), event(3, data={"n": 3}))
            assert isinstance(found[1], Unprocessable)
            assert [isinstance(one, Published) for one in found] == [True, False, True]
            assert await ids_of(broker, everything) == ["1", "3"]
            (letter,) = broker.store.dead_letters(0, 10)
            assert letter.owner == "anonymous" and "invalid-event" in letter.reason

    run(work)


def test_a_key_that_comes_twice_is_refused_where_it_matters(tmp_path: Path) -> None:
    seven = Principal("seven", frozenset({"publish", "subscribe"}), rules={"tenant": 7})
    raw = b'{"specversion":"1.0","id":"%d","source":"s","type":"t","tenant":7,"tenant":8}'

    async def work() -> None:
        async with opened(tmp_path) as broker:
            await broker.tokens.create("seven", ["publish", "subscribe"], rules={"tenant": 7})
            (mine,) = await publish(broker, event(1)._replace(raw=raw % 1, id="1"), by=seven)
            assert isinstance(mine, Forbidden)
            (stored,) = await publish(broker, event(2)._replace(raw=raw % 2, id="2"))
            assert isinstance(stored, Published)  # nobody asks for a tenant yet
            held = await subscribe(broker, "TRUE", by=seven, start="beginning")
            (refused,) = await publish(broker, event(3)._replace(raw=raw % 3, id="3"))
            assert isinstance(refused, Unprocessable)
            await publish(broker, event(4, tenant=7))
            assert await ids_of(broker, held) == ["4"]

    run(work)


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


def test_a_schema_refuses_what_does_not_fit_it(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(
        'type_attribute = "type"\n[domains.size]\nkind = "enumerated"\nvalues = ["S", "M", "L"]\n'
        'order = [["S", "M", "L"]]\n[attributes]\n"data.size" = "size"\n"data.price" = "decimal"\n'
        '[types.order]\n"data.size" = "mandatory"\n"data.price" = "optional"\n'
    )

    async def work() -> None:
        async with opened(tmp_path / "data", schema=str(file)) as broker:
            with pytest.raises(FilterError, match="size"):
                await subscribe(broker, "data.size = 'XL'")
            small = await subscribe(broker, "data.size < 'L' AND source = 'test'")
            found = await publish(
                broker,
                event(1, type="order", data={"size": "M"}),
                event(2, type="order", data={"price": "dear"}),
                event(3, type="order", data={"size": "L"}, subject="x", time="2026-01-01T00:00:00Z"),
                event(4, type="unheard-of", data={"size": "S"}),
                event(5, type="order", data={"size": "S"}),
            )
            assert [isinstance(one, Published) for one in found] == [True, False, True, False, True]
            assert await ids_of(broker, small) == ["1", "5"]
            reasons = broker.store.dead_letters(0, 10)[0].reason
            assert "data.size" in reasons and "data.price" in reasons  # every reason
            early = await subscribe(broker, "data.size >= 'M'", start="beginning")
            assert await ids_of(broker, early) == ["1", "3"]

    async def again() -> None:
        async with opened(tmp_path / "data", schema=str(file)) as broker:
            await publish(broker, event(6, type="order", data={"size": "S"}))
            (small,) = [one for one in broker.subscriptions.page(ANYBODY, "", 9) if "<" in one.text]
            assert (await ids_of(broker, small))[-1] == "6"

    run(work)
    run(again)


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
                await broker.delivery.open_ephemeral(Filter.parse("TRUE"), reader, "sse", "drop-oldest")
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


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(st.integers(0, 9), min_size=1, max_size=6)),
        st.tuples(st.just("create"), st.integers(0, 9)),
        st.tuples(st.just("replace"), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("reopen"), st.sampled_from(["kept", "index", "matches", "ids", "broker.sqlite"])),
    ),
    max_size=12,
)


@settings(max_examples=25)
@given(STEPS)
def test_everybody_gets_what_the_reference_says(steps: list[tuple[str, Any]]) -> None:
    """Publish, change and reopen in any order, with derived files lost: messages are those of Filter.matches."""
    with TemporaryDirectory() as directory:
        asyncio.run(_follow(steps, Path(directory)))


async def _follow(steps: list[tuple[str, Any]], directory: Path) -> None:
    chance = random.Random(1)
    expected: dict[str, list[str]] = {}
    filters: dict[str, Filter] = {}
    number = 0
    broker = await Broker(Settings(data=str(directory))).__aenter__()
    for step, value in steps:
        if step == "publish":
            for n in value:
                data = {"n": n}
                await publish(broker, event(number, data=data))
                for id, filter in filters.items():
                    if filter.matches({"data": data}):
                        expected[id].append(str(number))
                number += 1
        elif step == "create":
            held = await subscribe(broker, f"data.n < {value}")
            expected[held.id], filters[held.id] = [], Filter.parse(f"data.n < {value}")
        elif step == "reopen":
            await broker.__aexit__()
            if value != "kept":
                for path in directory.glob(f"{value}*"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            broker = await Broker(Settings(data=str(directory))).__aenter__()
        elif filters:
            id = chance.choice(sorted(filters))
            if step == "replace":
                await replace(broker, id, f"data.n >= {value}")
                filters[id] = Filter.parse(f"data.n >= {value}")
            else:
                await broker.subscriptions.delete(id, ANYBODY)
                del expected[id], filters[id]
    for id, ids in expected.items():
        assert await ids_of(broker, broker.subscriptions.find(id, ANYBODY)) == ids
    broker.index._check()
    assert len(broker.index) == len(filters) == broker.store.count_subscriptions()
    assert len(filters) == broker.store.count_subscriptions(ANYBODY.name)  # kept beside, change by change
    await broker.__aexit__()
