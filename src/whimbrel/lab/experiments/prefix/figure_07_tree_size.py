"""Figure 7: size and height of the routing tree against the number of filters."""

from __future__ import annotations

from whimbrel.lab.experiments.prefix.grown_trees import DISTRIBUTIONS, SETTING, paper_tree
from whimbrel.lab.harness.claims import slope, untestable
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel


def count(point: Point) -> CountedRows:
    """Nodes and height."""
    tree, _ = paper_tree(point)
    yield Row(str(point["distribution"]), "nodes", len(tree), "nodes")
    yield Row(str(point["distribution"]), "height", max(tree.levels()), "levels")


EXPERIMENT = Experiment(
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
    counted=count,
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
