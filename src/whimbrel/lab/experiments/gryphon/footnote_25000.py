"""The footnote on the prototype: 25,000 subscriptions over 30 attributes of 30 values with 65 % stars."""

from __future__ import annotations

from whimbrel.lab.equality_tree_cost import theorem_1
from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.contenders import plain, raced, work_counted
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import STEPS_OVER_SIZE, TIME_OVER_SIZE
from whimbrel.lab.workloads import make
from whimbrel.lab.workloads.workload import Workload

SERIES = plain("equality_tree", "compiled_naive")


def measure(point: Point) -> TimedWorks:
    """The tree, compiled naive and the engine."""
    return raced(SERIES, _workload(point))


def count(point: Point) -> CountedRows:
    """Nodes visited, and the bound of theorem 1."""
    workload = _workload(point)
    measures = {"steps": "nodes_visited"}
    yield from work_counted(plain("equality_tree"), workload, measures)
    yield Row("bound, theorem 1", "steps", theorem_1(30, 30, int(point["n"])), "per event")


def _workload(point: Point) -> Workload:
    n = int(point["n"])
    return make("gryphon", n=n, events=200 if n < 1_000 else 2_000, values=30, stars=0.65)


EXPERIMENT = Experiment(
    name="gryphon-footnote",
    paper="Gryphon",
    figure="section 6, footnote",
    question="Is the prototype's setting, 25,000 subscriptions of 30 values, as light as the paper says?",
    why="With 30 values an edge is followed by one event in 30, so almost every path ends near the root.",
    scales={
        "tiny": grid(n=[300]),
        "small": grid(n=[1_000, 25_000]),
        "paper": grid(n=[1_000, 5_000, 25_000]),
        "full": grid(n=[25_000, 250_000]),
    },
    timed=measure,
    counted=count,
    memory=per_subscription(12_000),
    panels=(TIME_OVER_SIZE, STEPS_OVER_SIZE),
    claims=(
        order("An event visits fewer nodes than theorem 1 allows", "steps", "equality_tree", "bound, theorem 1"),
        order("The tree is faster than checking every subscription", "time", "equality_tree", "compiled_naive"),
    ),
    notes=("The paper: below 4 ms per event on a 100 MHz Pentium. Times of old machines are no claims here.",),
)
