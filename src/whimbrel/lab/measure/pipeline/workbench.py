"""What the works of the pipeline share: the session, folders, events as files, and compiled indexes."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import whimbrel
from whimbrel.lab.measure.benchmark_results import BenchSettings, Progress
from whimbrel.lab.measure.pipeline.spark_rival import SparkRivalMaker
from whimbrel.lab.measure.pipeline.works import Work
from whimbrel.lab.measure.workload_cache import Parameters, place_of, workload_of
from whimbrel.lab.workloads import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "event_id"
_WORKLOAD = ("n", "p", "events")
SAMPLE = 20_000
"""The number of events that Whimbrel and rivals may look at to choose keys."""
_FEW = 2
"""Events of a run that measures the fixed cost of a query."""


@dataclass(slots=True)
class Workbench:
    """A work, the session and the folders that it uses. A curve asks for its workload at several sizes `n`."""

    work: Work
    spark: SparkSession
    scratch: Path
    settings: BenchSettings
    rivals: Mapping[str, SparkRivalMaker]
    progress: Progress
    _folders: dict[tuple[str, int], Path] = field(default_factory=dict)

    @property
    def parameters(self) -> Parameters:
        """The parameters of the work at the scale of the run."""
        return self.work.parameters(self.settings.scale)

    def _sized(self, n: int | None) -> Parameters:
        """The parameters of the workload, without the options of the work."""
        given = self.parameters if n is None else {**self.parameters, "n": n}
        return {key: given[key] for key in _WORKLOAD if key in given}

    def workload(self, n: int | None = None) -> Workload:
        """The workload, generated or read from the cache."""
        self.progress("generating or reading the workload")
        return workload_of(self.work.workload, self._sized(n), self.settings.cache)

    def subscriptions(self, n: int | None = None) -> str:
        """The file of the subscriptions of a workload that has been read."""
        return str(place_of(self.work.workload, self._sized(n), self.settings.cache) / "subscriptions.parquet")

    def index(self, n: int | None = None) -> tuple[Path, float | None]:
        """The compiled index of a workload, and the seconds of compiling it; None if another run had compiled it.

        The folder is named by a hash of the code, so that a changed engine never reads the files of another one. The
        index is planned by the same sample of events that rivals may look at.
        """
        from whimbrel.pipeline import IndexStore, compile_index

        workload = {key: value for key, value in self._sized(n).items() if key != "events"}
        path = place_of(self.work.workload, workload, self.settings.cache / f"indexes-{_code()}")
        if IndexStore(path).versions():
            return path, None
        sample = self.spark.read.parquet(self.events(self.workload(n), SAMPLE)).drop(KEY)
        self.progress("compiling the index")
        started = time.perf_counter()
        compile_index(self.spark.read.parquet(self.subscriptions(n)), path, events=sample)
        return path, time.perf_counter() - started

    def events(self, workload: Workload, count: int) -> str:
        """A folder with the first `count` events as Parquet files, a few for each core; each event has its number."""
        key = workload.name + repr(workload.parameters), count
        if key not in self._folders:
            folder = self.scratch / f"events-{len(self._folders)}"
            folder.mkdir()
            cores = os.cpu_count() or 1
            write_parts(numbered(workload.events.slice(0, count)), folder, min(max(count, 1), 2 * cores))
            self._folders[key] = folder
        return str(self._folders[key])

    def match(self, folder: str, index: Path) -> int:
        """Match all events of a folder and count the pairs. This is what is timed of Whimbrel."""
        from pyspark.sql import functions as sf

        from whimbrel.pipeline import match

        found = match(self.spark.read.parquet(folder), index, key=KEY, form="lists")
        row = found.agg(sf.sum(sf.size("subscriptions"))).first()
        assert row is not None
        return int(row[0] or 0)

    def few(self, workload: Workload) -> str:
        """A folder of two events: a query over it takes its fixed cost."""
        return self.events(workload, min(_FEW, workload.events.num_rows))


def numbered(events: pa.Table) -> pa.Table:
    """The events with a column of their numbers."""
    return events.append_column(KEY, pa.array(np.arange(events.num_rows)))


def write_parts(table: pa.Table, folder: Path, parts: int) -> None:
    """Write a table as a number of Parquet files of like size."""
    edges = np.linspace(0, table.num_rows, parts + 1).astype(int)
    for number, (first, last) in enumerate(pairwise(edges.tolist())):
        pa.parquet.write_table(table.slice(first, last - first), folder / f"part-{number:03}.parquet")


def _code() -> str:
    """A short hash of the code that compiles indexes."""
    assert whimbrel.__file__ is not None
    root = Path(whimbrel.__file__).parent
    parts = ("compiled", "engine", "language", "model", "pipeline/index", "ranks", "storage")
    files = sorted(path for part in parts for path in (root / part).rglob("*.py"))
    return hashlib.blake2b(b"".join(path.read_bytes() for path in files), digest_size=6).hexdigest()
