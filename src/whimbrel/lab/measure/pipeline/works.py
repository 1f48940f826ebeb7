"""The frozen works of the pipeline benchmark and every target: the one place where they are written down.

Names and full sizes never change, so that figures taken years apart compare. The small sizes give a look at a machine
in minutes; no target is judged by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from whimbrel.lab.measure.benchmark_results import Scale, Verdict, check_names
from whimbrel.lab.measure.workload_cache import Parameters

Kind = Literal["match", "stream", "open", "compile", "curve", "handover"]


@dataclass(frozen=True, slots=True)
class Work:
    """One thing to measure: its kind, its workload, and its parameters at full and at small scale.

    `n` and `events` are parameters of the workload, the others are options of the kind. A curve has `sizes` instead of
    n.
    """

    name: str
    kind: Kind
    workload: str
    full: Parameters
    small: Parameters
    aims: tuple[Verdict, ...] = ()
    """Targets of its figures, which are not measured yet."""
    sizes: tuple[int, ...] = ()
    small_sizes: tuple[int, ...] = ()
    said: str = ""
    """A figure of plain Spark that was measured once and is only quoted."""

    def parameters(self, scale: Scale) -> Parameters:
        return self.full if scale == "full" else {**self.full, **self.small}

    def sizes_at(self, scale: Scale) -> tuple[int, ...]:
        """The numbers of subscriptions of a curve."""
        return self.sizes if scale == "full" else self.small_sizes

    def verdicts(self, figures: dict[str, float | None]) -> list[Verdict]:
        """The targets of the work beside the figures that were measured."""
        return [replace(aim, measured=figures.get(aim.what)) for aim in self.aims]


WORKS = (
    Work(
        "lesubscribe-400k", "match", "lesubscribe",
        full={"n": 400_000, "p": 0.5, "events": 20_000}, small={"n": 4_000, "events": 2_000},
        aims=(Verdict("seconds", 1.5, None, least=False),),
        said="6.0 s (access-predicate join), 22.7 s (schema-less), 6 to 9 minutes (nested loop)",
    ),
    Work(
        "mixed-100k", "match", "mixed",
        full={"n": 100_000, "events": 200_000}, small={"n": 2_000, "events": 4_000},
        aims=(Verdict("times the best plain Spark", 20, None),),
    ),
    Work(
        "mixed-1m", "match", "mixed",
        full={"n": 1_000_000, "events": 200_000}, small={"n": 4_000, "events": 4_000},
        aims=(Verdict("times the best plain Spark", 50, None),),
    ),
    Work(
        "stream-mixed-100k", "stream", "mixed",
        full={"n": 100_000, "events": 200_000, "batch": 20_000, "batches": 20, "rate": 5_000, "seconds": 30},
        small={"n": 2_000, "events": 8_000, "batch": 1_000, "batches": 6, "rate": 1_000, "seconds": 5},
        aims=(Verdict("events/s sustained", 30_000, None), Verdict("median micro-batch, ms", 350, None, least=False)),
    ),
    Work(
        "open", "open", "lesubscribe",
        full={"n": 5_000_000, "p": 0.5, "events": 2_000}, small={"n": 10_000, "events": 500},
        aims=(Verdict("ms to open", 20, None, least=False),),
        said="broadcast: 1 s, and a private copy for each worker",
    ),
    Work(
        "compile-1m", "compile", "lesubscribe",
        full={"n": 1_000_000, "p": 0.5, "events": 2_000}, small={"n": 10_000, "events": 500},
        aims=(Verdict("seconds", 20, None, least=False),),
    ),
    Work(
        "curve-gryphon", "curve", "gryphon",
        full={"events": 50_000}, small={"events": 500},
        sizes=(10_000, 100_000, 1_000_000, 5_000_000), small_sizes=(300, 3_000),
    ),
    Work(
        "curve-hm", "curve", "hm",
        full={"events": 100_000}, small={"events": 500},
        sizes=(10_000, 100_000, 1_000_000, 5_000_000), small_sizes=(300, 3_000),
    ),
    Work(
        "curve-lesubscribe", "curve", "lesubscribe",
        full={"p": 0.5, "events": 2_000}, small={"events": 500},
        sizes=(10_000, 100_000, 1_000_000, 5_000_000), small_sizes=(300, 3_000),
    ),
    Work(
        "hand-over", "handover", "mixed",
        full={"n": 1_000, "events": 200_000}, small={"events": 2_000},
    ),
)  # fmt: skip


def chosen_works(names: Sequence[str]) -> list[Work]:
    """The works of these names or kinds; all without a name. `UnknownName` for any other name."""
    check_names("a work", names, dict.fromkeys([work.name for work in WORKS] + [work.kind for work in WORKS]))
    return [work for work in WORKS if not names or {work.name, work.kind} & set(names)]
