"""Figure 9b: execution time against the number of subscriptions, events as a table."""

from __future__ import annotations

from whimbrel.lab.experiments.lesubscribe.three_algorithms import BYTES_EACH, SIZES, THREE, workload_of
from whimbrel.lab.harness.claims import order, slope
from whimbrel.lab.harness.contenders import plain, raced
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, per_subscription
from whimbrel.lab.harness.panels import Panel


def measure(point: Point) -> TimedWorks:
    """The three algorithms, Neon, compiled naive and the engine."""
    return raced(THREE | plain("neon", "compiled_naive"), workload_of(point))


EXPERIMENT = Experiment(
    name="lesub-9b",
    paper="LeSub",
    figure="figure 9b",
    question="How long does matching alone take as subscriptions grow, with half of the numeric predicates equalities?",
    why="Quarantining looks only at subscriptions whose equalities hold; counting adds to every satisfied range.",
    scales=SIZES,
    timed=measure,
    memory=per_subscription(BYTES_EACH + 800),
    panels=(Panel("time", "n", "subscriptions, p = 0.5", "CPU us per event"),),
    claims=(
        order("Equality-preferred is faster than fair predicate", "time", "equality_preferred", "fair_predicate"),
        order("Quarantining is faster than equality-preferred", "time", "quarantine", "equality_preferred"),
        slope("Ours: counting takes time in proportion to subscriptions", "time", "fair_predicate", "n", 1.0),
    ),
)
