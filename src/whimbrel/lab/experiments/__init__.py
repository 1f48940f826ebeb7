"""The experiments of the lab, by paper: a file for each claim, or for figures that are drawn of the same runs.

Every `Experiment` of a module is found by looking at its names. The order is that of the papers, of the file names,
then of the file.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache

from whimbrel.lab.harness.experiment import Experiment
from whimbrel.lab.measure.benchmark_results import UnknownName

PAPERS = ("gryphon", "survey", "lesubscribe", "spaces", "prefix", "beyond")
"""The folders, in the order in which results are shown."""


@cache
def experiments() -> dict[str, Experiment]:
    """Every experiment by name."""
    found: dict[str, Experiment] = {}
    for paper in PAPERS:
        package = importlib.import_module(f"{__name__}.{paper}")
        for module in sorted(one.name for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")):
            for one in vars(importlib.import_module(module)).values():
                if isinstance(one, Experiment):
                    assert one.name not in found, one.name
                    found[one.name] = one
    return found


def experiment(name: str) -> Experiment:
    """The experiment of that name. `UnknownName` with the name that is most like it if there is none."""
    found = experiments()
    if name not in found:
        near = difflib.get_close_matches(name, found, 1, 0.4)
        hint = f"; did you mean {near[0]!r}?" if near else "; `whimbrel lab list` has all names"
        raise UnknownName("the name of an experiment", name, hint)
    return found[name]
