"""Modified RAPID: search by zeros where the event has fewer zeros than ones."""

from __future__ import annotations

from whimbrel.lab.experiments.survey.bits import TREE, workload_of
from whimbrel.lab.harness.claims import order, ratio
from whimbrel.lab.harness.contenders import plain, raced, work_counted
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.panels import Panel

SERIES = {**TREE, **plain("rapid", "modified_rapid")}


def count(point: Point) -> CountedRows:
    """Nodes visited by each tree."""
    workload = workload_of(int(point["n"]), float(point["ones"]))
    yield from work_counted(SERIES, workload, {"steps": "nodes_visited"})


def measure(point: Point) -> TimedWorks:
    """The time of each tree, and of the engine."""
    return raced(SERIES, workload_of(int(point["n"]), float(point["ones"])))


EXPERIMENT = Experiment(
    name="survey-ones",
    paper="Survey",
    figure="section III.D",
    question="What does it bring to search by zeros where zeros are the fewer?",
    why="An event with few zeros has a block of ones, whose tree is as small as that of a block of zeros.",
    scales={
        "tiny": grid(n=[60], ones=[0.06, 0.94]),
        "small": grid(n=[1_000], ones=[0.06, 0.25, 0.5, 0.75, 0.94]),
        "paper": grid(n=[1_000], ones=[0.02, 0.06, 0.12, 0.25, 0.5, 0.75, 0.88, 0.94, 0.98]),
        "full": grid(n=[20_000], ones=[0.02, 0.06, 0.25, 0.5, 0.75, 0.94, 0.98]),
    },
    counted=count,
    timed=measure,
    memory=per_subscription(40_000),
    panels=(
        Panel("steps", "ones", "share of ones in events", "nodes visited per event", log_x=False),
        Panel("time", "ones", "share of ones in events", "CPU us per event", log_x=False),
    ),
    claims=(
        order("RAPID visits fewer nodes than TreeMatch", "steps", "rapid", "tree_match"),
        order("Modified RAPID visits no more nodes than RAPID", "steps", "modified_rapid", "rapid"),
        ratio(
            "Where ones are few both do the same", "steps", "modified_rapid", "rapid", 1.0,
            where=lambda row: row["ones"] < 0.5,
        ),
        order("Modified RAPID is faster than RAPID", "time", "modified_rapid", "rapid"),
    ),
)  # fmt: skip
