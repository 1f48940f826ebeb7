"""Opening a large index in workers: how long it takes, and whether workers share its pages."""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from whimbrel.lab.measure.pipeline.workbench import Workbench

_OPENINGS = 9  # the median counts: a few milliseconds are easily disturbed
_PATIENCE = 60.0  # seconds that a worker waits for the others before it looks at its memory
_FIELDS = ("Rss", "Pss", "Private_Clean", "Private_Dirty", "Shared_Clean", "Shared_Dirty")


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
