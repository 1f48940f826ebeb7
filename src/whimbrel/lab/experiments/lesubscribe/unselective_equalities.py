"""Equality-preferred wins over quarantining where equalities are unselective and other predicates are selective."""

from __future__ import annotations

from whimbrel.lab.experiments.lesubscribe.three_algorithms import BYTES_EACH, THREE
from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.contenders import counting, racing
from whimbrel.lab.harness.experiment import Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import Workload, make


def workload_of(point: Point) -> Workload:
    """Equalities of a number of values beside a comparison that one event in a thousand satisfies."""
    n = int(point["n"])
    return make("unselective", n=n, values=int(point["values"]), events=100 if n <= 1_000 else 1_000)


EXPERIMENT = Experiment(
    name="lesub-unselective",
    paper="LeSub",
    figure="section 4, discussion",
    question="Does equality-preferred win where equalities are unselective?",
    why="Quarantining checks every subscription of a full cluster; counting touches what the comparison satisfies.",
    scales={
        "tiny": grid(n=[1_000], values=[2]),
        "small": grid(n=[50_000], values=[2, 20, 2_000]),
        "paper": grid(n=[400_000], values=[2, 5, 20, 100, 500, 2_000]),
        "full": grid(n=[1_600_000], values=[2, 20, 200, 2_000]),
    },
    timed=racing(THREE, workload_of),
    counted=counting(THREE, workload_of, {"false candidates": "false_candidates"}),
    memory=per_subscription(BYTES_EACH),
    panels=(
        Panel("time", "values", "values of the attribute with equalities", "CPU us per event"),
        Panel("false candidates", "values", "values of the attribute with equalities", "false candidates per event"),
    ),
    claims=(
        order("With few values equality-preferred is faster than quarantining", "time", "equality_preferred",
              "quarantine", where=lambda row: row["values"] <= 20),
        order("With many values quarantining is faster", "time", "quarantine", "equality_preferred",
              where=lambda row: row["values"] >= 500),
    ),
    notes=("Subscriptions `a1 = v AND a2 < c`; an event satisfies one comparison in a thousand. Ours.",),
)  # fmt: skip
