"""Scaling: up to 100 million subscriptions in one process. Published systems stop at 6 million."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.lab.harness.claims import limit, slope
from whimbrel.lab.harness.contenders import ENGINE, repeated
from whimbrel.lab.harness.experiment import Experiment, Point, Timed, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Line, Panel
from whimbrel.lab.measure.matching.engine import Engine
from whimbrel.lab.measure.timing import Times, affordable
from whimbrel.lab.workloads import make

PART = 1_000_000
"""Subscriptions that are made and loaded at a time."""
BYTES_EACH = 160
"""Most memory that a process takes for a subscription while it loads and merges, measured with 20 million."""


def measure(point: Point) -> Iterator[Timed | Row]:
    """Load, then match a table; the time to load, and the bytes of the index."""
    n, p = int(point["n"]), float(point["p"])
    index, loading = Index(), Times()
    for seed, first in enumerate(range(0, n, PART)):
        count = min(PART, n - first)
        part = make("lesubscribe", n=count, p=p, events=1, seed=seed).subscriptions
        part = part.set_column(0, "id", pa.array(range(first, first + count)))
        loading.of(lambda rows=part: index.add_many(rows))  # type: ignore[misc]
        del part
    gc.collect()
    yield Row(ENGINE, "bytes", float(str(index.stats()["bytes_per_subscription"])), "bytes per subscription")
    yield Row(ENGINE, "loading", sum(loading.cpu) * 1e6 / n, "us per subscription")
    engine = Engine(index)
    events = make("lesubscribe", n=1, p=p, events=200 if n < PART else 2_000).events
    count = affordable(lambda number: engine.run(events.slice(0, number)), events.num_rows, 1.0)
    some = events.slice(0, count)
    yield Row("all", "matches", engine.run(some) / count, "per event")
    yield repeated(Timed(ENGINE, lambda: engine.run(some), count))


EXPERIMENT = Experiment(
    name="beyond-scaling",
    paper="Beyond",
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
    memory=per_subscription(BYTES_EACH, 1e9),
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
    notes=("Le Subscribe's workload, made with another seed for each million; merges as they come.",),
)  # fmt: skip
