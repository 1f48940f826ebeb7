"""kill -9 of a driver, an executor and a Python worker in the middle of a micro-batch: each pair exactly once."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.pipeline.killing import EXECUTOR, WORKER, KilledDriver, committed
from whimbrel import Index
from whimbrel.log import LogWriter
from whimbrel.pipeline import IndexStore
from whimbrel.pipeline.index.batches import recorded

pytestmark = pytest.mark.spark

PER_BATCH = 2_000


class MatchDriver(KilledDriver):
    """`match_stream` over a log of some batches."""

    def __init__(self, folder: Path, batches: int, executors: int) -> None:
        super().__init__(folder)
        self.program = "tests.pipeline.stages.match.stream_driver", str(PER_BATCH), str(executors)
        draw = random.Random(7)
        self.events = [{"a": draw.randrange(100), "b": draw.randrange(5)} for _ in range(batches * PER_BATCH)]
        with LogWriter(folder / "log") as writer:
            writer.append_many((json.dumps(event).encode(), None) for event in self.events).result()

    def filters(self, version: int) -> dict[Any, str]:
        """Other filters in each version, so that a batch that was matched twice differently would show."""
        draw = random.Random(version)
        numbers = range(version * 1_000, version * 1_000 + 50)
        return {number: f"a < {draw.randrange(100)} AND b != {draw.randrange(5)}" for number in numbers}

    def has_begun(self, batch: int) -> bool:
        """A task of it runs: it has just recorded the version."""
        return any((self.folder / "index" / "batches").glob(f"*/{batch:010}.json"))

    def check(self) -> None:
        """Each pair of each batch is in the sink once, matched against the version that the batch recorded."""
        ((_, records),) = recorded(IndexStore(self.folder / "index")).items()
        assert [batch for batch, _ in records] == list(range(len(self.events) // PER_BATCH))
        indexes: dict[int, Index] = {}
        expected: Counter[tuple[int, int]] = Counter()
        for batch, version in records:
            if version not in indexes:
                indexes[version] = Index()
                indexes[version].add_many(self.filters(version).items())
            first = batch * PER_BATCH
            pairs = indexes[version].match_batch(self.events[first : first + PER_BATCH])
            rows, ids = (column.to_pylist() for column in pairs.columns)
            expected.update(zip((first + row for row in rows), ids, strict=True))
        found: Counter[tuple[int, int]] = Counter()
        for file in committed(self.folder / "out"):
            table = pq.read_table(file)
            found.update(zip(table["offset"].to_pylist(), table["subscription"].to_pylist(), strict=True))
        assert found == expected
        assert set(expected.values()) == {1}


def test_killed_workers_executors_and_drivers_are_replaced(tmp_path: Path) -> None:
    with MatchDriver(tmp_path, 6, 2) as stage:  # one executor goes on when the other is killed
        stage.kill_in(1, WORKER)
        stage.kill_in(2, EXECUTOR)
        stage.restart_in(4)
        stage.finish()
        stage.check()
    ((_, records),) = recorded(IndexStore(tmp_path / "index")).items()
    assert records[:2] == [(0, 1), (1, 1)]
    assert [version for _, version in records[4:]] == [3, 4]  # what was cut off keeps its version


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_kills_of_all_kinds_at_any_time(tmp_path: Path, seed: int) -> None:
    with MatchDriver(tmp_path, 24, 2) as stage:
        stage.kill_at_any_time(seed, 24)
