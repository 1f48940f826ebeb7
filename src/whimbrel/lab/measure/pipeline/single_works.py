"""Works without rivals: growth with the number of subscriptions, compiling, and handing events to workers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from whimbrel.lab.measure.pipeline.workbench import KEY, Workbench
from whimbrel.lab.measure.timing import interleaved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
