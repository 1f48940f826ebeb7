"""Figure 7, time: how long an event takes as subscriptions grow, with 100 matches per event."""

from __future__ import annotations

from whimbrel.lab.experiments.gryphon.matched_tree import SIZES, TREE, timed
from whimbrel.lab.harness.claims import below_linear, order
from whimbrel.lab.harness.contenders import plain
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, per_subscription
from whimbrel.lab.harness.panels import TIME_OVER_SIZE


def measure(point: Point) -> TimedWorks:
    """The tree, compiled naive and the engine."""
    return timed(point, TREE | plain("compiled_naive"))


EXPERIMENT = Experiment(
    name="gryphon-time",
    paper="Gryphon",
    figure="figure 7, time",
    question="How long does an event take as subscriptions grow and 100 of them match?",
    why="The tree visits few nodes; the engine looks up combinations of values and checks only what they leave.",
    scales=SIZES,
    timed=measure,
    memory=per_subscription(2_000),
    panels=(TIME_OVER_SIZE,),
    claims=(
        below_linear("Time grows less than linearly with subscriptions", "time", "equality_tree"),
        order("The tree is faster than checking every subscription", "time", "equality_tree", "compiled_naive"),
    ),
)
