"""The cost of adding a subscription, up to 3.2 million; fair predicate is said to add fastest."""

from __future__ import annotations

from whimbrel.lab.experiments.lesubscribe.three_algorithms import BYTES_EACH, THREE
from whimbrel.lab.harness.claims import order, slope, untestable
from whimbrel.lab.harness.contenders import loaded_matchers
from whimbrel.lab.harness.experiment import Experiment, Point, Timed, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import make
from whimbrel.model.matcher import Matcher

ADDED = 100
OLD_MACHINE = "a time of the paper's machine says nothing about this one"


def measure(point: Point) -> TimedWorks:
    """Add a hundred subscriptions to each, then match one event, which makes them part of the structure."""
    n = int(point["n"])
    workload = make("lesubscribe", n=n + ADDED, events=1)
    stored, new = workload.subscriptions.slice(0, n), workload.subscriptions.slice(n).to_pylist()
    event = {"a1": "v001", "a4": 17}
    for title, matcher in loaded_matchers(THREE, stored).items():
        yield _adding(title, matcher, new, event)


def _adding(title: str, matcher: Matcher, new: list[dict[str, object]], event: dict[str, object]) -> Timed:
    def work() -> None:
        for row in new:
            matcher.add(row["id"], row["filter"])  # type: ignore[arg-type]
        matcher.match(event)

    def undo() -> None:
        for row in new:
            matcher.remove(row["id"])  # type: ignore[arg-type]
        matcher.match(event)

    work()
    undo()
    return Timed(title, work, len(new), undo, unit="us per subscription")


EXPERIMENT = Experiment(
    name="lesub-adding",
    paper="LeSub",
    figure="section 4, adding",
    question="What does it cost to add a subscription to a large set?",
    why="New subscriptions enter a mutable structure of the same kind, beside the arrays, until those are built again.",
    scales={
        "tiny": grid(n=[500, 1_000]),
        "small": grid(n=[10_000, 50_000]),
        "paper": grid(n=[100_000, 400_000, 1_600_000]),
        "full": grid(n=[400_000, 1_600_000, 3_200_000]),
    },
    timed=measure,
    memory=per_subscription(BYTES_EACH),
    panels=(Panel("time", "n", "subscriptions", "CPU us per added subscription"),),
    claims=(
        order("Fair predicate adds faster than equality-preferred", "time", "fair_predicate", "equality_preferred"),
        order("Fair predicate adds faster than quarantining", "time", "fair_predicate", "quarantine"),
        untestable("Quarantining adds one subscription among 3.2 million in 32.2 ms", OLD_MACHINE),
        slope("Ours: adding costs the engine the same at any size", "time", "engine", "n", 0.0),
    ),
    notes=("The time of a match after every hundred additions is included.",),
)
