"""A limit on the depth of prefixes: shorter ones, and events that go where nobody wants them."""

from __future__ import annotations

from whimbrel.lab.experiments.prefix.grown_trees import SETTING, false_arrivals, simulated
from whimbrel.lab.harness.claims import limit, slope
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel
from whimbrel.overlay.router.optimizer import OptimizerSettings
from whimbrel.overlay.router.prefix_router import PrefixSettings
from whimbrel.overlay.simulation.scenario import ScenarioOptions

STALE = 0.8
"""The threshold of an optimizer that seldom publishes."""


def count(point: Point) -> CountedRows:
    """With trees that are up to date when events come, and with trees that are stale."""
    size, depth = int(point["filters"]), int(point["depth"])
    fresh = PrefixSettings(depth, optimizer=OptimizerSettings(0.1))
    stale = PrefixSettings(depth, optimizer=OptimizerSettings(STALE, None))
    settings = {"fresh trees": (fresh, False), "stale trees": (stale, True)}
    for series, (prefix, together) in settings.items():
        report = simulated(ScenarioOptions(filters=size, events=size, together=together, prefix=prefix))
        yield from false_arrivals(series, report)
        yield Row(series, "prefix bytes", float(report["prefix_bytes"]), "bytes, median")


EXPERIMENT = Experiment(
    name="prefix-depth",
    paper="Prefix",
    figure="section 4.4, depth limit",
    question="How many false positives does a limit on the depth make, alone and with stale trees?",
    why="A node at the limit stands for all that is below it: the nearer to the root, the more it promises.",
    scales={
        "tiny": grid(filters=[40], depth=[1, 4]),
        "small": grid(filters=[400], depth=[1, 2, 4, 8]),
        "paper": grid(filters=[1_000], depth=[1, 2, 3, 4, 6, 8]),
        "full": grid(filters=[5_000], depth=[1, 2, 3, 4, 6, 8]),
    },
    counted=count,
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
