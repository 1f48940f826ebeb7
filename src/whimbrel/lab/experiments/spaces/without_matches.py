"""A publication that nothing matches costs the same among millions of subscriptions."""

from __future__ import annotations

import numpy as np

from whimbrel.lab.experiments.spaces.population import AT_ONCE, insertion
from whimbrel.lab.harness.claims import slope
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, grid
from whimbrel.lab.harness.panels import Panel
from whimbrel.spaces import Columns, SubjectSpaces

COUNT = 20


def measure(point: Point) -> TimedWorks:
    """Publications far from every subscription, and publications among them with ten matches each."""
    count = int(point["subscriptions"])
    rng = np.random.default_rng(23)
    side = float(np.sqrt(10 / count))
    spaces = SubjectSpaces()
    spaces.define("map", {"x": "number", "y": "number"})
    for at in range(0, count, AT_ONCE):
        corner = rng.random((2, min(AT_ONCE, count - at)))
        bounds = {name: (corner[axis], corner[axis] + side) for axis, name in enumerate("xy")}
        spaces.subscribe_many(Columns(range(at, at + corner.shape[1]), bounds), quiet=True)
    yield insertion(spaces, [{"x": 5.0 + number, "y": 0.5} for number in range(COUNT)], "no match")
    some = [{"x": float(x), "y": float(y)} for x, y in rng.random((COUNT, 2))]
    yield insertion(spaces, some, "ten matches")


EXPERIMENT = Experiment(
    name="spaces-none",
    paper="Spaces",
    figure="section 6, no match",
    question="Does a publication that nothing matches cost the same among millions of subscriptions?",
    why="A search starts at the dimension with the fewest overlapping bounds: where there are none, it ends at once.",
    scales={
        "tiny": grid(subscriptions=[100, 1_000]),
        "small": grid(subscriptions=[1_000, 10_000, 100_000]),
        "paper": grid(subscriptions=[1_000, 10_000, 100_000, 1_000_000]),
        "full": grid(subscriptions=[10_000, 100_000, 1_000_000, 4_000_000]),
    },
    timed=measure,
    memory=lambda point: 3e8 + 1.5e3 * float(point["subscriptions"]),
    panels=(Panel("time", "subscriptions", "subscriptions", "CPU us per publication"),),
    claims=(
        slope("Without a match the time does not depend on subscriptions", "time", "no match", "subscriptions", 0.0),
    ),
    notes=("Squares in two dimensions, whose sides hold ten points each at any number.",),
)
