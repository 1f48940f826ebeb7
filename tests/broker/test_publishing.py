"""Publish without HTTP: order, idempotency, and events that are refused alone."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.broker.inside import event, ids_of, offsets, opened, publish, run, subscribe
from whimbrel.broker.requests.errors import (
    BrokerError,
    Unprocessable,
)
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service.principal import ANYBODY, Principal
from whimbrel.model.errors import FilterError


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


def test_a_key_that_comes_twice_is_refused(tmp_path: Path) -> None:
    seven = Principal("seven", frozenset({"publish", "subscribe"}), rules={"tenant": 7})
    raw = b'{"specversion":"1.0","id":"%d","source":"s","type":"t","tenant":7,"tenant":8}'

    async def work() -> None:
        async with opened(tmp_path) as broker:
            await broker.tokens.create("seven", ["publish", "subscribe"], rules={"tenant": 7})
            for id, by in ((1, seven), (2, ANYBODY)):  # also while nobody asks for a tenant
                (early,) = await publish(broker, event(id)._replace(raw=raw % id, id=str(id)), by=by)
                assert isinstance(early, Unprocessable)
            held = await subscribe(broker, "TRUE", by=seven, start="beginning")
            (refused,) = await publish(broker, event(3)._replace(raw=raw % 3, id="3"))
            assert isinstance(refused, Unprocessable)
            await publish(broker, event(4, tenant=7))
            assert await ids_of(broker, held) == ["4"]

    run(work)


def test_events_are_checked_while_nobody_has_subscribed(tmp_path: Path) -> None:
    file = tmp_path / "schema.toml"
    file.write_text('type_attribute = "type"\n[attributes]\n"data.n" = "integer"\n[types.t]\n"data.n" = "mandatory"\n')

    async def work() -> None:
        async with opened(tmp_path / "data", schema=str(file)) as broker:
            results = await publish(broker, event(1, type="t"), event(2, type="t", data={"n": 1}))
            assert isinstance(results[0], BrokerError) and isinstance(results[1], Published)

    run(work)


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
