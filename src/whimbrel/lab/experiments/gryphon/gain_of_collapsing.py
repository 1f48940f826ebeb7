"""Section 5.1: collapsing chains of `*` saves about 60 % of the matching time."""

from __future__ import annotations

from whimbrel.lab.experiments.gryphon.matched_tree import COLLAPSED, PLAIN, SIZES, counted, timed
from whimbrel.lab.harness.claims import order, saving
from whimbrel.lab.harness.contenders import Series
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, TimedWorks, per_subscription
from whimbrel.lab.harness.panels import STEPS_OVER_SIZE, TIME_OVER_SIZE

SERIES: Series = {
    "plain tree": ("equality_tree", PLAIN),
    "collapsed": ("equality_tree", COLLAPSED),
}


def measure(point: Point) -> TimedWorks:
    """The tree with and without chains, and the engine."""
    return timed(point, SERIES)


def count(point: Point) -> CountedRows:
    """Nodes visited with and without chains."""
    return counted(point, SERIES, {"steps": "nodes_visited"})


EXPERIMENT = Experiment(
    name="gryphon-collapse",
    paper="Gryphon",
    figure="section 5.1",
    question="What does it save to collapse chains of nodes that test nothing?",
    why="With 30 attributes most levels of a path are `*`; a collapsed tree jumps over them.",
    scales=SIZES,
    timed=measure,
    counted=count,
    memory=per_subscription(4_000),
    panels=(
        TIME_OVER_SIZE,
        STEPS_OVER_SIZE,
    ),
    claims=(
        order("The collapsed tree is faster", "time", "collapsed", "plain tree"),
        saving("Collapsing saves about 60 % of the time", "time", "collapsed", "plain tree", 0.6),
    ),
)
