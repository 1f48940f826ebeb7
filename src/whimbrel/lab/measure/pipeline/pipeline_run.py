"""The benchmark of the pipeline: work after work on one Spark session, each written down as soon as it is known."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.lab.measure import machine
from whimbrel.lab.measure.matching.cases import Scale
from whimbrel.lab.measure.matching.folder import Benchmarks, UnknownName
from whimbrel.lab.measure.pipeline.match_work import run_match
from whimbrel.lab.measure.pipeline.open_work import run_open
from whimbrel.lab.measure.pipeline.single_works import run_compile, run_curve, run_handover
from whimbrel.lab.measure.pipeline.stream_work import run_stream
from whimbrel.lab.measure.pipeline.workbench import Workbench
from whimbrel.lab.measure.pipeline.works import Work
from whimbrel.lab.measure.workload_cache import default_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str], None]
Result = dict[str, object]

KINDS: dict[str, Callable[[Work, Workbench], Result]] = {
    "match": run_match,
    "stream": run_stream,
    "open": run_open,
    "compile": run_compile,
    "curve": run_curve,
    "handover": run_handover,
}
SETTINGS = {
    # Rivals broadcast all subscriptions, and so does nobody with the 1 GB that Spark takes by default.
    "spark.driver.memory": "6g",
    "spark.driver.maxResultSize": "4g",
    # A broadcast of a million subscriptions may take its time.
    "spark.sql.broadcastTimeout": "1200",
}


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """What to run: works (all without a name; a kind names all of its kind), rivals, and how thoroughly."""

    works: tuple[str, ...] = ()
    scale: Scale = "small"
    rivals: tuple[str, ...] = ("access", "nested", "counting")
    repeat: int = 3
    seconds: float = 120.0
    master: str | None = None
    cache: Path = field(default_factory=default_folder)


def run(
    settings: PipelineSettings,
    progress: Progress = lambda text: None,
    known: Callable[[Result], None] = lambda result: None,
) -> Result:
    """Measure everything; `known` is called with all that is known after each work. The result is JSON-ready."""
    import importlib

    Benchmarks()  # finds the folder
    pipeline = importlib.import_module("benchmarks.pipeline")
    works = chosen(importlib.import_module("benchmarks.pipeline.works").WORKS, settings.works)
    _check("rivals", settings.rivals, pipeline.RIVALS)
    result: Result = {
        "machine": {**machine.card(), "load_at_end": machine.load()},
        "settings": {
            "scale": settings.scale,
            "rivals": list(settings.rivals),
            "repeat": settings.repeat,
            "seconds": settings.seconds,
        },
        "works": [],
    }
    progress("starting Spark")
    with _session(settings.master) as spark:
        for work in works:
            done = _run_work(work, settings, spark, progress)
            result = {
                **result,
                "machine": {**result["machine"], "load_at_end": machine.load()},  # type: ignore[dict-item]
                "works": [*result["works"], done],  # type: ignore[misc]
            }
            known(result)
    return result


def chosen(works: Sequence[Work], names: Sequence[str]) -> list[Work]:
    """The works of these names or kinds; all without a name."""
    known = dict.fromkeys([work.name for work in works] + [work.kind for work in works])
    _check("a work", names, known)
    return [work for work in works if not names or {work.name, work.kind} & set(names)]


def _check(what: str, names: Collection[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownName(what, name, known)


def _run_work(work: Work, settings: PipelineSettings, spark: SparkSession, progress: Progress) -> Result:
    scratch = Path(tempfile.mkdtemp(prefix="whimbrel-bench-"))
    bench = Workbench(
        spark,
        settings.cache,
        scratch,
        settings.scale,
        settings.repeat,
        settings.seconds,
        settings.rivals,
        lambda text: progress(f"{work.name}: {text}"),
    )
    try:
        found = KINDS[work.kind](work, bench)
    finally:
        spark.catalog.clearCache()
        shutil.rmtree(scratch, ignore_errors=True)
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


class _session:  # noqa: N801 - used as a function
    """A session of our own, stopped at the end; one that runs already is used and left running."""

    def __init__(self, master: str | None) -> None:
        self.master = master

    def __enter__(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from whimbrel.pipeline import session

        active = SparkSession.getActiveSession()
        self.own = active is None
        self.spark = session(self.master, name="whimbrel bench", settings=SETTINGS) if active is None else active
        return self.spark

    def __exit__(self, *error: object) -> None:
        if self.own:
            self.spark.stop()
