"""Traffic of tree updates: what publishing the tree costs, beside the filters themselves."""

from __future__ import annotations

from whimbrel.lab.experiments.prefix.grown_trees import SETTING, simulated
from whimbrel.lab.harness.claims import slope
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel
from whimbrel.overlay.router.optimizer import OptimizerSettings
from whimbrel.overlay.router.prefix_router import PrefixSettings
from whimbrel.overlay.simulation.scenario import ScenarioOptions


def count(point: Point) -> CountedRows:
    """Messages and bytes of tree updates on all links, and messages of filters."""
    settings = PrefixSettings(optimizer=OptimizerSettings(float(point["threshold"]), None))
    size = int(point["filters"])
    report = simulated(ScenarioOptions(filters=size, events=size // 10, together=True, prefix=settings))
    yield Row("tree updates", "messages", float(report["tree_updates"]), "messages on all links")
    yield Row("filters", "messages", float(report["filter_messages"]), "messages on all links")
    yield Row("tree updates", "bytes", float(report["tree_update_bytes"]) / size, "bytes per filter, all links")


EXPERIMENT = Experiment(
    name="prefix-updates",
    paper="Prefix",
    figure="section 5, traffic",
    question="How much traffic do updates of the tree make?",
    why="An update carries the filters that came since the last one, so bytes hardly depend on how often it comes.",
    scales={
        "tiny": grid(filters=[40], threshold=[0.1, 0.8]),
        "small": grid(filters=[400], threshold=[0.1, 0.3, 0.8]),
        "paper": grid(filters=[1_000], threshold=[0.05, 0.1, 0.2, 0.3, 0.5, 0.8]),
        "full": grid(filters=[10_000], threshold=[0.05, 0.1, 0.3, 0.8]),
    },
    counted=count,
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
