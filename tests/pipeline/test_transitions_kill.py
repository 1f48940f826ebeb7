"""kill -9 of the driver of a `transitions` query, and of its workers: the notifications of an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.publishing import publish
from tests.pipeline.test_kill import EXECUTOR, WORKER, Scene, _committed, _kill, _kill_the_driver
from tests.pipeline.transitions_model import ARROW, FILTERS, LATER, Model, Told, history

pytestmark = pytest.mark.spark

PER_BATCH = 60


def _filters(version: int) -> dict[str, str]:
    return LATER if version % 2 == 0 else FILTERS


class Keyed(Scene):
    """Files of updates, one for each micro-batch, an index, and a driver process that is watched and hurt."""

    def __init__(self, folder: Path, batches: int, master: str) -> None:
        self.folder, self.master = folder, master
        rows = history(batches, batches * PER_BATCH, keys=25)
        self.batches = [rows[first : first + PER_BATCH] for first in range(0, len(rows), PER_BATCH)]
        (folder / "in").mkdir()
        for number, batch in enumerate(self.batches):
            file = folder / "in" / f"{number:03}.parquet"
            pq.write_table(pa.Table.from_pylist(batch, ARROW), file)
            os.utime(file, (number + 1.0, number + 1.0))
        self.versions = 0
        self.publish()
        self.driver: subprocess.Popen[bytes] | None = None

    def publish(self) -> None:
        """Another version of the index."""
        self.versions += 1
        assert publish(self.folder / "index", _filters(self.versions)) == self.versions

    def start(self) -> None:
        """Start the driver in a process group of its own, with its words in a file."""
        command = [sys.executable, "-m", "tests.pipeline.transitions_driver", str(self.folder), self.master]
        with (self.folder / "driver.txt").open("ab") as words:
            self.driver = subprocess.Popen(command, stdout=words, stderr=words, start_new_session=True)

    def wait_for_batch(self, batch: int) -> None:
        """Return when this batch has begun: what it reads is in the checkpoint."""
        self._wait((self.folder / "checkpoint" / "offsets" / str(batch)).exists, f"batch {batch}")

    def check(self) -> None:
        """The sink has what the model tells, with the versions that the checkpoint says batches began to use."""
        model, expected = Model(leave=True, partial=True), Counter[Told]()
        for number, batch in enumerate(self.batches):
            version = self.version_of(number)
            if version > model.version:
                expected.update(model.publish(_filters(version), version))
            expected.update(model.update(batch))
        found = Counter[Told]()
        for file in _committed(self.folder / "out"):
            columns = pq.read_table(file).select(["key", "subscription", "kind", "sequence", "index_version"])
            found.update(zip(*(column.to_pylist() for column in columns.columns), strict=True))
        assert found == expected

    def version_of(self, batch: int) -> int:
        """The version of the index that a batch was read with."""
        lines = (self.folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
        (version,) = (json.loads(line)["version"] for line in lines if line.startswith('{"version"'))
        return int(version)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Callable[[int, str], Keyed]]:
    scenes: list[Keyed] = []

    def make(batches: int, master: str) -> Keyed:
        scenes.append(Keyed(tmp_path, batches, master))
        return scenes[-1]

    yield make
    for made in scenes:
        made.close()


def test_a_killed_driver_goes_on_from_its_checkpoint(scene: Callable[[int, str], Keyed]) -> None:
    stage = scene(4, "local[2]")
    stage.start()
    _kill_the_driver(stage, 1)
    stage.finish()
    stage.check()
    assert [stage.version_of(batch) for batch in range(4)] == [1, 1, 2, 2]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_kills_of_all_kinds_at_any_time(scene: Callable[[int, str], Keyed], seed: int) -> None:
    draw = random.Random(seed)
    stage = scene(24, "local-cluster[2,1,1024]")
    stage.start()
    for batch in range(1, 22, 3):
        stage.wait_for_batch(batch)
        time.sleep(draw.random() * 0.5)
        kind = draw.choice([EXECUTOR, WORKER, "driver"])
        if kind == "driver":
            _kill_the_driver(stage, batch)
        else:
            _kill(stage, batch, kind)
    stage.finish()
    stage.check()
