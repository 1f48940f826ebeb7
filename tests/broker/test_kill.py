"""SIGKILL under load: whatever was acknowledged is there afterwards, once, in order, for everybody who asked for it."""

from __future__ import annotations

import random
import time
from pathlib import Path

import httpx
import pytest

from tests.broker.load import FILTERS, Load
from tests.broker.processes import BrokerProcess
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


def test_a_full_disk_ends_the_broker_and_loses_nothing(tmp_path: Path) -> None:
    """Writes fail at some size of a file: the broker stops to acknowledge, and ends with status 1."""
    process = BrokerProcess(tmp_path).start(file_bytes=400_000)
    acked: list[int] = []
    with httpx.Client(base_url=process.url, timeout=120, trust_env=False) as http:
        id = http.post("/subscriptions", json={"filter": "TRUE"}).json()["id"]
        for number in range(10_000):
            try:
                answer = http.post("/events", json={"n": number, "padding": "x" * 1_000})
            except httpx.TransportError:
                break
            if answer.status_code != 200:
                assert answer.status_code == 503, answer.text
                break
            acked.append(number)
    process.process.join(20)
    assert process.process.exitcode == 1
    with process, httpx.Client(base_url=process.url, timeout=120, trust_env=False) as http:
        found = http.get(f"/subscriptions/{id}/messages?limit=1000").json()["messages"]
        seen = [one["event"]["data"]["n"] for one in found]
        assert acked and seen[: len(acked)] == acked
        assert len(seen) <= len(acked) + 1  # what was not acknowledged may be there


def test_twenty_kills_lose_nothing(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "data", 20, 7)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_a_thousand_kills_lose_nothing(tmp_path: Path, seed: int) -> None:
    kill_again_and_again(tmp_path / "data", 50, seed)
