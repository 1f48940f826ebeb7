"""Sections 5.1 to 5.3: collapsing chains of `*` saves about 60 % of the time, refined successor sets 20 % more."""

from __future__ import annotations

from whimbrel.lab.experiments.gryphon.matched_tree import COLLAPSED, PLAIN, SIZES, counted, timed
from whimbrel.lab.harness.claims import order, saving
from whimbrel.lab.harness.contenders import Series
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, TimedWorks, per_subscription
from whimbrel.lab.harness.panels import STEPS_OVER_SIZE, TIME_OVER_SIZE

CHAINS: Series = {
    "plain tree": ("equality_tree", PLAIN),
    "collapsed": ("equality_tree", COLLAPSED),
}


def measure_collapsing(point: Point) -> TimedWorks:
    """The tree with and without chains, and the engine."""
    return timed(point, CHAINS)


def count_collapsing(point: Point) -> CountedRows:
    """Nodes visited with and without chains."""
    return counted(point, CHAINS, {"steps": "nodes_visited"})


COLLAPSING = Experiment(
    name="gryphon-collapse",
    paper="Gryphon",
    figure="section 5.1",
    question="What does it save to collapse chains of nodes that test nothing?",
    why="With 30 attributes most levels of a path are `*`; a collapsed tree jumps over them.",
    scales=SIZES,
    timed=measure_collapsing,
    counted=count_collapsing,
    memory=per_subscription(4_000),
    panels=(TIME_OVER_SIZE, STEPS_OVER_SIZE),
    claims=(
        order("The collapsed tree is faster", "time", "collapsed", "plain tree"),
        saving("Collapsing saves about 60 % of the time", "time", "collapsed", "plain tree", 0.6),
    ),
)

SETS: Series = {
    "collapsed": ("equality_tree", COLLAPSED),
    "successor sets": ("equality_tree", {"aggressive": False}),
    "refined": ("equality_tree", {}),
}


def measure_successors(point: Point) -> TimedWorks:
    """The collapsed tree, then with successor sets, then with refined ones; and the engine."""
    return timed(point, SETS)


def count_successors(point: Point) -> CountedRows:
    """Nodes visited by each."""
    return counted(point, SETS, {"steps": "nodes_visited"})


SUCCESSORS = Experiment(
    name="gryphon-successors",
    paper="Gryphon",
    figure="sections 5.2 and 5.3",
    question="What do successor sets add to a collapsed tree?",
    why="A blocked node jumps to nodes that can still match. To read the lists costs about what the visits did.",
    scales=SIZES,
    timed=measure_successors,
    counted=count_successors,
    memory=per_subscription(5_000),
    panels=(TIME_OVER_SIZE, STEPS_OVER_SIZE),
    claims=(
        order("Refined successor sets visit fewer nodes than collapsing alone", "steps", "refined", "collapsed"),
        order("Refined successor sets are faster than collapsing alone", "time", "refined", "collapsed"),
        saving("They save about 20 % of the time", "time", "refined", "collapsed", 0.2),
    ),
)
