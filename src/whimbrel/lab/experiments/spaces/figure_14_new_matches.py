"""Figure 14: the time of an update against the number of subscriptions that begin to match."""

from __future__ import annotations

import numpy as np

from whimbrel.lab.experiments.spaces.population import SERIES, filled, memory
from whimbrel.lab.harness.claims import linear
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, grid
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.measure.timing import Times
from whimbrel.lab.workloads.regions import moved, points, region


def measure(point: Point) -> TimedWorks:
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


EXPERIMENT = Experiment(
    name="spaces-14",
    paper="Spaces",
    figure="figure 14",
    question="Is the time of an update in proportion to the matches that it makes?",
    why="Every bound between old and new value is a candidate, and a share of the candidates are new matches.",
    scales={
        "tiny": grid(subscriptions=[500], step=[1, 8, 32]),
        "small": grid(subscriptions=[10_000], step=[1, 2, 4, 8, 16, 32]),
        "paper": grid(subscriptions=[100_000], step=[1, 2, 4, 8, 12, 16, 24, 32, 48]),
        "full": grid(subscriptions=[1_000_000], step=[1, 2, 4, 8, 16, 32]),
    },
    timed=measure,
    memory=memory("subscriptions"),
    panels=(Panel("time", "new matches", "new matches per update", "CPU us per update", log_x=False, log_y=False),),
    claims=(linear("The time is linear in the number of new matches", "time", SERIES, "new matches"),),
)
