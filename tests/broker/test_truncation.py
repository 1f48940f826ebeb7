"""The log is truncated: every fold over it goes along, and none is passed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import msgspec
import pytest

from tests.broker.inside import event, ids_of, opened, publish, replace, run, subscribe
from tests.broker.test_publications import subscribe as on_publications
from tests.broker.test_publications import update
from tests.broker.truncated import Target, publish_numbers
from whimbrel.broker.lists.run_set import RunSet
from whimbrel.broker.requests.errors import Truncated
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service import retention
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.stamps import FoldStamps
from whimbrel.broker.store import Cursor
from whimbrel.broker.store.formats import StoreError


def test_a_store_that_is_lost_is_made_anew_only_while_the_log_has_everything(tmp_path: Path, target: Target) -> None:
    def lose_the_store() -> None:
        for path in tmp_path.glob("broker.sqlite*"):
            path.unlink()

    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "TRUE")
            await publish_numbers(broker, 0, 5)
        lose_the_store()
        async with opened(tmp_path) as broker:
            assert await ids_of(broker, held) == [str(n) for n in range(5)]
            await target.reach(broker, 3)
        lose_the_store()
        for _ in range(2):  # it stays refused
            with pytest.raises(StoreError, match=r"all entries below 3, which .* but it ends at 0: restore a backup"):
                await Broker(Settings(data=str(tmp_path))).__aenter__()

    run(work)


def test_states_that_are_older_than_the_log_are_read_by_their_offsets(tmp_path: Path, target: Target) -> None:
    """A look at all publications for each page of messages would take minutes where there are many."""
    count = 3_000

    async def work() -> None:
        async with opened(tmp_path) as broker:
            states = [(str(n), "put", {"x": n}) for n in range(count)]
            await update(broker, *states)
            await target.reach(broker, count)
            held = await on_publications(broker, filter="x >= 10 AND x < 1010")
            found: list[object] = []
            position, steps = broker.messages.position(held), 0

            def stepped() -> None:
                nonlocal steps
                steps += 1

            broker.store._reader.set_progress_handler(stepped, 1_000)  # type: ignore[attr-defined]
            while read := (broker.messages.read(held, position, 100))[0]:
                found += [msgspec.json.decode(message.event)["data"] for message in read]
                position = read[-1].cursor
            assert found == [{"x": n} for n in range(10, 1010)]
            assert steps < count // 30  # a thousand steps for each look at all of them

    run(work)


def test_a_truncation_never_parts_events_from_their_tenant(tmp_path: Path, target: Target) -> None:
    shop = Principal("shop", frozenset({"publish", "subscribe"}), tenant="shop")

    async def work() -> None:
        async with opened(tmp_path) as broker:
            await publish_numbers(broker, 0, 3)
            await publish(broker, *(event(n) for n in range(100, 110)), by=shop)  # at 3, its events from 4 on
            target.wanted = 8
            while broker.log.floor < 3:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert broker.log.floor == 3
            await target.reach(broker, 14)
            assert broker.log.floor == 14

    run(work)


def test_no_fold_is_passed(tmp_path: Path, target: Target) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            stamp = 4
            broker.retention.stamps.join("slow", lambda: stamp)
            await publish_numbers(broker, 0, 20)
            target.wanted = 15
            while broker.log.floor < 4:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert broker.log.floor == 4
            stamp = 12
            while broker.log.floor < 12:
                await asyncio.sleep(0.01)
            assert broker._opened.store.synced >= 12

    run(work)


def test_a_fold_has_a_name_of_its_own() -> None:
    stamps = FoldStamps()
    assert stamps.lowest() == 0
    stamps.join("store", lambda: 5)
    stamps.join("spaces", lambda: 3)
    assert stamps.lowest() == 3 and stamps.offsets() == {"store": 5, "spaces": 3}
    with pytest.raises(ValueError, match="store"):
        stamps.join("store", lambda: 1)


def test_old_matches_follow_the_log(tmp_path: Path, target: Target) -> None:
    """A subscription that starts at the beginning misses what is deleted before it was searched, and is told."""

    async def work() -> None:
        async with opened(tmp_path) as broker:
            await publish_numbers(broker, 0, 20)
            held = await subscribe(broker, "data.n >= 5", start="beginning")
            assert await ids_of(broker, held) == [str(n) for n in range(5, 20)]
            await target.reach(broker, 3)
            assert await ids_of(broker, held) == [str(n) for n in range(5, 20)]
            await target.reach(broker, 10)
            with pytest.raises(Truncated):
                broker.messages.read(held, broker.messages.position(held), 100)
            assert await ids_of(broker, held, 9) == [str(n) for n in range(10, 20)]
            await target.reach(broker, broker.end)
            assert await ids_of(broker, held, broker.end - 1) == []
            while list((tmp_path / "history").iterdir()):
                await asyncio.sleep(0.01)

    run(work)


def test_ended_versions_go_and_the_index_stays_right(
    tmp_path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "LETTER_SECONDS", 0.0)

    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "data.n < 10")
            held = await replace(broker, held.id, "data.n >= 10")
            gone = await subscribe(broker, "TRUE")
            await broker.subscriptions.delete(gone.id, Principal("anonymous", frozenset({"admin"})))
            offsets = await publish_numbers(broker, 0, 20)
            await target.reach(broker, offsets[0])
        async with opened(tmp_path) as broker:
            await publish_numbers(broker, 20, 1)
            while broker.store.numbers() != [held.number]:
                await asyncio.sleep(0.01)
            assert await ids_of(broker, held, offsets[5]) == [str(n) for n in range(10, 21)]
        async with opened(tmp_path) as broker:
            assert list(broker.index) == [held.number]

    run(work)


def test_a_reader_is_told_of_a_truncation_right_before_its_search(
    tmp_path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "TRUE")
            offsets = await publish_numbers(broker, 0, 20)
            find, loop = RunSet.find, asyncio.get_running_loop()

            def truncate_and_find(lists: RunSet, *arguments: int) -> object:
                asyncio.run_coroutine_threadsafe(target.reach(broker, offsets[10]), loop).result()
                return find(lists, *arguments)

            monkeypatch.setattr(RunSet, "find", truncate_and_find)
            with pytest.raises(Truncated) as gap:
                await broker.runtime.in_thread(broker.messages.read, held, Cursor(offsets[2]), 5)
            assert gap.value.first == offsets[10]

    run(work)


@pytest.mark.parametrize("seed", range(3))
def test_truncation_beside_reading_and_writing(tmp_path: Path, target: Target, seed: int) -> None:
    """Readers that are overtaken are told; what they get is what matched, in order, without a hole but where told."""
    chance = random.Random(seed)

    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "data.even = TRUE")
            published: dict[int, int] = {}
            position, gaps, n = held.number, 0, -50
            while gaps < 3 or n < 1_500:
                n += 50
                batch = [event(m, data={"n": m, "even": m % 2 == 0}) for m in range(n, n + 50)]
                for m, result in zip(range(n, n + 50), await publish(broker, *batch), strict=True):
                    assert isinstance(result, Published)
                    published[result.offset] = m
                if chance.random() < 0.4:
                    target.wanted = broker.end - chance.randrange(200)
                try:
                    found, _ = await broker.runtime.in_thread(
                        broker.messages.read, held, Cursor(position), chance.choice((5, 40))
                    )
                except Truncated as gap:
                    gaps += gap.first > position + 1
                    position = gap.first - 1
                    continue
                expected = [offset for offset, m in published.items() if offset > position and m % 2 == 0]
                assert [message.offset for message in found] == expected[: len(found)]
                position = found[-1].offset if found else position

    run(work)
