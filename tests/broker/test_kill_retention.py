"""SIGKILL while the log is truncated, judged by the checker: nothing that is kept is lost."""

from __future__ import annotations

import random
import time
from pathlib import Path

import httpx
import pytest

from tests.broker.load import FILTERS, Load
from tests.broker.processes import PLAIN, BrokerProcess
from whimbrel.client import Client
from whimbrel.lab.delivery_checker import judge


def gauge(broker: BrokerProcess, name: str) -> int:
    """A number that the broker tells Prometheus."""
    lines = httpx.get(f"{broker.url}/metrics", timeout=60, **PLAIN).text.splitlines()
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
    kill_while_truncating(tmp_path / "data", 2, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_kills_while_the_log_is_truncated(tmp_path: Path, seed: int) -> None:
    kill_while_truncating(tmp_path / "data", 30, seed)
