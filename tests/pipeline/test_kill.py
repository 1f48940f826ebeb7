"""kill -9 of a driver, an executor and a Python worker in the middle of a micro-batch: each pair exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipeline.publishing import publish
from whimbrel import Index
from whimbrel.log import LogWriter
from whimbrel.pipeline import IndexStore
from whimbrel.pipeline.index.batches import recorded

pytestmark = pytest.mark.spark

PER_BATCH = 2_000
_PATIENCE = 600.0  # seconds; far above what a loaded machine needs


def _filters(version: int) -> dict[int, str]:
    """Other filters in each version, so that a batch that was matched twice differently would show."""
    draw = random.Random(version)
    return {version * 1_000 + number: f"a < {draw.randrange(100)} AND b != {draw.randrange(5)}" for number in range(50)}


class Scene:
    """A log of some batches, an index, and a driver process that is watched and hurt."""

    def __init__(self, folder: Path, batches: int, executors: int) -> None:
        self.folder = folder
        self.executors = executors
        draw = random.Random(7)
        self.events = [{"a": draw.randrange(100), "b": draw.randrange(5)} for _ in range(batches * PER_BATCH)]
        with LogWriter(folder / "log") as writer:
            writer.append_many((json.dumps(event).encode(), None) for event in self.events).result()
        self.versions = 0
        self.publish()
        self.driver: subprocess.Popen[bytes] | None = None

    def publish(self) -> None:
        self.versions += 1
        assert publish(self.folder / "index", _filters(self.versions)) == self.versions

    def start(self) -> None:
        """Start the driver in a process group of its own, with its words in a file."""
        command = [sys.executable, "-m", "tests.pipeline.stream_driver", str(self.folder), str(PER_BATCH)]
        command.append(str(self.executors))
        with (self.folder / "driver.txt").open("ab") as words:
            self.driver = subprocess.Popen(command, stdout=words, stderr=words, start_new_session=True)

    def wait_for_batch(self, batch: int) -> None:
        """Return when a task of this batch runs: it has just recorded the version."""
        self._wait(lambda: any((self.folder / "index" / "batches").glob(f"*/{batch:010}.json")), f"batch {batch}")

    def wait_for_processes(self, name: str) -> list[int]:
        """The numbers of processes below the driver whose command contains `name`, when there are any."""
        found: list[int] = []

        def look() -> bool:
            found[:] = [number for number in self._below() if name in _command(number)]
            return bool(found)

        self._wait(look, name)
        return found

    def finish(self) -> None:
        """Wait for the driver to end by itself."""
        assert self.driver is not None
        assert self.driver.wait(_PATIENCE) == 0, self._words()

    def kill_driver(self) -> None:
        """Python and Java of the driver at once, as when its machine stops; executors lose it and end."""
        assert self.driver is not None
        java = [number for number in self._below() if "SparkSubmit" in _command(number)]
        assert java
        for number in [self.driver.pid, *java]:
            os.kill(number, signal.SIGKILL)
        self.driver.wait()

    def close(self) -> None:
        """End what is left of the driver's process group."""
        if self.driver is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()

    def check(self) -> None:
        """Each pair of each batch is in the sink once, matched against the version that the batch recorded."""
        ((_, records),) = recorded(IndexStore(self.folder / "index")).items()
        assert [batch for batch, _ in records] == list(range(len(self.events) // PER_BATCH))
        indexes: dict[int, Index] = {}
        expected: Counter[tuple[int, int]] = Counter()
        for batch, version in records:
            if version not in indexes:
                indexes[version] = Index()
                indexes[version].add_many(_filters(version).items())
            first = batch * PER_BATCH
            pairs = indexes[version].match_batch(self.events[first : first + PER_BATCH])
            rows, ids = (column.to_pylist() for column in pairs.columns)
            expected.update(zip((first + row for row in rows), ids, strict=True))
        found: Counter[tuple[int, int]] = Counter()
        for file in _committed(self.folder / "out"):
            table = pq.read_table(file)
            found.update(zip(table["offset"].to_pylist(), table["subscription"].to_pylist(), strict=True))
        assert found == expected
        assert set(expected.values()) == {1}

    def _below(self) -> Iterator[int]:
        """All processes below the driver, found by their parents."""
        assert self.driver is not None
        children: dict[int, list[int]] = {}
        for entry in os.listdir("/proc"):
            if entry.isdecimal():
                try:
                    fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                children.setdefault(int(fields[1]), []).append(int(entry))
        waiting = [self.driver.pid]
        while waiting:
            below = children.get(waiting.pop(), [])
            yield from below
            waiting += below

    def _wait(self, happened: Callable[[], bool], what: str) -> None:
        assert self.driver is not None
        until = time.monotonic() + _PATIENCE
        while not happened():
            assert self.driver.poll() is None, f"the driver ended before {what}: {self._words()}"
            assert time.monotonic() < until, f"waited in vain for {what}: {self._words()}"
            time.sleep(0.005)

    def _words(self) -> str:
        return (self.folder / "driver.txt").read_text()[-5_000:]


def _command(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _committed(out: Path) -> list[str]:
    """The files that the sink's own log counts in; others may be there, of attempts that failed."""
    log = out / "_spark_metadata"
    batches = sorted((int(file.name.partition(".")[0]), file) for file in log.iterdir() if file.name[0].isdecimal())
    lines: list[str] = []
    for _, file in batches:
        entries = file.read_text().splitlines()[1:]
        lines = entries if file.suffix == ".compact" else lines + entries
    return [json.loads(line)["path"].removeprefix("file://") for line in lines]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Callable[[int, int], Scene]]:
    scenes: list[Scene] = []

    def make(batches: int, executors: int) -> Scene:
        scenes.append(Scene(tmp_path, batches, executors))
        return scenes[-1]

    yield make
    for made in scenes:
        made.close()


def _kill_the_driver(scene: Scene, batch: int) -> None:
    scene.wait_for_batch(batch)
    scene.kill_driver()
    scene.publish()  # the batch that was cut off must not see this version, later ones must
    scene.start()


def _kill(scene: Scene, batch: int, name: str) -> None:
    scene.wait_for_batch(batch)
    for number in scene.wait_for_processes(name)[-1:]:  # the last is a worker, not the daemon that it was forked from
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    scene.publish()


EXECUTOR, WORKER = "CoarseGrainedExecutorBackend", "pyspark.daemon"


def test_a_killed_driver_goes_on_from_its_checkpoint(scene: Callable[[int, int], Scene]) -> None:
    stage = scene(4, 1)
    stage.start()
    _kill_the_driver(stage, 1)
    stage.finish()
    stage.check()
    ((_, records),) = recorded(IndexStore(stage.folder / "index")).items()
    assert records == [(0, 1), (1, 1), (2, 2), (3, 2)]


def test_a_killed_python_worker_and_a_killed_executor_are_replaced(scene: Callable[[int, int], Scene]) -> None:
    stage = scene(5, 2)  # the other goes on when one is killed
    stage.start()
    _kill(stage, 1, WORKER)
    _kill(stage, 3, EXECUTOR)
    stage.finish()
    stage.check()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_kills_of_all_kinds_at_any_time(scene: Callable[[int, int], Scene], seed: int) -> None:
    draw = random.Random(seed)
    stage = scene(24, 2)
    stage.start()
    for batch in range(1, 22, 3):
        time.sleep(draw.random() * 0.4)
        kind = draw.choice([EXECUTOR, WORKER, "driver"])
        if kind == "driver":
            _kill_the_driver(stage, batch)
        else:
            _kill(stage, batch, kind)
    stage.finish()
    stage.check()
