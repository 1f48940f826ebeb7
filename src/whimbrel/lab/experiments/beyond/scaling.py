"""Scaling: up to 100 million subscriptions in one process. Published systems stop at 6 million."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.lab.harness.claims import limit, slope
from whimbrel.lab.harness.contenders import ENGINE, repeated
from whimbrel.lab.harness.experiment import Experiment, Point, Timed, TimedWorks, grid
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Line, Panel
from whimbrel.lab.measure.matching.engine_rival import Engine
from whimbrel.lab.measure.timing import Times, affordable
from whimbrel.lab.workloads import make

PART = 1_000_000
"""Subscriptions that are made and loaded at a time."""
SHARD = 20_000_000
"""Subscriptions of one index. Beyond, several are saved, and all are opened by memory map."""
BYTES_EACH = 160
"""Most memory that a process takes for a subscription while it loads and merges, measured with 20 million."""
BYTES_OPEN = 60
"""Memory for a subscription of an index that is opened."""


def measure(point: Point) -> TimedWorks:
    """Load, then match a table; the time to load, and the bytes of the index.

    Files that are mapped stay readable when their folder is deleted, which is before the timed runs.
    """
    n, p = int(point["n"]), float(point["p"])
    loading = Times()
    with TemporaryDirectory(prefix="whimbrel-scaling-") as folder:
        engines = [Engine(index) for index in _shards(n, p, loading, Path(folder))]
        size = sum(one.bytes() or 0 for one in engines)
        yield Row(ENGINE, "bytes", size / n, "bytes per subscription")
        yield Row(ENGINE, "loading", sum(loading.cpu) * 1e6 / n, "us per subscription")
        yield Row(ENGINE, "indexes", len(engines))
        events = make("lesubscribe", n=1, p=p, events=200 if n < PART else 2_000).events

        def run(count: int) -> int:
            return sum(engine.run(events.slice(0, count)) for engine in engines)

        run(events.num_rows // 4)  # pages of mapped files are read from disk once
        count = affordable(run, events.num_rows, 1.0, clock=time.process_time)
        yield Row("all", "matches", run(count) / count, "per event")
        yield repeated(Timed(ENGINE, lambda: run(count), count))


def _shards(n: int, p: float, loading: Times, folder: Path) -> list[Index]:
    """One index of n subscriptions, or several that were saved and opened again."""
    if n <= SHARD:
        return [_loaded(0, n, p, loading)]
    firsts = range(0, n, SHARD)
    for first in firsts:
        index = _loaded(first, min(SHARD, n - first), p, loading)
        loading.of(lambda one=index, first=first: one.save(folder / str(first)))  # type: ignore[misc]
        del index
        gc.collect()
    return [Index.open(folder / str(first), verify=False) for first in firsts]


def _loaded(first: int, n: int, p: float, loading: Times) -> Index:
    index = Index()
    for at in range(first, first + n, PART):
        count = min(PART, first + n - at)
        part = make("lesubscribe", n=count, p=p, events=1, seed=at // PART).subscriptions
        part = part.set_column(0, "id", pa.array(range(at, at + count)))
        loading.of(lambda rows=part: index.add_many(rows))  # type: ignore[misc]
        del part
    gc.collect()
    return index


def _memory(point: Point) -> float:
    n = float(point["n"])
    return 1e9 + BYTES_EACH * min(n, SHARD) + (BYTES_OPEN * n if n > SHARD else 0)


EXPERIMENT = Experiment(
    name="beyond-scaling",
    figure="scaling",
    question="How far does one process go?",
    why="Subscriptions are arrays of ranks without an object each; time beyond the lookups goes to listing matches.",
    scales={
        "tiny": grid(n=[1_000, 3_000], p=[1.0]),
        "small": grid(n=[10_000, 100_000, 400_000], p=[0.5, 1.0]),
        "paper": grid(n=[100_000, 1_000_000, 10_000_000], p=[0.5, 1.0]),
        "full": grid(n=[1_000_000, 10_000_000, 30_000_000, 100_000_000], p=[1.0]),
    },
    timed=measure,
    memory=_memory,
    panels=(
        Panel("time", "n", "subscriptions", "CPU us per event", split="p",
              lines=(Line("published systems end", x=6_000_000),)),
        Panel("bytes", "n", "subscriptions", "bytes per subscription", split="p", log_y=False),
    ),
    claims=(
        limit("Ours: a subscription takes at most 100 bytes", "bytes", ENGINE, 100, where=lambda row: row["n"] >= 1e5),
        slope("Ours: time grows no faster than matches", "time", ENGINE, "n", 1.0, where=lambda row: row["p"] == 1,
              at_most=True),
    ),
    notes=(
        "Le Subscribe's workload, made with another seed for each million; merges as they come.",
        "Beyond 20 million there are several indexes of 20 million, saved and opened by memory map: each is searched.",
    ),
)  # fmt: skip
