"""Retention by age and bytes, and readers that are told what they missed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.broker.inside import event, ids_of, opened, publish, run, subscribe
from tests.broker.processes import PLAIN, BrokerProcess
from tests.broker.truncated import Target, publish_numbers
from whimbrel.broker.requests.errors import Truncated
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service import retention
from whimbrel.client import Client, Gone


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


def test_over_http_a_pull_gets_410_a_stream_and_a_socket_a_gap(tmp_path: Path) -> None:
    settings = {"retention_seconds": 0.0, "retention_bytes": 60_000}
    with BrokerProcess(tmp_path, **settings) as process, Client(process.url) as client:
        id = client.create("TRUE")["id"]
        idle = client.create("data.n = -1")["id"]
        while True:
            client.publish([{"n": n, "padding": "x" * 500} for n in range(100)])
            if "whimbrel_log_floor_offset 0.0" not in httpx.get(f"{process.url}/metrics", **PLAIN).text:
                break
        assert client.pull(idle) == []
        with pytest.raises(Gone) as gone:
            client.pull(id)
        first = gone.value.first
        assert first > 0 and gone.value.status == 410
        message = next(iter(client.subscribe(id=id)))
        assert message.gap is not None and message.gap >= first and message.offset >= first
        assert _first_frame(process.url, id)["gap"]["first"] >= first
        found = httpx.get(f"{process.url}/metrics", **PLAIN).text
        assert 'whimbrel_gaps_total{protocol="pull"} 1.0' in found and 'whimbrel_gaps_total{protocol="ws"} 1.0' in found


def _first_frame(url: str, id: str) -> dict[str, dict[str, int]]:
    from websockets.sync.client import connect

    with connect(f"{url.replace('http', 'ws')}/subscriptions/{id}/ws", proxy=None) as socket:
        found: dict[str, dict[str, int]] = msgspec.json.decode(socket.recv(timeout=20))
        return found
