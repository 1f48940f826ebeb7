"""Works without rivals: growth with the number of subscriptions, compiling, and handing events to workers."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from whimbrel.lab.measure.pipeline.workbench import KEY, Workbench
from whimbrel.lab.measure.pipeline.works import Work
from whimbrel.lab.measure.timing import seconds_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_curve(work: Work, bench: Workbench) -> dict[str, object]:
    """Time per event and per pair at each number of subscriptions, without the fixed cost of a query."""
    points = []
    for size in work.sizes_at(bench.settings.scale):
        parameters = {"n": size, **work.parameters(bench.settings.scale)}
        workload = bench.workload(work.workload, parameters)
        index, compiled = bench.index(work.workload, parameters)
        folder, few = bench.events(workload, workload.events.num_rows), bench.few(workload)
        pairs = bench.match(folder, index)
        spent, always = [], []
        for turn in range(bench.settings.repeat):
            bench.progress(f"{size:,} subscriptions: repeat {turn + 1} of {bench.settings.repeat}")
            spent.append(seconds_of(lambda: bench.match(folder, index)))  # noqa: B023 - called at once
            always.append(seconds_of(lambda: bench.match(few, index)))  # noqa: B023
        seconds = max(statistics.median(spent) - statistics.median(always), 1e-9)
        count = workload.events.num_rows
        points.append(
            {
                "subscriptions": size,
                "events": count,
                "matches_per_event": round(pairs / count, 2),
                "seconds": round(statistics.median(spent), 3),
                "fixed": round(statistics.median(always), 3),
                "us_per_event": round(seconds * 1e6 / count, 3),
                "ns_per_pair": round(seconds * 1e9 / pairs, 2) if pairs else None,
                "compile_seconds": None if compiled is None else round(compiled, 2),
            }
        )
    return {"figures": {}, "points": points}


def run_compile(work: Work, bench: Workbench) -> dict[str, object]:
    """Seconds from a file of texts to a published version. A first compile, of a part, starts the workers."""
    from whimbrel.pipeline import compile_index

    parameters = work.parameters(bench.settings.scale)
    count = bench.workload(work.workload, parameters).subscriptions.num_rows
    table = bench.spark.read.parquet(bench.subscriptions(work.workload, parameters))
    spent = []
    for turn in range(bench.settings.repeat + 1):
        bench.progress("warming up" if turn == 0 else f"repeat {turn} of {bench.settings.repeat}")
        path = bench.scratch / f"compiled-{turn}"
        some = table.where("id < 10000") if turn == 0 else table
        seconds = seconds_of(lambda: compile_index(some, path))  # noqa: B023 - called at once
        shutil.rmtree(path)
        if turn:
            spent.append(seconds)
    seconds = statistics.median(spent)
    return {
        "figures": {"seconds": round(seconds, 2)},
        "subscriptions": count,
        "measured": [round(one, 2) for one in spent],
        "subscriptions_per_second": round(count / seconds),
    }


def run_handover(work: Work, bench: Workbench) -> dict[str, object]:
    """Rows per second that a worker gets in each form, if it only counts them."""
    parameters = work.parameters(bench.settings.scale)
    workload = bench.workload(work.workload, parameters)
    count = workload.events.num_rows
    events = bench.spark.read.parquet(bench.events(workload, count))
    forms = _forms(events)
    spent: dict[str, list[float]] = {name: [] for name in forms}
    for turn in range(bench.settings.repeat + 1):
        for name, form in forms.items():
            bench.progress(f"{'warming up' if turn == 0 else f'repeat {turn} of {bench.settings.repeat}'}: {name}")
            seconds = seconds_of(lambda: _count(form))  # noqa: B023 - called at once
            if turn:
                spent[name].append(seconds)
    found = {name: statistics.median(times) for name, times in spent.items()}
    return {
        "figures": {},
        "events": count,
        "forms": [
            {"name": name, "seconds": round(seconds, 3), "rows_per_second": round(count / seconds)}
            for name, seconds in found.items()
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
