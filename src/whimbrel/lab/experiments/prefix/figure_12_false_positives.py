"""Figure 12: the share of false positives against events, for several thresholds of the tree optimizer."""

from __future__ import annotations

from whimbrel.lab.experiments.prefix.grown_trees import SETTING, false_arrivals, simulated
from whimbrel.lab.harness.claims import limit
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid
from whimbrel.lab.harness.panels import Line, Panel
from whimbrel.overlay.router.optimizer import OptimizerSettings
from whimbrel.overlay.router.prefix_router import PrefixSettings
from whimbrel.overlay.simulation.paper_workload import Distribution
from whimbrel.overlay.simulation.scenario import ScenarioOptions

THRESHOLDS = [0.1, 0.3, 0.8]


def count(point: Point) -> CountedRows:
    """Filters and events come together, as many of each; trees are published by the threshold alone."""
    threshold = float(point["threshold"])
    return false_shares(f"threshold {threshold:.0%}", int(point["events"]), Distribution.PARETO, threshold)


def false_shares(series: str, events: int, distribution: Distribution, threshold: float) -> CountedRows:
    """Simulate as many filters as events, which come together; the rows of `false_arrivals`."""
    settings = PrefixSettings(optimizer=OptimizerSettings(threshold, None))
    options = ScenarioOptions(filters=events, events=events, together=True, distribution=distribution, prefix=settings)
    return false_arrivals(series, simulated(options))


EXPERIMENT = Experiment(
    name="prefix-12",
    paper="Prefix",
    figure="figure 12",
    question="How many events go to a router that wants them not, because its tree is stale?",
    why="A filter that is younger than the tree is kept at an ancestor of its place, where more events come by.",
    scales={
        "tiny": grid(events=[40], threshold=[0.3]),
        "small": grid(events=[200, 600], threshold=[0.3, 0.8]),
        "paper": grid(events=[500, 1_000, 2_000, 4_000], threshold=THRESHOLDS),
        "full": grid(events=[1_000, 4_000, 15_000], threshold=THRESHOLDS),
    },
    counted=count,
    memory=lambda point: 5e8 + 2e5 * float(point["events"]),
    panels=(
        Panel("false positives", "events", "events, and as many filters", "false positives, % of arrivals",
              log_y=False, lines=(Line("below 1 % after 15,000 events", y=1.0),)),
    ),
    claims=(
        limit("Below 1 % after 15,000 events", "false positives", "threshold 30%", 1.0,
              where=lambda row: row["events"] >= 15_000),
        limit("No event is lost", "false negatives", "threshold 30%", 0.0),
    ),
    notes=("27 routers in a tree, 9 subscribers, 9 publishers; the paper does not give its topology.", *SETTING),
)  # fmt: skip
