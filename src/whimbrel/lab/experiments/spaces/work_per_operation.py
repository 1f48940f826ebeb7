"""Tables 1 and 2: what adding and updating a publication costs, counted, beside the cost functions."""

from __future__ import annotations

import numpy as np

from whimbrel.lab.experiments.spaces.operations import memory, new_points
from whimbrel.lab.harness.claims import ratio, slope
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.space_cost import SpacePopulation
from whimbrel.lab.workloads.regions import filled, moved
from whimbrel.spaces import SubjectSpaces

COUNT = 20
CONSTRAINTS = 25


def count(point: Point) -> CountedRows:
    """Entries passed and regions checked, for new publications and for moves by one step in every dimension."""
    size = int(point["subscriptions"])
    spaces, rng = filled(0, size, CONSTRAINTS), np.random.default_rng(22)
    points = new_points(COUNT + 1, CONSTRAINTS)
    spaces.publish(-1, [points.pop()])  # the first search makes the lists
    spaces.delete_publication(-1)
    before = spaces.work()
    for number, at in enumerate(points):
        spaces.publish(number, [at])
    yield from _counted("new publication", spaces, before)
    before = spaces.work()
    for number, at in enumerate(points):
        spaces.update_publication(number, moved(at, 1, rng))
    yield from _counted("update by one step", spaces, before)
    population = SpacePopulation(size, 2)
    yield Row("expected, new publication", "entries", population.expected_elimination(CONSTRAINTS), "per operation")
    yield Row("expected, update", "entries", population.expected_crossing(CONSTRAINTS, 1), "per operation")


def _counted(series: str, spaces: SubjectSpaces, before: dict[str, int]) -> CountedRows:
    found = {name: value - before[name] for name, value in spaces.work().items()}
    entries = sum(value for name, value in found.items() if name.endswith("_entries"))
    yield Row(series, "entries", entries / COUNT, "per operation")
    yield Row(series, "candidates", found["candidates"] / COUNT, "per operation")


EXPERIMENT = Experiment(
    name="spaces-work",
    figure="tables 1 and 2",
    question="How many entries of ordered lists does an operation pass, and how many regions does it check?",
    why="A new region rules out all that is disjoint from it; a step crosses only the bounds at one value.",
    scales={
        "tiny": grid(subscriptions=[3_000, 6_000]),
        "small": grid(subscriptions=[3_000, 10_000, 50_000]),
        "paper": grid(subscriptions=[3_000, 10_000, 30_000, 100_000]),
        "full": grid(subscriptions=[10_000, 100_000, 1_000_000]),
    },
    counted=count,
    memory=memory("subscriptions"),
    panels=(
        Panel("entries", "subscriptions", "subscriptions", "entries passed per operation"),
        Panel("candidates", "subscriptions", "subscriptions", "regions checked per operation"),
    ),
    claims=(
        slope("The cost of adding does not depend on the number of subscriptions", "entries", "new publication",
              "subscriptions", 0.0),
        ratio("Ours: a new publication passes the entries of the cost function", "entries", "new publication",
              "expected, new publication", 1.0),
        ratio("Ours: an update passes the entries of the cost function", "entries", "update by one step",
              "expected, update", 1.0),
    ),
    notes=(
        "The tables are rebuilt from the algorithms, corrected. The first claim is the one that ERR-19g doubts.",
        "Publications of 25 constraints, subscriptions of two with width 10 (AMB-20a).",
    ),
)  # fmt: skip
