"""Figure 10: nodes of a forwarding prefix on each level."""

from __future__ import annotations

import numpy as np

from whimbrel.lab.experiments.prefix.figure_09_tree_levels import EXPERIMENT as TREE_LEVELS
from whimbrel.lab.experiments.prefix.grown_trees import NO_CLAIM, SETTING, paper_tree
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel


def count(point: Point) -> CountedRows:
    """Nodes by depth."""
    tree, events = paper_tree(point)
    found = np.concatenate(list(tree.prefixes(events)))
    for level, nodes in enumerate(np.bincount(found)[1:].tolist(), 1):
        yield Row(str(point["distribution"]), "nodes", nodes / len(events), "nodes per event", at={"level": level})


EXPERIMENT = Experiment(
    name="prefix-10",
    paper="Prefix",
    figure="figure 10",
    question="On which levels are the nodes of a prefix?",
    why="Every level asks for one more constraint, so fewer paths of the tree go on.",
    scales=TREE_LEVELS.scales,
    counted=count,
    memory=per_subscription(100_000),
    panels=(Panel("nodes", "level", "level, from the root", "nodes per event", log_x=False),),
    notes=(*SETTING, NO_CLAIM),
)
