"""Figure 13: the time to update a publication by a step of one in each of its 25 dimensions."""

from __future__ import annotations

from whimbrel.lab.experiments.spaces.figure_12_random_updates import COUNT
from whimbrel.lab.experiments.spaces.figure_12_random_updates import EXPERIMENT as RANDOM_UPDATES
from whimbrel.lab.experiments.spaces.population import filled, memory, updates
from whimbrel.lab.harness.claims import order, slope
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks
from whimbrel.lab.harness.panels import Panel


def measure(point: Point) -> TimedWorks:
    """Small and random updates."""
    spaces = filled(1_000, int(point["subscriptions"]), 25)
    yield updates(spaces, 1, range(COUNT), "update by 1")
    yield updates(spaces, None, range(COUNT, 2 * COUNT), "random update")


EXPERIMENT = Experiment(
    name="spaces-13",
    paper="Spaces",
    figure="figure 13",
    question="How much less does a small update take?",
    why="The index scans only the bounds between the old and the new value: a hundredth of them for a step of one.",
    scales=RANDOM_UPDATES.scales,
    timed=measure,
    memory=memory("subscriptions"),
    panels=(Panel("time", "subscriptions", "subscriptions", "CPU us per operation"),),
    claims=(
        order("A small update is faster than a random one", "time", "update by 1", "random update"),
        slope("A small update costs the same among any number of subscriptions", "time", "update by 1",
              "subscriptions", 0.0),
    ),
    notes=(
        "Among fewer than some 10,000 subscriptions a call costs more than what it searches.",
        "The paper claims of all updates that they do not depend on subscriptions; ERR-19g says where that holds.",
    ),
)  # fmt: skip
