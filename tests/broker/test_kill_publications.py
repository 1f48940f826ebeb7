"""SIGKILL under load of publications and spaces: every transition is told, and again only with the same cursor."""

from __future__ import annotations

import random
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.broker.processes import BrokerProcess
from tests.broker.transition_checker import judge_transitions
from whimbrel.client import Client, ClientError, Refused

UNKNOWN = -1
"""The offset of a delete that nobody answered: the publication is gone."""
FILTERS = ("x < 30", "x BETWEEN 20 AND 60 AND color = 'red'", "color != 'red'", "TRUE")


class TopicLoad:
    """Writers, readers and a changer that never give up, and their history. Each key has one writer."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.history: list[dict[str, Any]] = []
        self.stopped = threading.Event()
        self.errors: list[BaseException] = []
        self._random = random.Random(seed)
        self._sessions = count()
        self._threads: list[threading.Thread] = []

    def go(self, work: Any) -> None:
        chance = random.Random(self._random.random())

        def run() -> None:
            try:
                with Client(self.url, attempts=1000, timeout=10) as client:
                    while not self.stopped.is_set():
                        work(client, chance)
            except BaseException as error:
                self.errors.append(error)

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def stop(self) -> None:
        self.stopped.set()
        for thread in self._threads:
            thread.join()
        assert self.errors == []

    def writer(self, topic: str, names: tuple[str, ...]) -> None:
        """Puts, patches and deletes; after a crash it reads what became of its last update."""
        numbers = count()

        def work(client: Client, chance: random.Random) -> None:
            keyed = client.publications if topic == "publications" else client.space(topic[7:]).publications
            batch: list[dict[str, Any]] = []
            for key in chance.sample(names, chance.choice((1, 3))):
                if chance.random() < 0.15:
                    batch.append({"key": key, "delete": True})
                else:
                    batch.append({"key": key, "state": self._state(topic, chance, next(numbers))})
            try:
                results = [(one.offset, one.error) for one in keyed.update(batch)]
            except ClientError:  # it may be on disk or not
                results = [self._look(keyed, asked) for asked in batch]
            for asked, (offset, error) in zip(batch, results, strict=True):
                if offset is not None:
                    self._note(
                        "updated",
                        on=topic,
                        key=asked["key"],
                        state=asked.get("state"),
                        offset=None if offset == UNKNOWN else offset,
                    )
                else:
                    assert error is None or error["code"] == "not-found"

        self.go(work)

    @staticmethod
    def _state(topic: str, chance: random.Random, number: int) -> dict[str, Any]:
        if topic == "publications":
            return {"x": chance.randrange(100), "color": chance.choice(("red", "blue")), "n": number}
        low = chance.randrange(100)
        return {"regions": [{"x": [low, low + chance.randrange(10)], "n": [number, number]}]}

    def _look(self, keyed: Any, asked: dict[str, Any]) -> tuple[int | None, None]:
        """Whether an update that was not answered is there: its offset. A put says which one it was."""
        try:
            found = keyed.get(asked["key"])
        except Refused:
            return UNKNOWN if "delete" in asked else None, None
        return (found["offset"], None) if found["state"] == asked.get("state") else (None, None)

    def _note(self, op: str, **fields: Any) -> None:
        self.history.append({"op": op, **fields})

    def wait_for_updates(self, count: int) -> None:
        """Until so many updates more have been answered."""
        wanted = self.updates + count
        while self.updates < wanted and not self.errors:
            time.sleep(0.005)

    @property
    def updates(self) -> int:
        return sum(line["op"] == "updated" for line in self.history)

    def subscribe(self, topic: str, asked: Any, leave: bool) -> str:
        with Client(self.url) as client:
            if topic == "publications":
                id = str(client.create(asked, on=topic, leave=leave)["id"])
            else:
                id = str(client.space(topic[7:]).subscribe("zone", [dict(asked)], leave=leave)["id"])
            self._note_version(client, id)
            return id

    def _note_version(self, client: Client, id: str) -> None:
        held = client.read(id)
        asked = held["filter"] if held["on"] == "publications" else held["regions"][0]
        self._note(
            "version",
            subscription=id,
            on=held["on"],
            asked=asked,
            leave=bool(held.get("leave")),
            **{"from": int(held["version"])},
        )

    def puller(self, id: str) -> None:
        self.go(lambda client, chance: self.pull_once(client, id, chance.random() < 0.7, 0.1))

    def pull_once(self, client: Client, id: str, acknowledge: bool, wait: float = 0.0) -> int:
        found = client.pull(id, limit=500, wait=wait)
        session = next(self._sessions)
        for message in found:
            kind, key = message.event["type"].removeprefix("whimbrel."), message.event["subject"]
            self._note("told", subscription=id, session=session, cursor=message.cursor, kind=kind, key=key)
        if found and acknowledge:
            client.acknowledge(id, found[-1].cursor)
        return len(found)

    def drain(self, ids: list[str]) -> None:
        with Client(self.url) as client:
            for id in ids:
                while self.pull_once(client, id, True):
                    pass


def kill_again_and_again(directory: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    broker = BrokerProcess(directory).start()
    try:
        with Client(broker.url) as client:
            client.space("map").define({"x": "number", "n": "number"})
        load = TopicLoad(broker.url, seed)
        ids = [load.subscribe("publications", text, place != 1) for place, text in enumerate(FILTERS)]
        ids.append(load.subscribe("spaces/map", {"x": [20, 50]}, True))
        load.writer("publications", ("a", "b", "c", "d"))
        load.writer("publications", ("e", "f", "g"))
        load.writer("spaces/map", ("h", "i", "j"))
        load.puller(ids[0])
        load.puller(ids[4])
        for _ in range(kills):
            load.wait_for_updates(chance.randrange(25, 60))
            broker.kill()
            broker.start()
        load.stop()
        broker.stop()
        broker.start()
        load.drain(ids)
    finally:
        broker.kill()
    verdict = judge_transitions(load.history)
    assert verdict.is_good, str(verdict)
    assert verdict.acked >= 25 * kills and verdict.delivered > 0


def test_a_broker_that_is_killed_loses_no_transition(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, 2, 1)


@pytest.mark.soak
def test_a_broker_that_is_killed_often_loses_no_transition(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, 40, 2)
