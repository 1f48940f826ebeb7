"""Figure 11: when the tree optimizer publishes the tree, for two thresholds of difference."""

from __future__ import annotations

from whimbrel.lab.experiments.prefix.grown_trees import SETTING
from whimbrel.lab.harness.claims import order, ratio
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel
from whimbrel.overlay.simulation.paper_workload import Distribution, PaperWorkload
from whimbrel.overlay.tree.paths import Interest
from whimbrel.overlay.tree.routing_tree import RoutingTree

THRESHOLDS = [0.1, 0.3, 0.5, 0.8]


def count(point: Point) -> CountedRows:
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


EXPERIMENT = Experiment(
    name="prefix-11",
    paper="Prefix",
    figure="figure 11",
    question="How often must a growing tree be published again?",
    why="The larger a tree, the more filters it takes to change a given share of it, above all near the root.",
    scales={
        "tiny": grid(n=[60], decay=[0.5]),
        "small": grid(n=[1_000], decay=[0.5, 1.0]),
        "paper": grid(n=[1_200], decay=[0.25, 0.5, 1.0]),
        "full": grid(n=[10_000], decay=[0.5, 1.0]),
    },
    counted=count,
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
