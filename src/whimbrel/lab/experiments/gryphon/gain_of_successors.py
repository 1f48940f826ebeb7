"""Sections 5.2 and 5.3: successor sets with aggressive refinement give about 20 % more speed."""

from __future__ import annotations

from whimbrel.lab.experiments.gryphon.matched_tree import COLLAPSED, SIZES, counted, timed
from whimbrel.lab.harness.claims import order, saving
from whimbrel.lab.harness.contenders import Series
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, TimedWorks, per_subscription
from whimbrel.lab.harness.panels import STEPS_OVER_SIZE, TIME_OVER_SIZE

SERIES: Series = {
    "collapsed": ("equality_tree", COLLAPSED),
    "successor sets": ("equality_tree", {"aggressive": False}),
    "refined": ("equality_tree", {}),
}


def measure(point: Point) -> TimedWorks:
    """The collapsed tree, then with successor sets, then with refined ones; and the engine."""
    return timed(point, SERIES)


def count(point: Point) -> CountedRows:
    """Nodes visited by each."""
    return counted(point, SERIES, {"steps": "nodes_visited"})


EXPERIMENT = Experiment(
    name="gryphon-successors",
    paper="Gryphon",
    figure="sections 5.2 and 5.3",
    question="What do successor sets add to a collapsed tree?",
    why="A blocked node jumps to nodes that can still match. To read the lists costs about what the visits did.",
    scales=SIZES,
    timed=measure,
    counted=count,
    memory=per_subscription(5_000),
    panels=(
        TIME_OVER_SIZE,
        STEPS_OVER_SIZE,
    ),
    claims=(
        order("Refined successor sets visit fewer nodes than collapsing alone", "steps", "refined", "collapsed"),
        order("Refined successor sets are faster than collapsing alone", "time", "refined", "collapsed"),
        saving("They save about 20 % of the time", "time", "refined", "collapsed", 0.2),
    ),
)
