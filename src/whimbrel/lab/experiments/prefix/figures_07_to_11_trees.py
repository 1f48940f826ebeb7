"""Figures 7 to 11: the routing tree and the prefixes of 100 events, their size and levels; when a tree is published."""

from __future__ import annotations

import numpy as np

from whimbrel.lab.experiments.prefix.grown_trees import DISTRIBUTIONS, NO_CLAIM, SETTING, paper_tree
from whimbrel.lab.harness.claims import below_linear, order, ratio, slope, untestable
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Line, Panel
from whimbrel.overlay.simulation.paper_workload import Distribution, PaperWorkload
from whimbrel.overlay.tree.paths import Interest
from whimbrel.overlay.tree.routing_tree import RoutingTree

MILLION = 1_000_000
THRESHOLDS = [0.1, 0.3, 0.5, 0.8]


def count_tree(point: Point) -> CountedRows:
    """Nodes and height."""
    tree, _ = paper_tree(point)
    yield Row(str(point["distribution"]), "nodes", len(tree), "nodes")
    yield Row(str(point["distribution"]), "height", max(tree.levels()), "levels")


TREE_SIZE = Experiment(
    name="prefix-7",
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
    figure="figure 10",
    question="On which levels are the nodes of a prefix?",
    why="Every level asks for one more constraint, so fewer paths of the tree go on.",
    scales=TREE_LEVELS.scales,
    counted=count_prefix_levels,
    memory=per_subscription(100_000),
    panels=(Panel("nodes", "level", "level, from the root", "nodes per event", log_x=False),),
    notes=(*SETTING, NO_CLAIM),
)


def count_publishing(point: Point) -> CountedRows:
    """For each threshold the publications so far, the filters and nodes that the tree then had, and their halves."""
    decay, n = float(point["decay"]), int(point["n"])
    workload = PaperWorkload(Distribution.PARETO, seed=1)
    interests = [Interest(workload.filter()) for _ in range(n)]
    for threshold in THRESHOLDS:
        series, tree, updates = f"threshold {threshold:.0%}", RoutingTree(decay), list[int]()
        for number, interest in enumerate(interests, 1):
            tree.insert(interest.key, interest.paths)
            if tree.difference() > threshold:
                tree.mark_published()
                updates.append(number)
                yield Row(series, "updates so far", len(updates), "updates", at={"filters": number})
                yield Row(series, "nodes", len(tree), "nodes", at={"filters": number})
        early = sum(number <= n // 2 for number in updates)
        yield Row(series, "updates", len(updates), "updates")
        yield Row("first half", f"halves, {series}", early, "updates")
        yield Row("second half", f"halves, {series}", len(updates) - early, "updates")


TREE_PUBLISHING = Experiment(
    name="prefix-11",
    figure="figure 11",
    question="How often must a growing tree be published again?",
    why="The larger a tree, the more filters it takes to change a given share of it, above all near the root.",
    scales={
        "tiny": grid(n=[60], decay=[0.5]),
        "small": grid(n=[1_000], decay=[0.5, 1.0]),
        "paper": grid(n=[1_200], decay=[0.25, 0.5, 1.0]),
        "full": grid(n=[10_000], decay=[0.5, 1.0]),
    },
    counted=count_publishing,
    memory=per_subscription(100_000),
    panels=(
        Panel("updates so far", "filters", "filters", "updates so far", log_x=False, log_y=False,
              where=lambda row: row["decay"] == 0.5),
        Panel("nodes", "filters", "filters", "nodes of the tree when it is published", log_x=False, log_y=False,
              where=lambda row: row["decay"] == 0.5),
    ),
    claims=(
        order("Fewer updates come as the tree grows (threshold 30 %)", "halves, threshold 30%", "second half",
              "first half"),
        ratio("At a threshold of 30 % there are 84 / 19 = 4.4 times the updates of 80 %", "updates", "threshold 30%",
              "threshold 80%", 84 / 19),
    ),
    notes=(
        "The paper counts 84 and 19 updates for a tree of about 20,000 nodes.",
        "Its definition of the difference of trees is lost: the weight of a level falls by the factor `decay`.",
        *SETTING,
    ),
)  # fmt: skip
