"""SIGKILL under load: whatever was acknowledged is there afterwards, once, in order, for everybody who asked for it."""

from __future__ import annotations

import random
import time
from pathlib import Path

import httpx
import pytest

from tests.broker.broken_disk import can_break
from tests.broker.load import FILTERS, Load
from tests.broker.processes import PLAIN, BrokerProcess
from whimbrel.lab.delivery_checker import judge


def kill_again_and_again(directory: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    broker = BrokerProcess(directory).start()
    try:
        load = Load(broker.url, seed)
        ids = [load.subscribe(text) for text in FILTERS]
        with load.running():
            for name in ("p1", "p2"):
                load.publisher(name)
            load.puller(ids[0])
            load.puller(ids[1])
            load.follower(ids[2])
            load.changer(ids[3])
            for _ in range(kills):
                load.wait_for_acks(21)
                time.sleep(chance.uniform(0.02, 0.3))
                broker.kill()
                broker.start()
        broker.stop()
        broker.start()
        load.drain([ids[0], ids[1], ids[3], ids[4]])
        wait_for_follower(load)
    finally:
        broker.kill()
    verdict = judge(list(load.history))
    assert verdict.is_good, str(verdict)
    assert verdict.acked > 20 * kills and verdict.delivered > verdict.acked


def wait_for_follower(load: Load) -> None:
    """Until the stream has caught up: then the whole history is good."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not judge(list(load.history)).is_good:
        time.sleep(0.3)


def publish_until_it_ends(process: BrokerProcess, http: httpx.Client, first: int, count: int) -> list[int]:
    """Publish one by one; the numbers that were acknowledged. The broker must end with status 1 if it refuses one."""
    acked: list[int] = []
    for number in range(first, first + count):
        try:
            answer = http.post("/events", json={"n": number, "padding": "x" * 1_000})
        except httpx.TransportError:
            break
        if answer.status_code != 200:
            assert answer.status_code == 503, answer.text
            break
        acked.append(number)
    else:
        return acked
    process.process.join(20)
    assert process.process.exitcode == 1
    return acked


def check_nothing_is_missing(process: BrokerProcess, id: str, acked: list[int]) -> None:
    """Start the broker again: all that was acknowledged is there, and at most one event more."""
    with process, httpx.Client(base_url=process.url, timeout=120, **PLAIN) as http:
        found = http.get(f"/subscriptions/{id}/messages?limit=1000").json()["messages"]
    seen = [one["event"]["data"]["n"] for one in found]
    assert acked and seen[: len(acked)] == acked and len(seen) <= len(acked) + 1


def test_a_full_disk_ends_the_broker_and_loses_nothing(tmp_path: Path) -> None:
    """Writes fail at some size of a file: the broker stops to acknowledge, and ends with status 1."""
    process = BrokerProcess(tmp_path).start(file_bytes=400_000)
    with httpx.Client(base_url=process.url, timeout=120, **PLAIN) as http:
        id = http.post("/subscriptions", json={"filter": "TRUE"}).json()["id"]
        acked = publish_until_it_ends(process, http, 0, 10_000)
    check_nothing_is_missing(process, id, acked)


@pytest.mark.skipif(not can_break(), reason="needs seccomp of Linux to make fsync fail")
def test_a_failed_sync_ends_the_broker_and_loses_nothing(tmp_path: Path) -> None:
    """From one moment on every fsync fails: not one more event is acknowledged, and the broker ends with status 1."""
    break_at = tmp_path / "break"
    process = BrokerProcess(tmp_path / "data").start(break_at=break_at)
    with httpx.Client(base_url=process.url, timeout=120, **PLAIN) as http:
        id = http.post("/subscriptions", json={"filter": "TRUE"}).json()["id"]
        acked = publish_until_it_ends(process, http, 0, 50)
        assert len(acked) == 50
        break_at.touch()
        while not break_at.with_suffix(".done").exists():
            time.sleep(0.005)
        assert publish_until_it_ends(process, http, 50, 10) == []
    check_nothing_is_missing(process, id, acked)


def test_kills_lose_nothing(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "data", 4, 7)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_a_thousand_kills_lose_nothing(tmp_path: Path, seed: int) -> None:
    kill_again_and_again(tmp_path / "data", 50, seed)
