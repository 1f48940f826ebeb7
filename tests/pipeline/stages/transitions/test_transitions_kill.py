"""kill -9 of the driver of a `transitions` query, and of its workers: the notifications of an undisturbed run."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.killing import KilledDriver, committed
from tests.publications.model import ARROW, FILTERS, LATER, Model, Told, history

pytestmark = pytest.mark.spark

PER_BATCH = 60


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

    def filters(self, version: int) -> dict[Any, str]:
        return LATER if version % 2 == 0 else FILTERS

    def has_begun(self, batch: int) -> bool:
        """What it reads is in the checkpoint."""
        return (self.folder / "checkpoint" / "offsets" / str(batch)).exists()

    def check(self) -> None:
        """The sink has what the model tells, with the versions that the checkpoint says batches began to use."""
        model, expected = Model(leave=True, partial=True), Counter[Told]()
        for number, batch in enumerate(self.batches):
            version = self.version_of(number)
            if version > model.version:
                expected.update(model.publish(self.filters(version), version))
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


def test_a_killed_driver_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    with TransitionsDriver(tmp_path, 3, "local[2]") as stage:
        stage.restart_in(1)
        stage.finish()
        stage.check()
        assert [stage.version_of(batch) for batch in range(3)] == [1, 1, 2]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_kills_of_all_kinds_at_any_time(tmp_path: Path, seed: int) -> None:
    with TransitionsDriver(tmp_path, 24, "local-cluster[2,1,1024]") as stage:
        stage.kill_at_any_time(seed, 24)
