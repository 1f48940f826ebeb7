"""Theorem 1: the expected number of visited nodes is below a bound that grows sublinearly; the prototype obeys it."""

from __future__ import annotations

import numpy as np

from whimbrel.lab.equality_tree_cost import decay_exponent, expected_cost, greedy_bound, theorem_1, worst_case
from whimbrel.lab.experiments.gryphon.figure_07_and_section_5 import PLAIN, VISITS
from whimbrel.lab.harness.claims import order, ratio, slope
from whimbrel.lab.harness.contenders import plain, racing, work_counted
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import STEPS_OVER_SIZE, TIME_OVER_SIZE
from whimbrel.lab.workloads import Workload, make

VALUES, ATTRIBUTES, STARS = 3, 30, 0.65


def count_visits(point: Point) -> CountedRows:
    """Visits of the plain tree, their exact expectation, and the bounds."""
    n = int(point["n"])
    workload = make("gryphon", n=n, events=500 if n < 10_000 else 2_000, stars=STARS)
    series = {"measured": ("equality_tree", {**PLAIN, "order": [f"a{i}" for i in range(1, ATTRIBUTES + 1)]})}
    yield from work_counted(series, workload, VISITS)
    exact = expected_visits(workload.subscriptions["filter"].to_pylist())
    yield Row("expected", "steps", exact, "per event")
    yield Row("bound, greedy", "steps", greedy_bound(VALUES, ATTRIBUTES, n), "per event")
    yield Row("bound, theorem 1", "steps", theorem_1(VALUES, ATTRIBUTES, n), "per event")
    yield Row("bound, worst case", "steps", worst_case(ATTRIBUTES, n), "per event")


def expected_visits(filters: list[str]) -> float:
    """C(S) of filters such as `a3 = 1 AND a7 = 0`."""
    rows = np.full((len(filters), ATTRIBUTES), -1)
    for number, text in enumerate(filters):
        for predicate in text.split(" AND "):
            if predicate != "TRUE":
                name, _, value = predicate.partition(" = ")
                rows[number, int(name[1:]) - 1] = int(value)
    return expected_cost(([None if value < 0 else value for value in row] for row in rows.tolist()), VALUES)


BOUND = Experiment(
    name="gryphon-bound",
    figure="theorem 1",
    question="How far is the tree from the bound that the paper proves?",
    why="The bound lets every level be as full as it can be; real subscriptions share fewer nodes near the root.",
    scales={
        "tiny": grid(n=[100, 300]),
        "small": grid(n=[100, 1_000, 10_000]),
        "paper": grid(n=[100, 300, 1_000, 3_000, 10_000, 25_000, 50_000]),
        "full": grid(n=[1_000, 10_000, 100_000, 300_000]),
    },
    counted=count_visits,
    memory=per_subscription(12_000),
    panels=(STEPS_OVER_SIZE,),
    claims=(
        order("No more nodes are visited than theorem 1 allows", "steps", "measured", "bound, theorem 1"),
        order("Nor than the worst case, 2^(K + 1) - 1 or (K + 1) |S|", "steps", "measured", "bound, worst case"),
        ratio("Measured visits are those that the sum over nodes expects", "steps", "measured", "expected", 1.0),
        slope(
            "Visits grow no faster than |S| to the power of 1 - lambda", "steps", "measured", "n",
            1 - decay_exponent(VALUES, ATTRIBUTES), at_most=True,
        ),
    ),
    notes=("Uniform events over 3 values, 30 attributes, 65 % stars.",),
)  # fmt: skip


def prototype_workload(point: Point) -> Workload:
    """The prototype's setting, in a footnote: 30 attributes of 30 values with 65 % stars."""
    n = int(point["n"])
    return make("gryphon", n=n, events=200 if n < 1_000 else 2_000, values=30, stars=STARS)


def count_prototype(point: Point) -> CountedRows:
    """Nodes visited, and the bound of theorem 1."""
    yield from work_counted(plain("equality_tree"), prototype_workload(point), VISITS)
    yield Row("bound, theorem 1", "steps", theorem_1(30, ATTRIBUTES, int(point["n"])), "per event")


FOOTNOTE = Experiment(
    name="gryphon-footnote",
    figure="section 6, footnote",
    question="Is the prototype's setting, 25,000 subscriptions of 30 values, as light as the paper says?",
    why="With 30 values an edge is followed by one event in 30, so almost every path ends near the root.",
    scales={
        "tiny": grid(n=[300]),
        "small": grid(n=[1_000, 25_000]),
        "paper": grid(n=[1_000, 5_000, 25_000]),
        "full": grid(n=[25_000, 250_000]),
    },
    timed=racing(plain("equality_tree", "compiled_naive"), prototype_workload),
    counted=count_prototype,
    memory=per_subscription(12_000),
    panels=(TIME_OVER_SIZE, STEPS_OVER_SIZE),
    claims=(
        order("An event visits fewer nodes than theorem 1 allows", "steps", "equality_tree", "bound, theorem 1"),
        order("The tree is faster than checking every subscription", "time", "equality_tree", "compiled_naive"),
    ),
    notes=("The paper: below 4 ms per event on a 100 MHz Pentium. Times of old machines are no claims here.",),
)
