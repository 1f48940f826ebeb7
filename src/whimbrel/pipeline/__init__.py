"""The data pipeline on Apache Spark: stages as functions from DataFrame to DataFrame, and the jobs around them.

    stages/      conform, match, transitions, deliver: one package per stage
    index/       the index that all workers share: compiled from a table, published in versions, opened on workers
    connectors/  sources and sinks beside those that Spark has itself
    jobs/        whole jobs made of stages: match a batch or a stream of files, backtest
    spark/       the session, Java, sending the library to executors, columns for Python workers

Names are imported on first use: a worker that only matches pays for nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from whimbrel.model.errors import MissingExtra

if TYPE_CHECKING:
    from whimbrel.pipeline.connectors.sinks import StreamOptions
    from whimbrel.pipeline.index.compile import Compiled, compile_index
    from whimbrel.pipeline.index.statistics import statistics
    from whimbrel.pipeline.index.store import IndexStore
    from whimbrel.pipeline.jobs.backtest import backtest
    from whimbrel.pipeline.spark.packaging import ship
    from whimbrel.pipeline.spark.session import session
    from whimbrel.pipeline.stages.conform.conform import conform
    from whimbrel.pipeline.stages.deliver.deliver import deliver
    from whimbrel.pipeline.stages.match.match import explain, match, match_stream
    from whimbrel.pipeline.stages.match.match_options import MatchOptions
    from whimbrel.pipeline.stages.transitions.transitions import TransitionOptions, export_publications, transitions

__all__ = [
    "Compiled",
    "IndexStore",
    "MatchOptions",
    "StreamOptions",
    "TransitionOptions",
    "backtest",
    "compile_index",
    "conform",
    "deliver",
    "explain",
    "export_publications",
    "match",
    "match_stream",
    "session",
    "ship",
    "statistics",
    "transitions",
]

_MODULES = {
    "connectors.sinks": ("StreamOptions",),
    "index.compile": ("Compiled", "compile_index"),
    "index.statistics": ("statistics",),
    "index.store": ("IndexStore",),
    "jobs.backtest": ("backtest",),
    "spark.packaging": ("ship",),
    "spark.session": ("session",),
    "stages.conform.conform": ("conform",),
    "stages.deliver.deliver": ("deliver",),
    "stages.match.match": ("explain", "match", "match_stream"),
    "stages.match.match_options": ("MatchOptions",),
    "stages.transitions.transitions": ("TransitionOptions", "export_publications", "transitions"),
}
"""The modules that define the public names."""


def __getattr__(name: str) -> object:
    home = next((module for module, names in _MODULES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{home}")
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package in ("pyspark", "py4j"):
            raise MissingExtra(package, "spark") from missing
        raise
    found = globals()[name] = getattr(module, name)
    return cast("object", found)
