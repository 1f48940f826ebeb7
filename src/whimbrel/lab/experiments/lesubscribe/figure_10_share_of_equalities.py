"""Figure 10: time against p, the share of equalities among numeric predicates, at 800,000 subscriptions."""

from __future__ import annotations

from whimbrel.lab.experiments.lesubscribe.three_algorithms import BYTES_EACH, THREE, workload_of
from whimbrel.lab.harness.claims import order, ratio
from whimbrel.lab.harness.contenders import raced
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.panels import Panel


def measure(point: Point) -> TimedWorks:
    """The three algorithms and the engine."""
    return raced(THREE, workload_of(point))


EXPERIMENT = Experiment(
    name="lesub-10",
    paper="LeSub",
    figure="figure 10",
    question="What does the share of equalities do to the three algorithms?",
    why="With p = 1 there is nothing left to count or to check: both cluster algorithms do the same lookups.",
    scales={
        "tiny": grid(n=[1_000], p=[0.0, 1.0]),
        "small": grid(n=[50_000], p=[0.0, 0.5, 1.0]),
        "paper": grid(n=[800_000], p=[0.0, 0.25, 0.5, 0.75, 1.0]),
        "full": grid(n=[800_000], p=[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
    },
    timed=measure,
    memory=per_subscription(BYTES_EACH),
    panels=(Panel("time", "p", "p: share of equalities among numeric predicates", "CPU us per event", log_x=False),),
    claims=(
        order("Quarantining is faster than equality-preferred below p = 1", "time", "quarantine", "equality_preferred",
              where=lambda row: row["p"] < 1),
        order("Fair predicate is the slowest", "time", "equality_preferred", "fair_predicate"),
        ratio("At p = 1 equality-preferred and quarantining are the same", "time", "equality_preferred", "quarantine",
              1.0, where=lambda row: row["p"] == 1),
    ),
)  # fmt: skip
