"""The engine as a rival in races, and what is measured of it alone: loading, batches, single events, both cores."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import msgspec
import pyarrow as pa

from whimbrel.compiled.jit import entry_for
from whimbrel.engine.index import Index
from whimbrel.engine.intake import subscriptions as intake
from whimbrel.engine.matching import workspace
from whimbrel.engine.stats import IndexStats
from whimbrel.lab.measure.benchmark_results import Progress, no_progress
from whimbrel.lab.measure.matching.rival import Pairs, Rival, pairs_of_blocks
from whimbrel.lab.measure.timing import interleaved
from whimbrel.lab.workloads import event_dicts, make
from whimbrel.language.columnar.terms import SCANNED_FROM
from whimbrel.ranks.encoding import single_events

TEXT_SAMPLE = 100_000
"""Subscriptions of the load from text on one core."""
SINGLE_EVENTS = 2_000
BATCH_PAIRS = 5_000_000
"""Pairs of a `match_batch` at most: it returns them all in one table."""


class Engine(Rival):
    """A loaded index, matched by `match_blocks` with a number of threads."""

    group = "engine"

    def __init__(self, index: Index, threads: int = 1) -> None:
        self.name = "engine" if threads == 1 else f"engine ({threads} cores)"
        self.index = index
        self.threads = self.cores = threads

    def load(self, subscriptions: pa.Table) -> None:
        """Do nothing: the index is loaded."""

    def pairs(self, events: pa.Table) -> Iterator[Pairs]:
        return pairs_of_blocks(self.index.match_blocks(events, self.threads), self.index.ids)

    def run(self, events: pa.Table) -> int:
        return sum(len(rows) for _, rows in self.index.match_blocks(events, self.threads))

    def bytes(self) -> int | None:
        return stats_of(self.index).bytes


def stats_of(index: Index) -> IndexStats:
    """What an index says of itself."""
    return msgspec.convert(index.stats(), IndexStats)


@dataclass(frozen=True, slots=True)
class Build:
    """One load from text: the seconds of parsing, and the seconds from there until the index was ready."""

    subscriptions: int
    parse_seconds: float
    rest_seconds: float
    cores: int

    def to_dict(self) -> dict[str, object]:
        """The figures, with the rates that have targets, as JSON-ready data."""
        seconds = self.parse_seconds + self.rest_seconds
        return {
            "subscriptions": self.subscriptions,
            "cores": self.cores,
            "seconds": round(seconds, 3),
            "parse_seconds": round(self.parse_seconds, 3),
            "from_columns_seconds": round(self.rest_seconds, 3),
            "from_text_per_second": round(self.subscriptions / seconds),
            "from_columns_per_second": round(self.subscriptions / max(self.rest_seconds, 1e-9)),
        }


def build(subscriptions: pa.Table, both: bool, progress: Progress) -> tuple[Index, Build]:
    """Load an index from the table, on one core or on all of them.

    On one core the seconds are CPU time. On several, those of parsing are wall time; what follows runs on one core.
    """
    index = Index()
    count = subscriptions.num_rows
    started = parsed = _clocks()

    def report(done: int) -> None:
        nonlocal parsed
        parsed = _clocks()
        progress(f"parsed {done:,} of {count:,}")

    with _parallel(both):
        index.add_many(subscriptions, progress=report)
    cores = (os.cpu_count() or 1) if both and count > SCANNED_FROM else 1
    parsing = parsed[0] - started[0] if cores > 1 else parsed[1] - started[1]
    return index, Build(count, parsing, _clocks()[1] - parsed[1], cores)


def _clocks() -> tuple[float, float]:
    """Wall time and CPU time."""
    return time.perf_counter(), time.process_time()


def warm_up() -> None:
    """Build and use small indexes with every kind of key, so that no measurement includes compiling."""
    for name in ("mixed", "lesubscribe", "gryphon", "ranges"):
        workload = make(name, n=2 * SCANNED_FROM, events=50)
        index, _ = build(workload.subscriptions, False, no_progress)
        index.match_batch(workload.events, threads=1)


@contextmanager
def _parallel(wanted: bool) -> Iterator[None]:
    """Allow bulk loads to use all cores, or only one."""
    usual = intake.PARALLEL
    intake.PARALLEL = wanted
    try:
        yield
    finally:
        intake.PARALLEL = usual


def batches(index: Index, events: pa.Table, matches_per_event: float, repeat: int) -> dict[str, object]:
    """Time `match_batch`, which makes one table with ids, in turns with `match_blocks` on the same events."""
    some = events.slice(0, max(1, min(events.num_rows, int(BATCH_PAIRS / max(matches_per_event, 1e-9)))))
    blocks = Engine(index)
    both = [lambda: blocks.run(some), lambda: index.match_batch(some, threads=1).num_rows]
    interleaved(both, 1)
    fast, whole = interleaved(both, repeat)
    return {
        "events": some.num_rows,
        **whole.to_dict(some.num_rows),
        "events_per_second": round(some.num_rows / whole.median_cpu),
        "times_blocks": round(whole.median_cpu / fast.median_cpu, 3),
    }


def match_one_by_one(index: Index, events: pa.Table) -> dict[str, object]:
    """Time `match` on dicts, one by one: the median, and the share of a call that is spent outside of kernels."""
    dicts = event_dicts(events.slice(0, SINGLE_EVENTS))
    for event in dicts[:200]:
        index.match(event)
    spent = sorted(_clocked(index, event) for event in dicts)
    return {
        "events": len(dicts),
        "median_us": round(statistics.median(spent) / 1e3, 2),
        "p99_us": round(spent[len(spent) * 99 // 100] / 1e3, 2),
        "outside_kernel": _outside(index, dicts),
    }


def _clocked(index: Index, event: dict[str, object]) -> int:
    started = time.perf_counter_ns()
    index.match(event)
    return time.perf_counter_ns() - started


def _outside(index: Index, events: list[dict[str, object]]) -> float:
    """The median share of a match outside of kernels; the call into compiled code counts as inside."""
    inside = 0

    def timed_entry(kernel: Callable[..., object], *samples: object) -> Callable[..., object]:
        entry = entry_for(kernel, *samples)

        def timed(*arguments: object) -> object:
            nonlocal inside
            started = time.perf_counter_ns()
            result = entry(*arguments)
            inside += time.perf_counter_ns() - started
            return result

        return timed

    shares = []
    with ExitStack() as stack:
        for module in (single_events, workspace):
            stack.enter_context(patch.object(module, "entry_for", timed_entry))
        folder = stack.enter_context(TemporaryDirectory(prefix="whimbrel-outside-"))
        index.save(Path(folder) / "index")
        fresh = Index.open(Path(folder) / "index")  # which asks for its kernels anew
        fresh.match(events[0])
        for event in events:
            inside = 0
            whole = _clocked(fresh, event)
            shares.append(1 - inside / whole)
    return round(statistics.median(shares), 3)
