"""kill -9 of a driver, an executor and a Python worker in the middle of a micro-batch: each pair exactly once."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipeline.killing import EXECUTOR, WORKER, KilledDriver, committed
from tests.pipeline.publishing import publish
from whimbrel import Index
from whimbrel.log import LogWriter
from whimbrel.pipeline import IndexStore
from whimbrel.pipeline.index.batches import recorded

pytestmark = pytest.mark.spark

PER_BATCH = 2_000


def _filters(version: int) -> dict[int, str]:
    """Other filters in each version, so that a batch that was matched twice differently would show."""
    draw = random.Random(version)
    return {version * 1_000 + number: f"a < {draw.randrange(100)} AND b != {draw.randrange(5)}" for number in range(50)}


class MatchDriver(KilledDriver):
    """`match_stream` over a log of some batches."""

    def __init__(self, folder: Path, batches: int, executors: int) -> None:
        super().__init__(folder)
        self.program = "tests.pipeline.stages.match.stream_driver", str(PER_BATCH), str(executors)
        draw = random.Random(7)
        self.events = [{"a": draw.randrange(100), "b": draw.randrange(5)} for _ in range(batches * PER_BATCH)]
        with LogWriter(folder / "log") as writer:
            writer.append_many((json.dumps(event).encode(), None) for event in self.events).result()

    def publish(self) -> None:
        self.versions += 1
        assert publish(self.folder / "index", _filters(self.versions)) == self.versions

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
                indexes[version].add_many(_filters(version).items())
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


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Callable[[int, int], MatchDriver]]:
    with contextlib.ExitStack() as stack:

        def make(batches: int, executors: int) -> MatchDriver:
            made = MatchDriver(tmp_path, batches, executors)
            stack.callback(made.close)
            return made

        yield make


def test_killed_workers_executors_and_drivers_are_replaced(scene: Callable[[int, int], MatchDriver]) -> None:
    stage = scene(6, 2)  # one executor goes on when the other is killed
    stage.start()
    stage.kill_in(1, WORKER)
    stage.kill_in(2, EXECUTOR)
    stage.restart_in(4)
    stage.finish()
    stage.check()
    ((_, records),) = recorded(IndexStore(stage.folder / "index")).items()
    assert records[:2] == [(0, 1), (1, 1)]
    assert [version for _, version in records[4:]] == [3, 4]  # what was cut off keeps its version


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_kills_of_all_kinds_at_any_time(scene: Callable[[int, int], MatchDriver], seed: int) -> None:
    draw = random.Random(seed)
    stage = scene(24, 2)
    stage.start()
    for batch in range(1, 22, 3):
        time.sleep(draw.random() * 0.4)
        kind = draw.choice([EXECUTOR, WORKER, "driver"])
        if kind == "driver":
            stage.restart_in(batch)
        else:
            stage.kill_in(batch, kind)
    stage.finish()
    stage.check()
