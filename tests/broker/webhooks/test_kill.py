"""SIGKILL under load with webhooks and digests, judged by the checker: nothing lost, nothing wrong, order kept."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.broker.load import FILTERS, Load
from tests.broker.processes import BrokerProcess
from tests.broker.webhooks.receiver import Got, Receiver
from whimbrel.client import Client
from whimbrel.lab.delivery_checker import judge

SETTINGS: dict[str, Any] = {
    "webhook_networks": ["127.0.0.0/8"],
    "webhook_schedule": [0, *[0.02] * 99],
    "webhook_seconds": 1.0,
}
KINDS: list[dict[str, Any]] = [
    {},
    {"protocolsettings": {"batch": 20}},
    {"digest": {"every": "1s", "max": 50}},
    {"protocolsettings": {"consent": "waived", "batch": 3}},
]


class Moody:
    """Behaves like receivers do: mostly well, at times failing or slow. Notes what it has taken."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.taken: list[Got] = []

    def __call__(self, got: Got) -> int:
        with self._lock:
            mood = self._chance.random()
        if mood < 0.05:
            return 500
        if mood < 0.1:
            time.sleep(0.03)
        with self._lock:
            self.taken.append(got)
        return 204


def kill_again_and_again(directory: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    broker = BrokerProcess(directory, **SETTINGS).start()
    moods = [Moody(seed + n) for n in range(len(KINDS))]
    receivers = [Receiver(mood) for mood in moods]
    try:
        load = Load(broker.url, seed)
        everything = load.subscribe("TRUE")
        ids: list[str] = []
        with Client(broker.url) as client:
            for kind, receiver, text in zip(KINDS, receivers, FILTERS, strict=False):
                made = client.create(text, protocol="HTTP", sink=receiver.url, **kind)
                ids.append(made["id"])
                load._note_version(client, made["id"])
        with load.running():
            load.publisher("p1")
            load.publisher("p2")
            load.changer(ids[3], protocol="HTTP", sink=receivers[3].url, **KINDS[3])
            for _ in range(kills):
                load.wait_for_acks(21)
                time.sleep(chance.uniform(0.05, 0.4))
                broker.kill()
                broker.start()
        load.drain([everything])
        offsets = {(one["source"], one["id"]): one["offset"] for one in load.history if one["op"] == "delivered"}
        deadline = time.monotonic() + 60
        while not (verdict := judge(history(load, ids, moods, offsets))).is_good and time.monotonic() < deadline:
            time.sleep(0.3)
    finally:
        broker.kill()
        for receiver in receivers:
            receiver.close()
    assert verdict.is_good, str(verdict)
    assert verdict.acked > 20 * kills and verdict.delivered > verdict.acked
    for mood in moods:
        check_order(mood, offsets)


def history(
    load: Load, ids: list[str], moods: list[Moody], offsets: dict[tuple[str, str], int]
) -> list[dict[str, Any]]:
    """The history with what the receivers have taken: every request is a session of its own."""
    lines = list(load.history)
    for id, mood in zip(ids, moods, strict=True):
        for number, got in enumerate(list(mood.taken)):
            lines.append({"op": "session", "subscription": id, "session": f"w{number}", "after": -1})
            for event in got.events:
                names = {"source": event["source"], "id": event["id"]}
                place = {"subscription": id, "session": f"w{number}", "offset": offsets[event["source"], event["id"]]}
                lines.append({"op": "delivered", **place, **names})
    return lines


def check_order(mood: Moody, offsets: dict[tuple[str, str], int]) -> None:
    """What comes for the first time comes in the order of the log; what comes again has the id that it had."""
    first_seen: dict[int, str] = {}
    bodies: dict[str, bytes] = {}
    for got in mood.taken:
        id = got.headers["webhook-id"]
        assert bodies.setdefault(id, got.body) == got.body
        for event in got.events:
            assert first_seen.setdefault(offsets[event["source"], event["id"]], id) == id
    assert list(first_seen) == sorted(first_seen)


@pytest.mark.parametrize("fields", [{"protocolsettings": {"batch": 10}}, {"digest": {"every": "1s"}}], ids=str)
def test_a_request_that_was_not_answered_has_the_same_events_and_id_after_a_kill(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    came, go_on = threading.Event(), threading.Event()

    def hang(_: Got) -> int:
        came.set()
        go_on.wait(30)
        return 204

    with BrokerProcess(tmp_path / "data", **SETTINGS | {"webhook_seconds": 60.0}) as broker, Receiver(hang) as receiver:
        with Client(broker.url) as client:
            client.create("TRUE", protocol="HTTP", sink=receiver.url, **fields)
            client.publish([{"n": n} for n in range(3)])
            assert came.wait(30)
            client.publish([{"n": n} for n in range(3, 6)])
            time.sleep(1.1 if "digest" in fields else 0.0)  # another window is over
        broker.kill()
        go_on.set()
        broker.start()
        receiver.until(lambda: len(receiver.events) >= 9)
        first, again, rest = receiver.got
        assert first.headers["webhook-id"] == again.headers["webhook-id"] and first.body == again.body
        assert [event["data"]["n"] for got in (first, rest) for event in got.events] == list(range(6))


def test_kills_lose_no_webhook(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "data", 3, 3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_hundreds_of_kills_lose_no_webhook(tmp_path: Path, seed: int) -> None:
    kill_again_and_again(tmp_path / "data", 50, seed)
