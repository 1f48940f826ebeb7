"""Naive at 400,000 subscriptions takes about 10,000 times as long as quarantining."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whimbrel.lab.experiments.lesubscribe.three_algorithms import workload_of
from whimbrel.lab.harness.claims import order, ratio
from whimbrel.lab.harness.contenders import loaded, plain, race
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.panels import Line, Panel


def measure(point: Point) -> TimedWorks:
    """Both forms of naive, quarantining and the engine, on few events: naive takes most of a second for one."""
    workload = workload_of(point)
    series = plain("naive", "compiled_naive", "quarantine")
    yield from race(loaded(series, workload.subscriptions), workload.events.slice(0, 500))


def _as_in_the_paper(row: Mapping[str, Any]) -> bool:
    return bool(row["n"] == 400_000)


EXPERIMENT = Experiment(
    name="lesub-naive",
    paper="LeSub",
    figure="section 4, naive",
    question="How far behind is checking every subscription?",
    why="Naive touches every subscription; interpreted, a predicate costs a thousand times what machine code takes.",
    scales={
        "tiny": grid(n=[500]),
        "small": grid(n=[2_000, 10_000]),
        "paper": grid(n=[10_000, 100_000, 400_000]),
        "full": grid(n=[400_000, 1_000_000]),
    },
    timed=measure,
    memory=per_subscription(12_000),
    panels=(Panel("time", "n", "subscriptions, p = 0.5", "CPU us per event", lines=(Line("400,000", x=400_000),)),),
    claims=(
        order("Quarantining is faster than naive", "time", "quarantine", "naive"),
        ratio(
            "Naive takes 10,000 times as long as quarantining",
            "time",
            "naive",
            "quarantine",
            10_000,
            where=_as_in_the_paper,
        ),
        ratio("So does naive in machine code", "time", "compiled_naive", "quarantine", 10_000),
    ),
    notes=("The paper's figure is for 400,000 subscriptions. Here naive is the reference evaluator in Python.",),
)
