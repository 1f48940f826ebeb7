"""Figure 8: size and height of forwarding prefixes against the number of filters, the mean of 100 events."""

from __future__ import annotations

from whimbrel.lab.experiments.prefix.figure_07_tree_size import EXPERIMENT as TREES
from whimbrel.lab.experiments.prefix.grown_trees import DISTRIBUTIONS, SETTING, paper_tree
from whimbrel.lab.harness.claims import below_linear, ratio
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Line, Panel

MILLION = 1_000_000


def count(point: Point) -> CountedRows:
    """Mean nodes and levels of a prefix, and the largest prefix."""
    tree, events = paper_tree(point)
    found = list(tree.prefixes(events))
    series = str(point["distribution"])
    yield Row(series, "prefix", sum(map(len, found)) / len(found), "nodes, mean of 100 events")
    yield Row(series, "largest prefix", max(map(len, found)), "nodes", at={"tree nodes": len(tree)})
    yield Row("paper", "largest prefix", 150, "nodes", at={"tree nodes": len(tree)})
    yield Row(series, "height", sum(int(one.max(initial=0)) for one in found) / len(found), "levels")


EXPERIMENT = Experiment(
    name="prefix-8",
    paper="Prefix",
    figure="figure 8",
    question="How large is the prefix that travels with an event?",
    why="An event satisfies few of the constraints near the root, and nothing below a node that it fails.",
    scales=TREES.scales,
    counted=count,
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
