"""Figures 12 and 13: the time to update a publication of 25 constraints, anywhere or by a step of one."""

from __future__ import annotations

from whimbrel.lab.experiments.spaces.population import filled, insertion, memory, new_points, updates
from whimbrel.lab.harness.claims import order, slope
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, grid
from whimbrel.lab.harness.panels import Panel

COUNT = 20


def measure_random(point: Point) -> TimedWorks:
    """Random updates, and for comparison adding a publication of 25 constraints."""
    spaces = filled(1_000, int(point["subscriptions"]), 25)
    yield updates(spaces, None, range(COUNT), "random update")
    yield insertion(spaces, new_points(COUNT, 25), "new publication")


RANDOM_UPDATES = Experiment(
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
    timed=measure_random,
    memory=memory("subscriptions"),
    panels=(Panel("time", "subscriptions", "subscriptions", "CPU us per operation"),),
    claims=(
        slope("Ours: the time grows no faster than the subscriptions", "time", "random update", "subscriptions", 1.0,
              at_most=True),
        order("Ours: an update costs no more than a new publication", "time", "random update", "new publication"),
    ),
)  # fmt: skip


def measure_small(point: Point) -> TimedWorks:
    """Small and random updates."""
    spaces = filled(1_000, int(point["subscriptions"]), 25)
    yield updates(spaces, 1, range(COUNT), "update by 1")
    yield updates(spaces, None, range(COUNT, 2 * COUNT), "random update")


SMALL_UPDATES = Experiment(
    name="spaces-13",
    paper="Spaces",
    figure="figure 13",
    question="How much less does a small update take?",
    why="The index scans only the bounds between the old and the new value: a hundredth of them for a step of one.",
    scales=RANDOM_UPDATES.scales,
    timed=measure_small,
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
