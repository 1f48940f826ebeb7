"""Figure 7, space: edges and successor sets as subscriptions grow."""

from __future__ import annotations

from whimbrel.lab.experiments.gryphon.matched_tree import COLLAPSED, INDEXED, SIZES, TREE, counted
from whimbrel.lab.harness.claims import slope
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, per_subscription
from whimbrel.lab.harness.panels import Panel


def count(point: Point) -> CountedRows:
    """The bytes of the tree with and without successor sets, and of the engine."""
    without = {"without successor sets": ("equality_tree", {**COLLAPSED, "index_attributes": INDEXED, "closed": True})}
    return counted(point, TREE | without, {"space": "bytes"})


EXPERIMENT = Experiment(
    name="gryphon-space",
    paper="Gryphon",
    figure="figure 7, space",
    question="How much space does the tree take as subscriptions grow?",
    why="Successor sets are lists of nodes, so the tree has several times the edges of one without them.",
    scales=SIZES,
    counted=count,
    memory=per_subscription(4_000),
    panels=(Panel("space", "n", "subscriptions", "bytes"),),
    claims=(slope("Space grows linearly with subscriptions", "space", "equality_tree", "n", 1.0),),
    notes=(
        "The paper counts edges and successors; here it is bytes of all arrays.",
        "To hold 100 matches, subscriptions test more attributes the more there are: 2.6 at 1,000 and 8.1 at 100,000.",
    ),
)
