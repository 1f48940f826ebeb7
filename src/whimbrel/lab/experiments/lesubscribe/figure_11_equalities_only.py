"""Figure 11: equality only, time against the number of subscriptions."""

from __future__ import annotations

from whimbrel.lab.experiments.lesubscribe.three_algorithms import BYTES_EACH, SIZES, THREE, workload_of
from whimbrel.lab.harness.claims import slope
from whimbrel.lab.harness.contenders import raced
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, per_subscription
from whimbrel.lab.harness.panels import Panel


def measure(point: Point) -> TimedWorks:
    """The three algorithms and the engine."""
    return raced(THREE, workload_of(point, p=1.0))


EXPERIMENT = Experiment(
    name="lesub-11",
    paper="LeSub",
    figure="figure 11",
    question="Is the time flat where all predicates are equalities?",
    why="A lookup per set of attributes finds all candidates; only the matches themselves grow with subscriptions.",
    scales=SIZES,
    timed=measure,
    memory=per_subscription(BYTES_EACH),
    panels=(Panel("time", "n", "subscriptions, p = 1", "CPU us per event"),),
    claims=(
        slope("Quarantining is flat or logarithmic", "time", "quarantine", "n", 0.0),
        slope("Equality-preferred is flat or logarithmic", "time", "equality_preferred", "n", 0.0),
    ),
    notes=(
        "Matches per event grow with subscriptions, from 12 at 100,000 to 99 at 800,000: no time can be flat below.",
    ),
)
