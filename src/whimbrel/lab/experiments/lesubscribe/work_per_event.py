"""The cost expressions of Le Subscribe: what each algorithm does for an event, counted."""

from __future__ import annotations

from whimbrel.lab.experiments.lesubscribe.three_algorithms import BYTES_EACH, SIZES, THREE, workload_of
from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.contenders import plain, work_counted
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel

PARTS = ("probes", "predicate_evaluations", "additions", "quarantine_scanned")
"""The counters that touch a predicate or a subscription."""


def count(point: Point) -> CountedRows:
    """The sum of lookups, evaluations, additions and scanned rows, and additions alone."""
    workload = workload_of(point)
    work: dict[str, float] = {}
    measures = {part: part for part in PARTS}
    for row in work_counted(THREE | plain("neon"), workload, measures):
        work[row.series] = work.get(row.series, 0.0) + row.value
        if row.measure == "additions":
            yield row
    for name, total in work.items():
        yield Row(name, "work", total, "per event")


EXPERIMENT = Experiment(
    name="lesub-work",
    paper="LeSub",
    figure="section 3, cost expressions",
    question="How much does each algorithm do for an event?",
    why="Counting adds once for every satisfied predicate of every subscription, whether it matches in the end or not.",
    scales=SIZES,
    counted=count,
    memory=per_subscription(BYTES_EACH),
    panels=(
        Panel("work", "n", "subscriptions, p = 0.5", "lookups, evaluations, additions per event"),
        Panel("additions", "n", "subscriptions, p = 0.5", "additions per event"),
    ),
    claims=(
        order("Equality-preferred does less than fair predicate", "work", "equality_preferred", "fair_predicate"),
        order("Quarantining does less than equality-preferred", "work", "quarantine", "equality_preferred"),
        order("Fair predicate does less than Neon, which evaluates all", "work", "fair_predicate", "neon"),
    ),
)
