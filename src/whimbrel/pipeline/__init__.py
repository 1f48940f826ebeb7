"""The data pipeline on Apache Spark: stages as functions from DataFrame to DataFrame, and the jobs around them.

Stages: `conform`, `match`, `match_stream`, `transitions`, `deliver`. Jobs: `compile_index`, `statistics`, `backtest`.
`session` gives a Spark session with the settings that they like. Names are imported on first use: a worker that only
matches pays for nothing else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

from whimbrel.model.errors import MissingExtra

if TYPE_CHECKING:
    from whimbrel.pipeline.backtest import backtest
    from whimbrel.pipeline.compile_index import Compiled, compile_index
    from whimbrel.pipeline.conform import conform
    from whimbrel.pipeline.deliver import deliver
    from whimbrel.pipeline.match import explain, match
    from whimbrel.pipeline.match_stream import match_stream
    from whimbrel.pipeline.session import session
    from whimbrel.pipeline.statistics import statistics
    from whimbrel.pipeline.store import IndexStore
    from whimbrel.pipeline.transitions import export_publications, transitions

__all__ = [
    "Compiled",
    "IndexStore",
    "backtest",
    "compile_index",
    "conform",
    "deliver",
    "explain",
    "export_publications",
    "match",
    "match_stream",
    "session",
    "statistics",
    "transitions",
]

_HOMES = {"Compiled": "compile_index", "IndexStore": "store", "explain": "match", "export_publications": "transitions"}
"""Names that are not those of their modules."""


class _Package(ModuleType):
    """Keeps `match` the function: importing the module `match` would put that in its place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in __all__):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            home = import_module(f"{__name__}.{_HOMES.get(name, name)}")
        except ModuleNotFoundError as missing:
            package = (missing.name or "").partition(".")[0]
            if package in ("pyspark", "py4j"):
                raise MissingExtra(package, "spark") from missing
            raise
        setattr(self, name, found := getattr(home, name))
        return cast("object", found)


sys.modules[__name__].__class__ = _Package
