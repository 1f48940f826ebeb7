"""The folder `benchmarks` of a checkout: the frozen list of workloads, and the rivals, one per file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType

import whimbrel
from whimbrel.lab.measure.matching.cases import MatchCase, MatchTargets
from whimbrel.lab.measure.matching.rival import Rival
from whimbrel.model.errors import WhimbrelError


class NoBenchmarks(WhimbrelError):
    """There is no folder of benchmarks: it is part of a checkout, and not of what is installed."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = tuple(places)
        super().__init__(
            f"Expected the benchmarks of a checkout in {' or '.join(map(str, places))}, but found none: "
            "run from the root of a checkout"
        )


class UnknownName(WhimbrelError, ValueError):
    """No workload, or no group of rivals, has that name."""

    def __init__(self, what: str, name: str, names: Collection[str]) -> None:
        self.name, self.names = name, tuple(names)
        super().__init__(f"Expected {what} of {', '.join(names)}, but got {name!r}")


class Benchmarks:
    """What the folder holds."""

    def __init__(self) -> None:
        self._package = _package()
        workloads = importlib.import_module("benchmarks.workloads")
        self.cases: tuple[MatchCase, ...] = workloads.CASES
        self.aims: MatchTargets = workloads.AIMS
        self.groups: dict[str, str] = self._package.RIVALS

    def chosen(self, names: Sequence[str]) -> list[MatchCase]:
        """The workloads of these names, or of these families; all without a name."""
        known = [case.name for case in self.cases] + [case.workload for case in self.cases]
        for name in names:
            if name not in known:
                raise UnknownName("a workload", name, dict.fromkeys(known))
        return [case for case in self.cases if not names or {case.name, case.workload} & set(names)]

    def rivals(self, groups: Sequence[str], case: MatchCase) -> list[Rival]:
        """New rivals of these groups for a workload."""
        for name in groups:
            if name not in self.groups:
                raise UnknownName("rivals", name, self.groups)
        found: list[Rival] = []
        for name in dict.fromkeys(groups):
            found += importlib.import_module(f"benchmarks.{self.groups[name]}").rivals(case)
        return found


def _package() -> ModuleType:
    """The package `benchmarks`: of the checkout that whimbrel is imported from, else of the working directory."""
    if "benchmarks" in sys.modules:
        return sys.modules["benchmarks"]
    assert whimbrel.__file__ is not None
    places = [Path(whimbrel.__file__).parents[2] / "benchmarks", Path.cwd() / "benchmarks"]
    for place in places:
        if (place / "workloads.py").is_file():
            spec = importlib.util.spec_from_file_location(
                "benchmarks", place / "__init__.py", submodule_search_locations=[str(place)]
            )
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules["benchmarks"] = module
            spec.loader.exec_module(module)
            return module
    raise NoBenchmarks(places)
