"""Matching a batch: Whimbrel beside plain Spark SQL on the same events. Both must find as many pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from whimbrel.lab.measure.matching.rival import MatchesDiffer
from whimbrel.lab.measure.pipeline.spark_rival import SparkRival
from whimbrel.lab.measure.pipeline.workbench import SAMPLE, Workbench
from whimbrel.lab.measure.timing import ProcessTreeTimes, affordable
from whimbrel.lab.workloads import Workload

_FEW, _FIRST = 2, 50


@dataclass(slots=True)
class _Entry:
    """A competitor: the number of events that it is given, its times on them, and its times on two events (`fixed`)."""

    name: str
    rival: SparkRival | None
    events: int
    fixed: ProcessTreeTimes = field(default_factory=ProcessTreeTimes)
    times: ProcessTreeTimes = field(default_factory=ProcessTreeTimes)

    def seconds(self, wanted: int) -> float:
        """Wall seconds for `wanted` events: measured, or scaled with the events except for the fixed cost."""
        measured, fixed = self.times.median_wall, self.fixed.median_wall
        if self.events == wanted:
            return measured
        return fixed + max(measured - fixed, 0.0) * wanted / self.events


def run_match(bench: Workbench) -> dict[str, object]:
    """Warm up all competitors, then time them in turns. `MatchesDiffer` if a rival finds another number of pairs."""
    workload = bench.workload()
    index, compiled = bench.index()
    count = workload.events.num_rows
    bench.progress("warming up")
    for _ in range(2):
        pairs = bench.match(bench.events(workload, count), index)
    entries = [_Entry("Whimbrel", None, count)]
    try:
        for name in bench.rivals:
            entries.append(_enter(bench, workload, name))
        for turn in range(bench.settings.repeat):
            for entry in entries:
                bench.progress(f"repeat {turn + 1} of {bench.settings.repeat}: {entry.name}")
                _time(bench, workload, index, entry)
    finally:
        for entry in entries:
            if entry.rival is not None:
                entry.rival.close()
    return _result(workload, pairs, compiled, entries)


def _enter(bench: Workbench, workload: Workload, name: str) -> _Entry:
    """Load a rival and find out how many events it can match in its time."""
    rival = bench.rivals[name](bench.spark)
    bench.progress(f"loading {rival.name}")
    folder = bench.scratch / f"{bench.work.name}-{name}"
    rival.load(workload.subscriptions, workload.events.slice(0, SAMPLE), folder)
    bench.progress(f"trying {rival.name}")
    share = bench.settings.seconds / (bench.settings.repeat + 2)  # the trials take as long as about two more runs
    count = workload.events.num_rows
    events = affordable(lambda some: rival.count(_view(bench, workload, some)), count, share, few=_FEW, first=_FIRST)
    return _Entry(rival.name, rival, events)


def _time(bench: Workbench, workload: Workload, index: Path, entry: _Entry) -> None:
    rival = entry.rival
    folder = bench.events(workload, entry.events)
    if rival is None:
        entry.times.of(lambda: bench.match(folder, index))
        entry.fixed.of(lambda: bench.match(bench.few(workload), index))
        return
    view, few = _view(bench, workload, entry.events), _view(bench, workload, _FEW)
    found = entry.times.of(lambda: rival.count(view))
    if entry.events < workload.events.num_rows:
        entry.fixed.of(lambda: rival.count(few))
    else:
        entry.fixed.cpu.append(0.0)
        entry.fixed.wall.append(0.0)
    expected = bench.match(folder, index)
    if found != expected:
        raise MatchesDiffer(bench.work.name, rival.name, -1, found, expected)


def _view(bench: Workbench, workload: Workload, count: int) -> str:
    """The name of a view of the first events; it is named by its folder, so that the same one is made once."""
    folder = bench.events(workload, count)
    name = Path(folder).name.replace("-", "_")
    bench.spark.read.parquet(folder).createOrReplaceTempView(name)
    return name


def _result(workload: Workload, pairs: int, compiled: float | None, entries: list[_Entry]) -> dict[str, object]:
    count = workload.events.num_rows
    own = entries[0].seconds(count)
    rivals = [entry.seconds(count) for entry in entries[1:]]
    figures: dict[str, float | None] = {
        "seconds": round(own, 3),
        "times the best plain Spark": round(min(rivals) / own, 1) if rivals else None,
    }
    return {
        "figures": figures,
        "subscriptions": workload.subscriptions.num_rows,
        "events": count,
        "pairs": pairs,
        "compile_seconds": None if compiled is None else round(compiled, 2),
        "competitors": [
            {
                "name": entry.name,
                "events": entry.events,
                "scaled": entry.events < count,
                "seconds": round(entry.seconds(count), 3),
                "measured": [round(one, 3) for one in entry.times.wall],
                "fixed": round(entry.fixed.median_wall, 3),
                "cpu_seconds": round(entry.times.median_cpu, 2),
                "events_per_second": round(count / entry.seconds(count)),
                "times": round(entry.seconds(count) / own, 2),
            }
            for entry in entries
        ],
    }
