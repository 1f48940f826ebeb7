"""Works without rivals: growth with subscriptions, compiling an index, opening one, handing events to workers."""

from __future__ import annotations

import itertools
import os
import re
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from whimbrel.lab.measure.pipeline.workbench import KEY, Workbench
from whimbrel.lab.measure.timing import interleaved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPENINGS = 9  # the median counts: a few milliseconds are easily disturbed
_PATIENCE = 60.0  # seconds that a worker waits for the others before it looks at its memory
_FIELDS = ("Rss", "Pss", "Private_Clean", "Private_Dirty", "Shared_Clean", "Shared_Dirty")


def run_curve(bench: Workbench) -> dict[str, object]:
    """Time per event and per pair at each number of subscriptions, without the fixed cost of a query."""
    points = []
    for size in bench.work.sizes_at(bench.settings.scale):
        workload = bench.workload(size)
        index, compiled = bench.index(size)
        folder, few = bench.events(workload, workload.events.num_rows), bench.few(workload)
        pairs = bench.match(folder, index)
        works = [lambda: bench.match(folder, index), lambda: bench.match(few, index)]  # noqa: B023 - called at once
        bench.progress(f"{size:,} subscriptions")
        whole, fixed = interleaved(works, bench.settings.repeat, bench.progress)
        seconds = max(whole.median_wall - fixed.median_wall, 1e-9)
        count = workload.events.num_rows
        points.append(
            {
                "subscriptions": size,
                "events": count,
                "matches_per_event": round(pairs / count, 2),
                "seconds": round(whole.median_wall, 3),
                "fixed": round(fixed.median_wall, 3),
                "us_per_event": round(seconds * 1e6 / count, 3),
                "ns_per_pair": round(seconds * 1e9 / pairs, 2) if pairs else None,
                "compile_seconds": None if compiled is None else round(compiled, 2),
            }
        )
    return {"figures": {}, "points": points}


def run_compile(bench: Workbench) -> dict[str, object]:
    """Seconds from a file of texts to a published version. A first compile, of a part, starts the workers."""
    from whimbrel.pipeline import compile_index

    count = bench.workload().subscriptions.num_rows
    table = bench.spark.read.parquet(bench.subscriptions())
    folders = (bench.scratch / f"compiled-{number}" for number in itertools.count())
    bench.progress("warming up")
    compile_index(table.where("id < 10000"), next(folders))
    (spent,) = interleaved([lambda: compile_index(table, next(folders))], bench.settings.repeat, bench.progress)
    seconds = spent.median_wall
    return {
        "figures": {"seconds": round(seconds, 2)},
        "subscriptions": count,
        "measured": [round(one, 2) for one in spent.wall],
        "subscriptions_per_second": round(count / seconds),
    }


def run_handover(bench: Workbench) -> dict[str, object]:
    """Rows per second that a worker gets in each form, if it only counts them."""
    workload = bench.workload()
    count = workload.events.num_rows
    events = bench.spark.read.parquet(bench.events(workload, count))
    forms = _forms(events)
    works = [lambda form=form: _count(form) for form in forms.values()]
    bench.progress("warming up")
    interleaved(works, 1)
    found = zip(forms, interleaved(works, bench.settings.repeat, bench.progress), strict=True)
    return {
        "figures": {},
        "events": count,
        "forms": [
            {"name": name, "seconds": round(one.median_wall, 3), "rows_per_second": round(count / one.median_wall)}
            for name, one in found
        ],
    }


def _forms(events: DataFrame) -> dict[str, DataFrame]:
    """The same events in four forms, each with all of their values."""
    from pyspark.sql import functions as sf

    texts = [name for name, kind in events.dtypes if kind == "string"]
    numbers = [name for name, kind in events.dtypes if kind != "string" and name != KEY]
    lists = [sf.array(*texts).alias("texts"), sf.array(*numbers).alias("numbers")]
    present = sf.struct(*texts, *numbers)
    return {
        "columns": events,
        "lists of texts and numbers": events.select(KEY, *lists),
        "JSON text": events.select(KEY, sf.to_json(present).alias("event")),
        "binary": events.select(
            KEY, sf.to_binary(sf.concat_ws("\t", *texts, *numbers), sf.lit("utf-8")).alias("event")
        ),
    }


