"""Figures 12 to 14: the time to update a publication of 25 constraints, by its step and by what it then matches."""

from __future__ import annotations

import numpy as np

from whimbrel.lab.experiments.spaces.operations import SERIES, insertion, memory, new_points, updates
from whimbrel.lab.harness.claims import linear, order, slope
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, grid
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.measure.timing import Times
from whimbrel.lab.workloads.regions import filled, moved, points, region

COUNT = 20
OVER_SUBSCRIPTIONS = Panel("time", "subscriptions", "subscriptions", "CPU us per operation")


def measure_random(point: Point) -> TimedWorks:
    """Random updates, and for comparison adding a publication of 25 constraints."""
    spaces = filled(1_000, int(point["subscriptions"]), 25)
    yield updates(spaces, None, range(COUNT), "random update")
    yield insertion(spaces, new_points(COUNT, 25), "new publication")


RANDOM_UPDATES = Experiment(
    name="spaces-12",
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
    panels=(OVER_SUBSCRIPTIONS,),
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
    figure="figure 13",
    question="How much less does a small update take?",
    why="The index scans only the bounds between the old and the new value: a hundredth of them for a step of one.",
    scales=RANDOM_UPDATES.scales,
    timed=measure_small,
    memory=memory("subscriptions"),
    panels=(OVER_SUBSCRIPTIONS,),
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


def measure_new_matches(point: Point) -> TimedWorks:
    """Updates by steps of one length, each with its own time and number of new matches; the medians of both.

    An update takes a fraction of a millisecond, so there are many of them. The spread leaves out a tenth at each end.
    """
    rng = np.random.default_rng(int(point["step"]))
    spaces = filled(0, int(point["subscriptions"]), 25)
    times, told = Times(), []
    count = 30 if int(point["subscriptions"]) <= 1_000 else 300
    for number, row in enumerate(points(count, 25, rng)):
        at = region(row)
        spaces.publish(number, [at])
        new = moved(at, int(point["step"]), rng)
        found = times.of(lambda key=number, to=new: spaces.update_publication(key, to))  # type: ignore[misc]
        told.append(len(found))
    us = sorted(seconds * 1e6 for seconds in times.cpu)
    place = {"new matches": float(np.median(told))}
    yield Row(
        SERIES, "time", times.median_cpu * 1e6, "us per update", us[len(us) // 10], us[-len(us) // 10], len(us), place
    )


NEW_MATCHES = Experiment(
    name="spaces-14",
    figure="figure 14",
    question="Is the time of an update in proportion to the matches that it makes?",
    why="Every bound between old and new value is a candidate, and a share of the candidates are new matches.",
    scales={
        "tiny": grid(subscriptions=[500], step=[1, 8, 32]),
        "small": grid(subscriptions=[10_000], step=[1, 2, 4, 8, 16, 32]),
        "paper": grid(subscriptions=[100_000], step=[1, 2, 4, 8, 12, 16, 24, 32, 48]),
        "full": grid(subscriptions=[1_000_000], step=[1, 2, 4, 8, 16, 32]),
    },
    timed=measure_new_matches,
    memory=memory("subscriptions"),
    panels=(Panel("time", "new matches", "new matches per update", "CPU us per update", log_x=False, log_y=False),),
    claims=(linear("The time is linear in the number of new matches", "time", SERIES, "new matches"),),
)
