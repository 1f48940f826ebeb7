"""Figure 9: nodes of the routing tree on each level."""

from __future__ import annotations

from whimbrel.lab.experiments.prefix.grown_trees import DISTRIBUTIONS, NO_CLAIM, SETTING, paper_tree
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel


def count(point: Point) -> CountedRows:
    """Nodes by depth."""
    tree, _ = paper_tree(point)
    for level, nodes in tree.levels().items():
        yield Row(str(point["distribution"]), "nodes", nodes, "nodes", at={"level": level})


EXPERIMENT = Experiment(
    name="prefix-9",
    paper="Prefix",
    figure="figure 9",
    question="On which levels are the nodes of the routing tree?",
    why="Each level splits what is left of a filter; most filters end after four or five constraints.",
    scales={
        "tiny": grid(distribution=DISTRIBUTIONS, n=[60]),
        "small": grid(distribution=DISTRIBUTIONS, n=[1_000]),
        "paper": grid(distribution=DISTRIBUTIONS, n=[10_000]),
        "full": grid(distribution=DISTRIBUTIONS, n=[30_000]),
    },
    counted=count,
    memory=per_subscription(100_000),
    panels=(Panel("nodes", "level", "level, from the root", "nodes", log_x=False),),
    notes=(*SETTING, NO_CLAIM),
)