def _count(form: DataFrame) -> int:
    from pyspark.sql import functions as sf

    row = form.mapInArrow(_rows, "rows bigint").agg(sf.sum("rows")).first()
    assert row is not None
    return int(row[0])


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


def run_open(bench: Workbench) -> dict[str, object]:
    """Open the index in a task for each core, without its caches, match, and read the memory of each worker."""
    from whimbrel.pipeline import IndexStore

    index, _ = bench.index()
    workload = bench.workload()
    path = bench.events(workload, workload.events.num_rows)
    bench.progress("opening it in workers")
    bench.match(path, index)  # checksums are compared once per host
    workers = os.cpu_count() or 1
    meeting = bench.scratch / "open"
    meeting.mkdir()
    rows = bench.spark.range(workers, numPartitions=workers)
    opener = _Opener(str(index), path, str(meeting), workers)
    found = [row.asDict() for row in rows.mapInArrow(opener, _Opener.SCHEMA).collect()]
    manifest = IndexStore(index).manifest()
    slowest = max(row["ms"] for row in found)
    return {
        "figures": {"ms to open": round(slowest, 2)},
        "subscriptions": manifest.count,
        "index_mb": round(manifest.bytes / 2**20, 1),
        "shards": len(manifest.shards),
        "workers": found,
    }


@dataclass(frozen=True, slots=True)
class _Opener:
    """The task that opens the index in a worker, matches, and reports times and memory."""

    SCHEMA = (
        "worker bigint, ms double, mapped_mb double, private_mb double, shared_mb double, process_private_mb double"
    )

    index: str
    events: str
    meeting: str
    workers: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist([self._open(number)])

    def _open(self, number: int) -> dict[str, float]:
        from whimbrel.pipeline import IndexStore
        from whimbrel.pipeline.index import workers as worker

        version = IndexStore(self.index).manifest().version
        spent = []
        for _ in range(_OPENINGS):
            worker._opened.clear()
            worker.read_version.cache_clear()
            started = time.perf_counter()
            _, shards = worker.open_version(Path(self.index), version)
            spent.append(time.perf_counter() - started)
        events = pa.parquet.read_table(self.events)
        for shard in shards:  # pages count when they are touched
            for _ in shard.match_blocks(events, 1):
                pass
        self._meet(number)
        mapped = _memory(self.index)
        whole = _memory("")
        self._meet(number, "done")
        return {
            "worker": number,
            "ms": round(statistics.median(spent) * 1e3, 3),
            "mapped_mb": mapped["Rss"],
            "private_mb": round(mapped["Private_Clean"] + mapped["Private_Dirty"], 1),
            "shared_mb": round(mapped["Shared_Clean"] + mapped["Shared_Dirty"], 1),
            "process_private_mb": round(whole["Private_Clean"] + whole["Private_Dirty"], 1),
        }

    def _meet(self, number: int, when: str = "there") -> None:
        """Wait until all workers have come here, or for a while: one worker may get several tasks."""
        folder = Path(self.meeting)
        (folder / f"{when}-{number}").touch()
        until = time.monotonic() + _PATIENCE
        while len(list(folder.glob(f"{when}-*"))) < self.workers and time.monotonic() < until:
            time.sleep(0.02)


def _memory(below: str) -> dict[str, float]:
    """The megabytes of this process that map files below a path, by kind; of all memory for an empty path."""
    found = dict.fromkeys(_FIELDS, 0.0)
    counts = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            counts = below in line
        elif counts and (match := re.match(r"(\w+):\s+(\d+) kB", line)) and match[1] in found:
            found[match[1]] += int(match[2]) / 1024
    return {name: round(value, 1) for name, value in found.items()}
