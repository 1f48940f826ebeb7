"""Figure 7, steps: how many nodes of the tree an event visits as subscriptions grow, with 100 matches per event."""

from __future__ import annotations

from whimbrel.lab.experiments.gryphon.matched_tree import SIZES, TREE, counted
from whimbrel.lab.harness.claims import below_linear
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, per_subscription
from whimbrel.lab.harness.panels import STEPS_OVER_SIZE


def count(point: Point) -> CountedRows:
    """Nodes visited by the tree, and conjunctions checked by naive."""
    yield from counted(point, TREE, {"steps": "nodes_visited"})
    yield from counted(point, {"compiled_naive": ("compiled_naive", {})}, {"steps": "conjunctions_checked"})


EXPERIMENT = Experiment(
    name="gryphon-steps",
    paper="Gryphon",
    figure="figure 7, steps",
    question="How many nodes of the matching tree does an event visit as subscriptions grow?",
    why="Subscriptions with the same prefix share a path: a node that fails leaves out all that is below it.",
    scales=SIZES,
    counted=count,
    memory=per_subscription(2_000),
    panels=(STEPS_OVER_SIZE,),
    claims=(below_linear("Steps grow less than linearly with subscriptions", "steps", "equality_tree"),),
    notes=("V = 3, K = 30, three index attributes; p1 = 0.98 and Zipf exponent 1 are ours (AMB-6a).",),
)
