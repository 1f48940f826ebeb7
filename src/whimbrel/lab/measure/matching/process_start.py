"""Cold and warm start: a new process imports the library, loads a hundred filters and matches.

A cold start begins with an empty cache of kernels: a small index evaluates its filters while a second process compiles.
Then a process with an index too large for that compiles what is missing, and every later start is warm. The seconds are
wall time of the whole process, interpreter included; CPU seconds include the process that compiles beside it.

Byte code is kept, as an installed library has it, even if the environment says otherwise. Tables are read by
`ParquetFile`: `read_table` would import pandas, which is not what is measured.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyarrow import parquet

from whimbrel.lab.workloads import make

_PROGRAM = """
import json, sys, time
marks = [time.perf_counter()]
from whimbrel import Index
import pyarrow.parquet as parquet
folder = sys.argv[1]
marks.append(time.perf_counter())
index = Index()
index.add_many(parquet.ParquetFile(folder + "/subscriptions.parquet").read())
marks.append(time.perf_counter())
events = parquet.ParquetFile(folder + "/events.parquet").read()
first = {name: value for name, value in events.slice(0, 1).to_pylist()[0].items() if value is not None}
index.match(first)
marks.append(time.perf_counter())
for _ in index.match_blocks(events, threads=1):
    pass
marks.append(time.perf_counter())
names = ("import", "load", "first_match", "first_batch")
print(json.dumps({name: b - a for name, a, b in zip(names, marks, marks[1:])}))
"""


_FILTERS, _MANY_FILTERS = 100, 2_000
"""Filters of a start, and so many that they are not evaluated."""


def starts(repeat: int = 3) -> dict[str, object]:
    """One cold start, and the median of several warm ones."""
    with tempfile.TemporaryDirectory(prefix="whimbrel-start-") as folder:
        _write(folder, _FILTERS)
        cold = _start(folder)
        _write(folder, _MANY_FILTERS)
        _start(folder)
        _write(folder, _FILTERS)
        warm = [_start(folder) for _ in range(repeat)]
    seconds = [one["seconds"] for one in warm]
    middle = next(one for one in warm if one["seconds"] == statistics.median_low(seconds))  # type: ignore[type-var]
    return {"cold": cold, "warm": middle}


def _write(folder: str, filters: int) -> None:
    workload = make("mixed", n=filters, events=100)
    parquet.write_table(workload.subscriptions, Path(folder, "subscriptions.parquet"))
    parquet.write_table(workload.events, Path(folder, "events.parquet"))


def _start(folder: str) -> dict[str, object]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder, "compiled"))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, folder], env=environment, capture_output=True, check=True, text=True
    )
    seconds = round(time.perf_counter() - started, 3)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3)
    parts = {name: round(spent, 3) for name, spent in json.loads(done.stdout).items()}
    return {"seconds": seconds, "cpu_seconds": cpu, **parts, "said_so": bool(done.stderr.strip())}
