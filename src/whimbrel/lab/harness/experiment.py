"""What an experiment is: a question, the figure of a paper, a grid of points per scale, measurements and claims.

A point is one combination of parameters. `counted` gives the measures of a point that are the same on every machine:
they run as Spark jobs, several points at once. `timed` gives work whose time is taken alone, on one core, in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias, get_args

from whimbrel.lab.harness.claims import Claim
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel

Scale = Literal["tiny", "small", "paper", "full"]
"""How large an experiment is: seconds, for tests; minutes; the sizes of the paper; as far as a machine goes."""
SCALES: tuple[Scale, ...] = get_args(Scale)
Point = dict[str, int | float | str]
PAPERS = {
    "gryphon": "Gryphon", "survey": "Survey", "lesub": "LeSub", "spaces": "Spaces", "prefix": "Prefix",
    "beyond": "Beyond",
}  # fmt: skip
"""The short names of papers, as in docs/papers.md, by what the names of their experiments begin with."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Work whose CPU time is the measure `time`. `per` is the number of operations that one call does.

    `undo` is called after each run, off the clock.
    """

    series: str
    work: Callable[[], object]
    per: float = 1.0
    undo: Callable[[], object] | None = None
    unit: str = "us per event"


CountedRows: TypeAlias = Iterator[Row]
TimedWorks: TypeAlias = Iterator[Timed | Row]
"""What `timed` gives: works, and measures that need no clock."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure or claim of a paper, or a question beyond them.

    `name` begins with its paper. `why` says what makes the winner win. `memory` estimates the bytes that a point needs.
    """

    name: str
    figure: str
    question: str
    why: str
    scales: Mapping[Scale, Sequence[Point]]
    panels: tuple[Panel, ...]
    claims: tuple[Claim, ...] = ()
    counted: Callable[[Point], CountedRows] | None = None
    timed: Callable[[Point], TimedWorks] | None = None
    memory: Callable[[Point], float] = lambda point: 2e8
    notes: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        """The short name of its paper."""
        return PAPERS[self.name.partition("-")[0]]

    def to_dict(self) -> dict[str, object]:
        """What the experiment is, as JSON-ready data."""
        kinds = [kind for kind in ("counted", "timed") if getattr(self, kind) is not None]
        return {
            "name": self.name,
            "paper": self.paper,
            "figure": self.figure,
            "question": self.question,
            "claims": [claim.text for claim in self.claims],
            "measures": kinds,
            "points": {scale: len(self.scales.get(scale, ())) for scale in SCALES},
            "notes": list(self.notes),
        }


def grid(**axes: Sequence[int | float | str]) -> list[Point]:
    """Every combination of the values of the axes; the last axis varies fastest.

    >>> grid(n=[10, 100], p=[0.5])
    [{'n': 10, 'p': 0.5}, {'n': 100, 'p': 0.5}]
    """
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def per_subscription(bytes_each: float) -> Callable[[Point], float]:
    """A memory estimate that grows with the coordinate n."""
    return lambda point: 3e8 + bytes_each * float(point["n"])
