"""The experiments of the lab: one file for each figure or claim, by paper.

A module with an `EXPERIMENT` is found by itself. The order is that of the papers, then of the file names.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache

from whimbrel.lab.harness.experiment import Experiment
from whimbrel.model.errors import WhimbrelError

PAPERS = ("gryphon", "survey", "lesubscribe", "spaces", "prefix", "beyond")
"""The folders, in the order in which results are shown."""


class UnknownExperiment(WhimbrelError, ValueError):
    """No experiment has that `name`; `near` is the name that is most like it, if any is."""

    def __init__(self, name: str, names: list[str]) -> None:
        close = difflib.get_close_matches(name, names, 1, 0.4)
        self.name, self.near = name, close[0] if close else None
        hint = f"; did you mean {self.near!r}?" if self.near else "; `whimbrel lab list` has all names"
        super().__init__(f"Expected the name of an experiment, but got {name!r}{hint}")


@cache
def experiments() -> dict[str, Experiment]:
    """Every experiment by name."""
    found: dict[str, Experiment] = {}
    for paper in PAPERS:
        package = importlib.import_module(f"{__name__}.{paper}")
        for module in sorted(one.name for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")):
            one = getattr(importlib.import_module(module), "EXPERIMENT", None)
            if isinstance(one, Experiment):
                assert one.name not in found, one.name
                found[one.name] = one
    return found


def experiment(name: str) -> Experiment:
    """The experiment of that name; UnknownExperiment if there is none."""
    found = experiments()
    if name not in found:
        raise UnknownExperiment(name, list(found))
    return found[name]
