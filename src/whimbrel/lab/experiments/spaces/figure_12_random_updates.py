"""Figure 12: the time to update a publication, all 25 constraints of which take new random values."""

from __future__ import annotations

from whimbrel.lab.experiments.spaces.population import filled, insertion, memory, new_points, updates
from whimbrel.lab.harness.claims import order, slope
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, grid
from whimbrel.lab.harness.panels import Panel

COUNT = 20


def measure(point: Point) -> TimedWorks:
    """Random updates, and for comparison adding a publication of 25 constraints."""
    spaces = filled(1_000, int(point["subscriptions"]), 25)
    yield updates(spaces, None, range(COUNT), "random update")
    yield insertion(spaces, new_points(COUNT, 25), "new publication")


EXPERIMENT = Experiment(
    name="spaces-12",
    paper="Spaces",
    figure="figure 12",
    question="How long does an update take that moves a publication anywhere?",
    why="A random move crosses a third of all bounds in each dimension; what is crossed must be looked at.",
    scales={
        "tiny": grid(subscriptions=[10, 500]),
        "small": grid(subscriptions=[100, 1_000, 10_000]),
        "paper": grid(subscriptions=[10, 100, 1_000, 10_000, 100_000]),
        "full": grid(subscriptions=[1_000, 10_000, 100_000, 1_000_000]),
    },
    timed=measure,
    memory=memory("subscriptions"),
    panels=(Panel("time", "subscriptions", "subscriptions", "CPU us per operation"),),
    claims=(
        slope("Ours: the time grows no faster than the subscriptions", "time", "random update", "subscriptions", 1.0,
              at_most=True),
        order("Ours: an update costs no more than a new publication", "time", "random update", "new publication"),
    ),
)  # fmt: skip
