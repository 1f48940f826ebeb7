"""kill -9 of the driver of a `transitions` query, and of its workers: the notifications of an undisturbed run."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.killing import EXECUTOR, WORKER, KilledDriver, committed
from tests.pipeline.publishing import publish
from tests.publications.model import ARROW, FILTERS, LATER, Model, Told, history

pytestmark = pytest.mark.spark

PER_BATCH = 60


def _filters(version: int) -> dict[str, str]:
    return LATER if version % 2 == 0 else FILTERS


class TransitionsDriver(KilledDriver):
    """`transitions` over files of updates, one for each micro-batch."""

    def __init__(self, folder: Path, batches: int, master: str) -> None:
        super().__init__(folder)
        self.program = "tests.pipeline.stages.transitions.transitions_driver", master
        rows = history(batches, batches * PER_BATCH, keys=25)
        self.batches = [rows[first : first + PER_BATCH] for first in range(0, len(rows), PER_BATCH)]
        (folder / "in").mkdir()
        for number, batch in enumerate(self.batches):
            file = folder / "in" / f"{number:03}.parquet"
            pq.write_table(pa.Table.from_pylist(batch, ARROW), file)
            os.utime(file, (number + 1.0, number + 1.0))

    def publish(self) -> None:
        self.versions += 1
        assert publish(self.folder / "index", _filters(self.versions)) == self.versions

    def has_begun(self, batch: int) -> bool:
        """What it reads is in the checkpoint."""
        return (self.folder / "checkpoint" / "offsets" / str(batch)).exists()

    def check(self) -> None:
        """The sink has what the model tells, with the versions that the checkpoint says batches began to use."""
        model, expected = Model(leave=True, partial=True), Counter[Told]()
        for number, batch in enumerate(self.batches):
            version = self.version_of(number)
            if version > model.version:
                expected.update(model.publish(_filters(version), version))
            expected.update(model.update(batch))
        found = Counter[Told]()
        for file in committed(self.folder / "out"):
            columns = pq.read_table(file).select(["key", "subscription", "kind", "sequence", "index_version"])
            found.update(zip(*(column.to_pylist() for column in columns.columns), strict=True))
        assert found == expected

    def version_of(self, batch: int) -> int:
        """The version of the index that a batch was read with."""
        lines = (self.folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
        (version,) = (json.loads(line)["version"] for line in lines if line.startswith('{"version"'))
        return int(version)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Callable[[int, str], TransitionsDriver]]:
    with contextlib.ExitStack() as stack:

        def make(batches: int, master: str) -> TransitionsDriver:
            made = TransitionsDriver(tmp_path, batches, master)
            stack.callback(made.close)
            return made

        yield make


def test_a_killed_driver_goes_on_from_its_checkpoint(scene: Callable[[int, str], TransitionsDriver]) -> None:
    stage = scene(3, "local[2]")
    stage.start()
    stage.restart_in(1)
    stage.finish()
    stage.check()
    assert [stage.version_of(batch) for batch in range(3)] == [1, 1, 2]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_kills_of_all_kinds_at_any_time(scene: Callable[[int, str], TransitionsDriver], seed: int) -> None:
    draw = random.Random(seed)
    stage = scene(24, "local-cluster[2,1,1024]")
    stage.start()
    for batch in range(1, 22, 3):
        stage.wait_for_batch(batch)
        time.sleep(draw.random() * 0.5)
        kind = draw.choice([EXECUTOR, WORKER, "driver"])
        if kind == "driver":
            stage.restart_in(batch)
        else:
            stage.kill_in(batch, kind)
    stage.finish()
    stage.check()
