"""The whole run of the pipeline benchmark: one work after the other on one Spark session."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.lab.measure import machine
from whimbrel.lab.measure.benchmark_results import BenchSettings, Progress, check_names, no_progress
from whimbrel.lab.measure.pipeline import works
from whimbrel.lab.measure.pipeline.match_work import run_match
from whimbrel.lab.measure.pipeline.single_works import run_compile, run_curve, run_handover, run_open
from whimbrel.lab.measure.pipeline.spark_rival import SparkRivalMaker
from whimbrel.lab.measure.pipeline.stream_work import run_stream
from whimbrel.lab.measure.pipeline.workbench import Workbench
from whimbrel.lab.measure.pipeline.works import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Found = dict[str, object]

KINDS: dict[str, Callable[[Workbench], Found]] = {
    "match": run_match,
    "stream": run_stream,
    "open": run_open,
    "compile": run_compile,
    "curve": run_curve,
    "handover": run_handover,
}
SETTINGS = {
    # Rivals broadcast all subscriptions, which does not fit into the 1 GB that Spark takes by default.
    "spark.driver.memory": "6g",
    "spark.driver.maxResultSize": "4g",
    # A broadcast of a million subscriptions takes longer than the default of five minutes.
    "spark.sql.broadcastTimeout": "1200",
}


def run(
    settings: BenchSettings,
    rivals: Mapping[str, SparkRivalMaker],
    progress: Progress = no_progress,
    known: Callable[[Found], None] = lambda result: None,
) -> Found:
    """Measure everything and return JSON-ready data; `rivals` makes the rival of each name that may be given.

    After each work, `known` is called with the result so far. Raises `UnknownName` before Spark starts.
    """
    from whimbrel.pipeline.spark.session import running_session

    chosen = works.chosen_works(settings.names)
    check_names("rivals", settings.rivals, rivals)
    makers = {name: rivals[name] for name in settings.rivals}
    card, done = machine.card(), list[Found]()
    result: Found = {}
    progress("starting Spark")
    with running_session(settings.master, name="whimbrel bench", settings=SETTINGS) as spark:
        for work in chosen:
            done.append(_run_work(work, settings, makers, spark, progress))
            result = {
                "machine": {**card, "load_at_end": machine.load()},
                "settings": settings.to_dict(),
                "works": list(done),
            }
            known(result)
    return result


def _run_work(
    work: Work,
    settings: BenchSettings,
    rivals: Mapping[str, SparkRivalMaker],
    spark: SparkSession,
    progress: Progress,
) -> Found:
    with tempfile.TemporaryDirectory(prefix="whimbrel-bench-", ignore_cleanup_errors=True) as scratch:
        bench = Workbench(work, spark, Path(scratch), settings, rivals, lambda text: progress(f"{work.name}: {text}"))
        try:
            found = KINDS[work.kind](bench)
        finally:
            spark.catalog.clearCache()
    gc.collect()
    judged = work.verdicts(found["figures"]) if settings.scale == "full" else []  # type: ignore[arg-type]
    return {
        "name": work.name,
        "kind": work.kind,
        "workload": work.workload,
        "parameters": work.parameters(settings.scale),
        "said": work.said,
        **found,
        "verdicts": [verdict.to_dict() for verdict in judged],
    }
