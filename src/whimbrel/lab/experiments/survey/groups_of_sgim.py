"""SGIM: groups of predicates that are deleted or chosen as a whole cut the evaluations."""

from __future__ import annotations

from whimbrel.lab.harness.claims import order, saving
from whimbrel.lab.harness.contenders import Series, counting
from whimbrel.lab.harness.experiment import Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import Workload, make

SERIES: Series = {
    "compiled_naive": ("compiled_naive", {}),
    "sgim": ("sgim", {}),
    "sgim, dynamic": ("sgim", {"grouping": "dynamic"}),
}
MEASURES = {"evaluations": "predicate_evaluations", "deleted groups": "groups_deleted"}


def workload_of(point: Point) -> Workload:
    """Le Subscribe's workload."""
    n, p = int(point["n"]), float(point["p"])
    return make("lesubscribe", n=n, p=p, events=20 if n < 1_000 else 200)


EXPERIMENT = Experiment(
    name="survey-sgim",
    figure="section III.E",
    question="How many evaluations does the group index of SGIM save?",
    why="Each different predicate is evaluated once; with equalities most groups are deleted, with ranges hardly any.",
    scales={
        "tiny": grid(n=[200], p=[0.5, 1.0]),
        "small": grid(n=[1_000, 5_000], p=[0.5, 1.0]),
        "paper": grid(n=[1_000, 5_000, 20_000], p=[0.5, 1.0]),
        "full": grid(n=[5_000, 40_000], p=[0.5, 1.0]),
    },
    counted=counting(SERIES, workload_of, MEASURES),
    memory=per_subscription(10_000),
    panels=(
        Panel("evaluations", "n", "subscriptions", "predicates evaluated per event", where=lambda row: row["p"] < 1),
        Panel("evaluations", "n", "subscriptions, equality only", "predicates evaluated per event",
              where=lambda row: row["p"] == 1),
    ),
    claims=(
        order("SGIM evaluates fewer predicates than naive", "evaluations", "sgim", "compiled_naive"),
        saving("SGIM saves 79 % of the evaluations", "evaluations", "sgim", "compiled_naive", 0.79),
        saving("Dynamic groups save 88 %", "evaluations", "sgim, dynamic", "compiled_naive", 0.88),
    ),
    notes=("The figures of 79 and 88 % are of the original paper, against other baselines.",
           "SGIM is a reconstruction (AMB-9)."),
)  # fmt: skip
