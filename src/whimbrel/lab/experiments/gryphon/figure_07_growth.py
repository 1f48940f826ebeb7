"""Figure 7: nodes visited, time and space as subscriptions grow, with 100 matches per event."""

from __future__ import annotations

from whimbrel.lab.experiments.gryphon.matched_tree import COLLAPSED, INDEXED, SIZES, TREE, counted, timed
from whimbrel.lab.harness.claims import below_linear, order, slope
from whimbrel.lab.harness.contenders import plain
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, TimedWorks, per_subscription
from whimbrel.lab.harness.panels import STEPS_OVER_SIZE, TIME_OVER_SIZE, Panel


def count_steps(point: Point) -> CountedRows:
    """Nodes visited by the tree, and conjunctions checked by naive."""
    yield from counted(point, TREE, {"steps": "nodes_visited"})
    yield from counted(point, {"compiled_naive": ("compiled_naive", {})}, {"steps": "conjunctions_checked"})


STEPS = Experiment(
    name="gryphon-steps",
    paper="Gryphon",
    figure="figure 7, steps",
    question="How many nodes of the matching tree does an event visit as subscriptions grow?",
    why="Subscriptions with the same prefix share a path: a node that fails leaves out all that is below it.",
    scales=SIZES,
    counted=count_steps,
    memory=per_subscription(2_000),
    panels=(STEPS_OVER_SIZE,),
    claims=(below_linear("Steps grow less than linearly with subscriptions", "steps", "equality_tree"),),
    notes=("V = 3, K = 30, three index attributes; p1 = 0.98 and Zipf exponent 1 are ours (AMB-6a).",),
)


def measure_time(point: Point) -> TimedWorks:
    """The tree, compiled naive and the engine."""
    return timed(point, TREE | plain("compiled_naive"))


TIME = Experiment(
    name="gryphon-time",
    paper="Gryphon",
    figure="figure 7, time",
    question="How long does an event take as subscriptions grow and 100 of them match?",
    why="The tree visits few nodes; the engine looks up combinations of values and checks only what they leave.",
    scales=SIZES,
    timed=measure_time,
    memory=per_subscription(2_000),
    panels=(TIME_OVER_SIZE,),
    claims=(
        below_linear("Time grows less than linearly with subscriptions", "time", "equality_tree"),
        order("The tree is faster than checking every subscription", "time", "equality_tree", "compiled_naive"),
    ),
)


def count_space(point: Point) -> CountedRows:
    """The bytes of the tree with and without successor sets, and of the engine."""
    without = {"without successor sets": ("equality_tree", {**COLLAPSED, "index_attributes": INDEXED, "closed": True})}
    return counted(point, TREE | without, {"space": "bytes"})


SPACE = Experiment(
    name="gryphon-space",
    paper="Gryphon",
    figure="figure 7, space",
    question="How much space does the tree take as subscriptions grow?",
    why="Successor sets are lists of nodes, so the tree has several times the edges of one without them.",
    scales=SIZES,
    counted=count_space,
    memory=per_subscription(4_000),
    panels=(Panel("space", "n", "subscriptions", "bytes"),),
    claims=(slope("Space grows linearly with subscriptions", "space", "equality_tree", "n", 1.0),),
    notes=(
        "The paper counts edges and successors; here it is bytes of all arrays.",
        "To hold 100 matches, subscriptions test more attributes the more there are: 2.6 at 1,000 and 8.1 at 100,000.",
    ),
)
