"""Figure 13: the share of false positives for the three distributions of filters and events."""

from __future__ import annotations

from whimbrel.lab.experiments.prefix.figure_12_false_positives import false_shares
from whimbrel.lab.experiments.prefix.grown_trees import DISTRIBUTIONS, SETTING
from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid
from whimbrel.lab.harness.panels import Panel
from whimbrel.overlay.simulation.paper_workload import Distribution


def count(point: Point) -> CountedRows:
    """All three at one point, so that claims can compare them."""
    for name in DISTRIBUTIONS:
        yield from false_shares(name, int(point["events"]), Distribution(name), 0.3)


EXPERIMENT = Experiment(
    name="prefix-13",
    paper="Prefix",
    figure="figure 13",
    question="Which distribution of filters makes the most false positives?",
    why="Where names are uniform, filters share little: a new one finds no node of its kind and stays near the root.",
    scales={
        "tiny": grid(events=[40]),
        "small": grid(events=[200, 600]),
        "paper": grid(events=[500, 1_000, 2_000]),
        "full": grid(events=[1_000, 4_000, 15_000]),
    },
    counted=count,
    memory=lambda point: 5e8 + 4e5 * float(point["events"]),
    panels=(
        Panel(
            "false positives", "events", "events, and as many filters", "false positives, % of arrivals", log_y=False
        ),
    ),
    claims=(
        order("Pareto has fewer false positives than uniform", "false positives", "pareto", "uniform"),
        order("Gaussian has fewer false positives than uniform", "false positives", "gaussian", "uniform"),
    ),
    notes=('The paper says that "normal" is worse, which must mean uniform (ERR-24a).', *SETTING),
)
