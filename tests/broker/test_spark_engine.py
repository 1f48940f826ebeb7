"""A broker with the engine on a real Spark gives the messages of the inline one, also when the job is killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.broker.processes import BrokerProcess
from tests.conftest import SPARK_SETTINGS
from tests.process_tree import command_of, processes_below
from whimbrel.broker.requests.entries import MATCHES
from whimbrel.client import Client
from whimbrel.log import LogReader
from whimbrel.log.match_commit import decode
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter

pytest.importorskip("pyspark", reason="the engine on Spark needs pyspark")

from whimbrel.pipeline.connectors.broker_link import BrokerLink
from whimbrel.pipeline.spark.java import JavaMissing, ensure_java

pytestmark = pytest.mark.spark

PATIENCE = 600.0  # seconds; far above what a loaded machine needs
BLOCK = 12  # steps between two pauses


@pytest.fixture(autouse=True)
def _java() -> None:
    try:
        ensure_java()
    except JavaMissing as missing:
        pytest.skip(str(missing))


class History:
    """Requests that a seed decides, and what they must bring by `Filter.matches`."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client, self.chance = client, random.Random(seed)
        self.events: dict[int, Event] = {}  # by offset, in the order in which they were published
        self.versions: dict[int, tuple[int, str, int | None]] = {}  # number: subscription, filter, end
        self.present: dict[int, tuple[str, int]] = {}  # subscription: id and version
        self.subscriptions = 0
        self.create("data.n >= 0")  # of which everything is kept

    def run(self, steps: int) -> None:
        """Publish, subscribe, replace and delete."""
        for _ in range(steps):
            kind = self.chance.choice(("publish", "publish", "publish", "create", "replace", "delete"))
            if kind == "publish":
                self.publish(self.chance.randrange(1, 8))
            elif kind == "create" or len(self.present) < 4:
                self.create(self.filter())
            elif kind == "replace":
                self.replace(self.chance.choice(list(self.present)[1:]), self.filter())
            else:
                self.delete(self.chance.choice(list(self.present)[1:]))

    def filter(self) -> str:
        number = self.chance.randrange(20)
        return self.chance.choice(
            (f"data.n < {number}", f"data.n = {number}", f"data.tags CONTAINS 'a' AND data.n >= {number}")
        )

    def publish(self, count: int) -> None:
        tags = ["a", "b", "c"]
        data = [{"n": self.chance.randrange(20), "tags": tags[: self.chance.randrange(4)]} for _ in range(count)]
        for one, result in zip(data, self.client.publish(data), strict=True):
            assert result.offset is not None
            self.events[result.offset] = Event.of({"data": one})

    def create(self, text: str) -> None:
        made = self.client.create(text)
        self._began(self.subscriptions, made["id"], int(made["version"]), text)
        self.subscriptions += 1

    def replace(self, subscription: int, text: str) -> None:
        id, former = self.present[subscription]
        number = int(self.client.replace(id, text)["version"])
        if number != former:  # another filter
            self._ended(former, number)
            self._began(subscription, id, number, text)

    def delete(self, subscription: int) -> None:
        id, former = self.present.pop(subscription)
        self.client.delete(id)
        self.publish(1)  # the end lies before this event
        self._ended(former, list(self.events)[-1])

    def _began(self, subscription: int, id: str, number: int, text: str) -> None:
        self.versions[number] = subscription, text, None
        self.present[subscription] = id, number

    def _ended(self, number: int, end: int) -> None:
        self.versions[number] = (*self.versions[number][:2], end)

    def pairs(self) -> Counter[tuple[int, int]]:
        """The number of every version with the offset of every event that it must get."""
        found: Counter[tuple[int, int]] = Counter()
        for number, (_, text, end) in self.versions.items():
            wanted = Filter.parse(text)
            seen = [one for one in self.events if number < one and (end is None or one < end)]
            found.update((number, offset) for offset in seen if wanted.matches(self.events[offset]))
        return found

    def messages(self) -> dict[int, list[int]]:
        """What every subscription that is there can read: the ranks of events, in the order of its messages."""
        ranks = {offset: rank for rank, offset in enumerate(self.events)}
        found: dict[int, list[int]] = {}
        for subscription, (id, _) in self.present.items():
            got: list[int] = []
            while page := self.client.pull(id, after=got[-1] if got else None, limit=1000):
                got += [message.offset for message in page]
            found[subscription] = [ranks[offset] for offset in got]
        return found


