"""Figures 12 and 13, false positives with stale trees; a limit on depth, and the traffic of tree updates: simulated."""

from __future__ import annotations

from whimbrel.lab.experiments.prefix.grown_trees import DISTRIBUTIONS, SETTING
from whimbrel.lab.harness.claims import limit, order, slope
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Line, Panel
from whimbrel.overlay.router.optimizer import OptimizerSettings
from whimbrel.overlay.router.prefix_router import PrefixSettings
from whimbrel.overlay.simulation.paper_workload import Distribution
from whimbrel.overlay.simulation.scenario import Scenario, ScenarioOptions
from whimbrel.overlay.simulation.simulate import Report, Simulation

THRESHOLDS = [0.1, 0.3, 0.8]
STALE = 0.8
"""The threshold of an optimizer that seldom publishes."""


def simulated(options: ScenarioOptions) -> Report:
    """The figures of a simulation with prefix routers."""
    return Simulation(Scenario(options)).run("prefix").report


def false_arrivals(series: str, report: Report) -> CountedRows:
    """The share of arrivals that were false positives, and the events that were lost."""
    arrived = float(report["hops_per_event"]) * float(report["events"])
    yield Row(series, "false positives", 100 * float(report["false_positives"]) / max(arrived, 1.0), "% of arrivals")
    yield Row(series, "false negatives", float(report["false_negatives"]), "events")


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
    figure="figure 12",
    question="How many events go to a router that does not want them, because its tree is stale?",
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


def count_by_depth(point: Point) -> CountedRows:
    """With trees that are up to date when events come, and with trees that are stale."""
    size, depth = int(point["filters"]), int(point["depth"])
    fresh = PrefixSettings(depth, optimizer=OptimizerSettings(0.1))
    stale = PrefixSettings(depth, optimizer=OptimizerSettings(STALE, None))
    settings = {"fresh trees": (fresh, False), "stale trees": (stale, True)}
    for series, (prefix, together) in settings.items():
        report = simulated(ScenarioOptions(filters=size, events=size, together=together, prefix=prefix))
        yield from false_arrivals(series, report)
        yield Row(series, "prefix bytes", float(report["prefix_bytes"]), "bytes, median")


BY_DEPTH = Experiment(
    name="prefix-depth",
    figure="section 4.4, depth limit",
    question="How many false positives does a limit on the depth make, alone and with stale trees?",
    why="A node at the limit stands for all that is below it: the nearer to the root, the more it promises.",
    scales={
        "tiny": grid(filters=[40], depth=[1, 4]),
        "small": grid(filters=[400], depth=[1, 2, 4, 8]),
        "paper": grid(filters=[1_000], depth=[1, 2, 3, 4, 6, 8]),
        "full": grid(filters=[5_000], depth=[1, 2, 3, 4, 6, 8]),
    },
    counted=count_by_depth,
    memory=lambda point: 5e8 + 4e5 * float(point["filters"]),
    panels=(
        Panel("false positives", "depth", "depth limit of prefixes, levels", "false positives, % of arrivals",
              log_x=False, log_y=False),
        Panel("prefix bytes", "depth", "depth limit of prefixes, levels", "bytes of a prefix, median", log_x=False,
              log_y=False),
    ),
    claims=(
        limit("A limit loses no event", "false negatives", "fresh trees", 0.0),
        limit("Nor does it with stale trees", "false negatives", "stale trees", 0.0),
        slope("The deeper the limit, the fewer false positives", "false positives", "fresh trees", "depth", -0.2,
              at_most=True),
    ),
    notes=SETTING,
)  # fmt: skip


def count_updates(point: Point) -> CountedRows:
    """Messages and bytes of tree updates on all links, and messages of filters."""
    settings = PrefixSettings(optimizer=OptimizerSettings(float(point["threshold"]), None))
    size = int(point["filters"])
    report = simulated(ScenarioOptions(filters=size, events=size // 10, together=True, prefix=settings))
    yield Row("tree updates", "messages", float(report["tree_updates"]), "messages on all links")
    yield Row("filters", "messages", float(report["filter_messages"]), "messages on all links")
    yield Row("tree updates", "bytes", float(report["tree_update_bytes"]) / size, "bytes per filter, all links")


TREE_UPDATES = Experiment(
    name="prefix-updates",
    figure="section 5, traffic",
    question="How much traffic do updates of the tree make?",
    why="An update carries the filters that came since the last one, so bytes hardly depend on how often it comes.",
    scales={
        "tiny": grid(filters=[40], threshold=[0.1, 0.8]),
        "small": grid(filters=[400], threshold=[0.1, 0.3, 0.8]),
        "paper": grid(filters=[1_000], threshold=[0.05, 0.1, 0.2, 0.3, 0.5, 0.8]),
        "full": grid(filters=[10_000], threshold=[0.05, 0.1, 0.3, 0.8]),
    },
    counted=count_updates,
    memory=lambda point: 5e8 + 2e5 * float(point["filters"]),
    panels=(
        Panel("messages", "threshold", "threshold of difference", "messages on all links"),
        Panel("bytes", "threshold", "threshold of difference", "bytes per filter, all links", log_y=False),
    ),
    claims=(
        slope("Larger thresholds make fewer updates", "messages", "tree updates", "threshold", -0.2, at_most=True),
    ),
    notes=SETTING,
)
