"""Section 5.2 for the general tree: successor sets with tests of any kind."""

from __future__ import annotations

from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.contenders import Series, counting, racing
from whimbrel.lab.harness.experiment import Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import Workload, make

SERIES: Series = {
    "general tree": ("gryphon_tree", {}),
    "with successor sets": ("gryphon_tree", {"successors": True}),
}


def workload_of(point: Point) -> Workload:
    """Equalities and ranges: Le Subscribe's workload, which the equality tree does not take."""
    return make("lesubscribe", n=int(point["n"]), p=0.5, events=200)


EXPERIMENT = Experiment(
    name="gryphon-general",
    paper="Gryphon",
    figure="section 5.2, general case",
    question="What do successor sets save in a tree of tests of any kind?",
    why="A test rules out little where it compares: most `*` edges have to be followed, now or later.",
    scales={
        "tiny": grid(n=[200, 500]),
        "small": grid(n=[500, 2_000]),
        "paper": grid(n=[500, 2_000, 5_000, 10_000]),
        "full": grid(n=[2_000, 10_000, 50_000]),
    },
    timed=racing(SERIES, workload_of),
    counted=counting(SERIES, workload_of, {"steps": "nodes_visited", "bytes": "bytes"}),
    memory=per_subscription(20_000),
    panels=(
        Panel("time", "n", "subscriptions, p = 0.5", "CPU us per event"),
        Panel("steps", "n", "subscriptions, p = 0.5", "nodes visited per event"),
    ),
    claims=(
        order("Ours: successor sets visit fewer nodes here, too", "steps", "with successor sets", "general tree"),
        order("Ours: and are faster", "time", "with successor sets", "general tree"),
    ),
    notes=("The paper defines the general case and measures the equality tree only; see AMB-5a in papers.md.",),
)  # fmt: skip
