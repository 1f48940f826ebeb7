"""Figures 12 and 13: false positives with stale trees, by the optimizer's threshold and by distribution."""

from __future__ import annotations

from whimbrel.lab.experiments.prefix.grown_trees import DISTRIBUTIONS, SETTING, false_arrivals, simulated
from whimbrel.lab.harness.claims import limit, order
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid
from whimbrel.lab.harness.panels import Line, Panel
from whimbrel.overlay.router.optimizer import OptimizerSettings
from whimbrel.overlay.router.prefix_router import PrefixSettings
from whimbrel.overlay.simulation.paper_workload import Distribution
from whimbrel.overlay.simulation.scenario import ScenarioOptions

THRESHOLDS = [0.1, 0.3, 0.8]


def count_by_threshold(point: Point) -> CountedRows:
    """Filters and events come together, as many of each; trees are published by the threshold alone."""
    threshold = float(point["threshold"])
    return false_shares(f"threshold {threshold:.0%}", int(point["events"]), Distribution.PARETO, threshold)


def false_shares(series: str, events: int, distribution: Distribution, threshold: float) -> CountedRows:
    """Simulate as many filters as events, which come together; the rows of `false_arrivals`."""
    settings = PrefixSettings(optimizer=OptimizerSettings(threshold, None))
    options = ScenarioOptions(filters=events, events=events, together=True, distribution=distribution, prefix=settings)
    return false_arrivals(series, simulated(options))


BY_THRESHOLD = Experiment(
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
    counted=count_by_threshold,
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


def count_by_distribution(point: Point) -> CountedRows:
    """All three at one point, so that claims can compare them."""
    for name in DISTRIBUTIONS:
        yield from false_shares(name, int(point["events"]), Distribution(name), 0.3)


BY_DISTRIBUTION = Experiment(
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
    counted=count_by_distribution,
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