class Job:
    """The job on Spark, which a broker has started as its child."""

    def __init__(self, process: BrokerProcess, link: BrokerLink, folders: list[Path]) -> None:
        self.process, self.link, self.folders = process, link, folders

    def wait_for(self, happened: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not happened():
            assert self.process.process.exitcode is None and time.monotonic() < until, self.link.status()
            time.sleep(0.02)

    def pass_by(self, offset: int) -> None:
        """Return when this event is matched."""
        self.wait_for(lambda: self.link.status().watermark > offset)

    def kill(self) -> None:
        """Python and Java of the driver at once, and all that it has written."""
        below = list(processes_below(self.process.process.pid))
        java = [number for number in below if "SparkSubmit" in command_of(number)]
        driver = [number for number in below if "pipeline broker --supervised" in command_of(number)]
        assert driver and java
        for number in driver + java:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        for folder in self.folders:
            assert folder.exists()
            self.wait_for(lambda folder=folder: _is_removed(folder))  # type: ignore[misc]


def _is_removed(folder: Path) -> bool:
    with suppress(OSError):  # a worker that still ends may write into it
        shutil.rmtree(folder)
    return not folder.exists()


def committed_pairs(data: Path) -> Counter[tuple[int, int]]:
    """Every pair of every commit in the log."""
    found: Counter[tuple[int, int]] = Counter()
    with LogReader(data / "log") as log:
        for chunk in log.chunks(*log.bounds):
            for row in chunk:
                if row[2] == MATCHES:
                    numbers, offsets = decode(row[3]).pairs()
                    found.update(zip(numbers.tolist(), offsets.tolist(), strict=True))
    return found


@pytest.mark.timeout(1_800)  # a job that is killed soon after its start waits longer each time
@pytest.mark.parametrize(("blocks", "kills"), [(4, {1}), pytest.param(60, {2, 14, 26, 38, 50}, marks=pytest.mark.soak)])
def test_a_killed_job_gives_the_messages_of_the_inline_engine(tmp_path: Path, blocks: int, kills: set[int]) -> None:
    with BrokerProcess(tmp_path / "inline") as inline, Client(inline.url) as client:
        alone = History(client, seed=blocks)
        for _ in range(blocks):
            alone.run(BLOCK)
            alone.publish(200)
        wanted = alone.messages()
    data, scratch = tmp_path / "data", tmp_path / "scratch"
    chosen = {name: value for name, value in SPARK_SETTINGS.items() if name != "spark.master"}
    settings = [f"{name}={value}" for name, value in (chosen | {"spark.local.dir": str(scratch)}).items()]
    process = BrokerProcess(data, engine="spark", spark_master="local[2]", spark_settings=settings)
    streamed: list[int] = []
    with process, Client(process.url) as client, BrokerLink(process.url) as link:
        history, job = History(client, seed=blocks), Job(process, link, [data / "spark", scratch])
        threading.Thread(target=follow, args=(process.url, history.present[0][0], streamed), daemon=True).start()
        place = 0
        for block in range(blocks):
            history.run(BLOCK)
            job.pass_by(place)  # the job works on what came later during the next steps
            place = list(history.events)[-1]
            history.publish(200)
            if block in kills:
                job.kill()
        job.pass_by(list(history.events)[-1])
        assert history.messages() == wanted
        job.wait_for(lambda: len(streamed) >= len(history.events))
        assert streamed == list(history.events)
        assert len(history.versions) > len(history.present)  # some were replaced or deleted
        children = list(processes_below(process.process.pid))
        assert process.stop() == 0
    assert committed_pairs(data) == history.pairs()
    deadline = time.monotonic() + PATIENCE
    while any("SparkSubmit" in command_of(number) for number in children):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def follow(url: str, id: str, streamed: list[int]) -> None:
    """Follow a subscription as a consumer does, until the broker ends."""
    with Client(url) as client, suppress(Exception):
        for message in client.subscribe(id=id):
            streamed.append(message.offset)
