"""Retention: the log is truncated, everything that follows from it goes along, and nobody misses a message untold."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.inside import event, ids_of, opened, publish, replace, run, subscribe
from tests.broker.load import FILTERS, Load
from tests.broker.processes import BrokerProcess
from whimbrel.broker.lists import RunSet
from whimbrel.broker.requests.errors import Truncated
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service import retention, upkeep
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.retention import Retention
from whimbrel.broker.service.stamps import FoldStamps
from whimbrel.broker.store import Cursor
from whimbrel.broker.store.formats import StoreError
from whimbrel.client import Client, Gone
from whimbrel.lab.delivery_checker import judge


class Target:
    """The floor that retention is to reach, in the place of what the settings ask for."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.wanted = 0
        patch.setattr(upkeep, "_ROUND_SECONDS", 0.01)
        patch.setattr(retention, "ROUND_SECONDS", 0.0)
        patch.setattr(Retention, "_wanted", lambda _, floor, end: max(floor, min(self.wanted, end)))

    async def reach(self, broker: Broker, floor: int) -> None:
        self.wanted = floor
        while broker.log.floor < floor or broker._opened.lists.floor < floor:
            assert broker.failure is None
            await asyncio.sleep(0.01)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    return Target(monkeypatch)


async def publish_numbers(broker: Broker, first: int, count: int) -> list[int]:
    results = await publish(broker, *(event(n, data={"n": n}) for n in range(first, first + count)))
    return [result.offset for result in results if isinstance(result, Published)]


def test_a_reader_is_told_what_it_missed_and_goes_on_from_the_floor(tmp_path: Path, target: Target) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            all_of_them = await subscribe(broker, "TRUE")
            never = await subscribe(broker, "data.n < 0")
            offsets = await publish_numbers(broker, 0, 20)
            await target.reach(broker, offsets[10])
            with pytest.raises(Truncated) as told:
                broker.messages.read(all_of_them, broker.messages.position(all_of_them), 100)
            assert told.value.first == offsets[10]
            assert await ids_of(broker, all_of_them, told.value.first - 1) == [str(n) for n in range(10, 20)]
            assert await ids_of(broker, all_of_them, offsets[15]) == ["16", "17", "18", "19"]
            assert await ids_of(broker, never) == []  # its cursor is below the floor, but it missed nothing
            assert broker.messages.lag(all_of_them, -1) == 10

    run(work)


def test_what_was_missed_is_known_after_a_restart_and_after_runs_are_gone(tmp_path: Path, target: Target) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "data.n = 3")
            other = await subscribe(broker, "data.n = 300")
            await publish_numbers(broker, 0, 20)
            await target.reach(broker, broker.end)
        for _ in range(2):
            async with opened(tmp_path) as broker:
                assert not broker._opened.lists.runs or broker._opened.lists.runs[0].end > broker.log.floor
                with pytest.raises(Truncated):
                    broker.messages.read(held, broker.messages.position(held), 100)
                assert await ids_of(broker, other) == []
                assert await ids_of(broker, held, broker.log.floor - 1) == []

    run(work)


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


def test_an_event_is_known_again_only_as_long_as_it_is_kept(tmp_path: Path, target: Target) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            offsets = await publish_numbers(broker, 0, 10)
            await target.reach(broker, offsets[5])
            again = await publish(broker, *(event(n, data={"n": n}) for n in range(10)))
            assert [one.duplicate for one in again if isinstance(one, Published)] == [False] * 5 + [True] * 5
        async with opened(tmp_path) as broker:
            again = await publish(broker, event(0), event(7))
            assert [one.duplicate for one in again if isinstance(one, Published)] == [True, True]

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
    assert stamps.lowest() is None
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


def test_by_bytes_the_log_stays_about_as_large_as_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ROUND_SECONDS", 0.0)

    async def work() -> None:
        async with opened(tmp_path, retention_bytes=400_000, retention_seconds=0.0) as broker:
            for start in range(0, 4_000, 100):
                await publish(
                    broker, *(event(n, data={"n": n, "padding": "x" * 400}) for n in range(start, start + 100))
                )
            while broker.log.sizes[0] > 400_000:
                await asyncio.sleep(0.01)
            assert 3_000 < broker.log.floor < 3_900

    run(work)


def test_by_age_old_entries_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(retention, "LETTER_SECONDS", 0.0)

    async def work() -> None:
        async with opened(tmp_path, retention_seconds=0.3) as broker:
            await publish_numbers(broker, 0, 10)
            while broker.log.floor < 10:
                await asyncio.sleep(0.01)
            assert broker.log.bounds == (10, 10)

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


KEYS = st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=1, max_size=40)


