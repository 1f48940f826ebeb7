"""Figures 7 to 10: size, height and levels of the routing tree, and of the prefixes of 100 events."""

from __future__ import annotations

import numpy as np

from whimbrel.lab.experiments.prefix.grown_trees import DISTRIBUTIONS, NO_CLAIM, SETTING, paper_tree
from whimbrel.lab.harness.claims import below_linear, ratio, slope, untestable
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Line, Panel


def count_tree(point: Point) -> CountedRows:
    """Nodes and height."""
    tree, _ = paper_tree(point)
    yield Row(str(point["distribution"]), "nodes", len(tree), "nodes")
    yield Row(str(point["distribution"]), "height", max(tree.levels()), "levels")


TREE_SIZE = Experiment(
    name="prefix-7",
    paper="Prefix",
    figure="figure 7",
    question="How large and how high does the routing tree get?",
    why="A filter that overlaps others in part is split among them, so a tree has several nodes for each constraint.",
    scales={
        "tiny": grid(distribution=DISTRIBUTIONS, n=[20, 60]),
        "small": grid(distribution=DISTRIBUTIONS, n=[100, 300, 1_000]),
        "paper": grid(distribution=DISTRIBUTIONS, n=[100, 300, 1_000, 3_000, 10_000]),
        "full": grid(distribution=DISTRIBUTIONS, n=[1_000, 3_000, 10_000, 30_000]),
    },
    counted=count_tree,
    memory=per_subscription(100_000),
    panels=(
        Panel("nodes", "n", "filters", "nodes of the routing tree"),
        Panel("height", "n", "filters", "height, levels", log_y=False),
    ),
    claims=(
        *(
            slope(f"Ours: the height hardly grows with filters ({name})", "height", name, "n", 0.0)
            for name in DISTRIBUTIONS
        ),
        untestable("The largest tree has close to a million nodes", "the paper does not say of how many filters"),
    ),
    notes=SETTING,
)

MILLION = 1_000_000


def count_prefixes(point: Point) -> CountedRows:
    """Mean nodes and levels of a prefix, and the largest prefix."""
    tree, events = paper_tree(point)
    found = list(tree.prefixes(events))
    series = str(point["distribution"])
    yield Row(series, "prefix", sum(map(len, found)) / len(found), "nodes, mean of 100 events")
    yield Row(series, "largest prefix", max(map(len, found)), "nodes", at={"tree nodes": len(tree)})
    yield Row("paper", "largest prefix", 150, "nodes", at={"tree nodes": len(tree)})
    yield Row(series, "height", sum(int(one.max(initial=0)) for one in found) / len(found), "levels")


PREFIX_SIZE = Experiment(
    name="prefix-8",
    paper="Prefix",
    figure="figure 8",
    question="How large is the prefix that travels with an event?",
    why="An event satisfies few of the constraints near the root, and nothing below a node that it fails.",
    scales=TREE_SIZE.scales,
    counted=count_prefixes,
    memory=per_subscription(100_000),
    panels=(
        Panel("prefix", "n", "filters", "nodes of a prefix, mean", lines=(Line("largest, 150", y=150),)),
        Panel("height", "n", "filters", "height of a prefix, levels", log_y=False),
    ),
    claims=tuple(
        claim
        for name in DISTRIBUTIONS
        for claim in (
            ratio(
                f"In a tree of a million nodes a prefix has up to 150 ({name})", "largest prefix", name, "paper", 1.0,
                where=lambda row: row["tree nodes"] >= MILLION / 2,
            ),
            below_linear(f"Ours: a prefix grows more slowly than filters do ({name})", "prefix", name),
        )
    ),
    notes=SETTING,
)  # fmt: skip


def count_tree_levels(point: Point) -> CountedRows:
    """Nodes by depth."""
    tree, _ = paper_tree(point)
    for level, nodes in tree.levels().items():
        yield Row(str(point["distribution"]), "nodes", nodes, "nodes", at={"level": level})


TREE_LEVELS = Experiment(
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
    counted=count_tree_levels,
    memory=per_subscription(100_000),
    panels=(Panel("nodes", "level", "level, from the root", "nodes", log_x=False),),
    notes=(*SETTING, NO_CLAIM),
)


def count_prefix_levels(point: Point) -> CountedRows:
    """Nodes by depth."""
    tree, events = paper_tree(point)
    found = np.concatenate(list(tree.prefixes(events)))
    for level, nodes in enumerate(np.bincount(found)[1:].tolist(), 1):
        yield Row(str(point["distribution"]), "nodes", nodes / len(events), "nodes per event", at={"level": level})


PREFIX_LEVELS = Experiment(
    name="prefix-10",
    paper="Prefix",
    figure="figure 10",
    question="On which levels are the nodes of a prefix?",
    why="Every level asks for one more constraint, so fewer paths of the tree go on.",
    scales=TREE_LEVELS.scales,
    counted=count_prefix_levels,
    memory=per_subscription(100_000),
    panels=(Panel("nodes", "level", "level, from the root", "nodes per event", log_x=False),),
    notes=(*SETTING, NO_CLAIM),
)