@given(KEYS, st.lists(st.integers(0, 40), max_size=3), st.booleans())
def test_runs_know_what_each_key_lost(entries: list[list[int]], floors: list[int], reopen: bool) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        runs = RunSet(Path(directory), 0)
        offsets: dict[int, list[int]] = {}
        floor = 0
        for at, keys in enumerate(entries):
            for key in set(keys):
                offsets.setdefault(key, []).append(at)
            distinct = sorted(set(keys))
            runs.add(at + 1, np.array(distinct, np.int64), np.full(len(distinct), at, np.int64))
            if at % 5 == 4:
                runs.flush()
        for wanted in floors:
            floor = max(floor, min(wanted, len(entries)))
            runs.flush()
            assert runs.sealed == len(entries)
            runs.truncate(floor)
            if reopen:
                runs = RunSet(Path(directory), len(entries), floor=floor)
        for key in range(7):
            for after in range(-1, len(entries)):
                behind = [offset for offset in offsets.get(key, ()) if offset > after]
                assert runs.find(key, after).tolist() == [offset for offset in behind if offset >= floor]
                assert runs.has_lost(key, after) == any(offset < floor for offset in behind)


def test_over_http_a_pull_gets_410_a_stream_and_a_socket_a_gap(tmp_path: Path) -> None:
    settings = {"retention_seconds": 0.0, "retention_bytes": 60_000}
    with BrokerProcess(tmp_path, **settings) as process, Client(process.url) as client:
        id = client.create("TRUE")["id"]
        idle = client.create("data.n = -1")["id"]
        while True:
            client.publish([{"n": n, "padding": "x" * 500} for n in range(100)])
            if "whimbrel_log_floor_offset 0.0" not in httpx.get(f"{process.url}/metrics", trust_env=False).text:
                break
        assert client.pull(idle) == []
        with pytest.raises(Gone) as gone:
            client.pull(id)
        first = gone.value.first
        assert first > 0 and gone.value.status == 410
        message = next(iter(client.subscribe(id=id)))
        assert message.gap is not None and message.gap >= first and message.offset >= first
        assert _first_frame(process.url, id)["gap"]["first"] >= first
        found = httpx.get(f"{process.url}/metrics", trust_env=False).text
        assert 'whimbrel_gaps_total{protocol="pull"} 1.0' in found and 'whimbrel_gaps_total{protocol="ws"} 1.0' in found


def _first_frame(url: str, id: str) -> dict[str, dict[str, int]]:
    from websockets.sync.client import connect

    with connect(f"{url.replace('http', 'ws')}/subscriptions/{id}/ws", proxy=None) as socket:
        found: dict[str, dict[str, int]] = msgspec.json.decode(socket.recv(timeout=20))
        return found


def gauge(broker: BrokerProcess, name: str) -> int:
    """A number that the broker tells Prometheus."""
    lines = httpx.get(f"{broker.url}/metrics", timeout=60, trust_env=False).text.splitlines()
    (found,) = [line for line in lines if line.startswith(f"whimbrel_{name} ")]
    return int(float(found.split()[1]))


def kill_while_truncating(directory: Path, kills: int, seed: int) -> None:
    """Publish, change filters, truncate and kill; then judge what is left in the log."""
    chance = random.Random(seed)
    broker = BrokerProcess(directory, retention_seconds=0.0, retention_bytes=80_000).start()
    try:
        load = Load(broker.url, seed)
        ids = [load.subscribe(text) for text in FILTERS]
        with load.running():
            load.publisher("p1")
            load.publisher("p2")
            load.changer(ids[3])
            for _ in range(kills):
                wanted = gauge(broker, "log_end_offset") + chance.randrange(100, 400)
                while gauge(broker, "log_end_offset") < wanted:
                    time.sleep(0.05)
                broker.kill()
                broker.start()
            while gauge(broker, "log_floor_offset") == 0:
                time.sleep(0.05)
        broker.kill()
        broker.settings["retention_bytes"] = 0  # nothing more is deleted while it is read
        broker.start()
        floor = gauge(broker, "log_floor_offset")
        history = [line for line in load.history if line.get("offset", floor) >= floor and line["op"] != "session"]
        load.history = history
        with Client(broker.url) as client:
            for session, id in enumerate(ids):
                load.note("session", subscription=id, session=session, after=floor - 1)
                position = str(floor - 1)
                while found := client.pull(id, after=position, limit=500):
                    load._note_delivered(id, session, found)
                    position = found[-1].cursor
    finally:
        broker.kill()
    verdict = judge(load.history)
    assert verdict.is_good, str(verdict)
    assert floor > 0 and verdict.acked > 0 and verdict.delivered > verdict.acked


def test_kills_while_the_log_is_truncated_lose_nothing_that_is_kept(tmp_path: Path) -> None:
    kill_while_truncating(tmp_path / "data", 5, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_kills_while_the_log_is_truncated(tmp_path: Path, seed: int) -> None:
    kill_while_truncating(tmp_path / "data", 30, seed)
