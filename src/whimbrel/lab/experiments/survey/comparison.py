"""The survey's comparison: runtime of its five algorithms on 250 to 1,000 subscriptions over 50 properties."""

from __future__ import annotations

from whimbrel.lab.experiments.survey.bits import ALL, workload_of
from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.contenders import raced
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.panels import Panel

FEW, MANY = 250, 1_000
ONES = [0.06, 0.5]


def measure(point: Point) -> TimedWorks:
    """The five algorithms and the engine."""
    return raced(ALL, workload_of(int(point["n"]), float(point["ones"])))


EXPERIMENT = Experiment(
    name="survey-time",
    paper="Survey",
    figure="the comparison",
    question="Which of naive, TreeMatch, RAPID, Modified RAPID and SGIM is fastest on 50 properties?",
    why="RAPID searches a tree without properties that the event lacks; SGIM evaluates most predicates of an event.",
    scales={
        "tiny": grid(n=[60], ones=[0.06]),
        "small": grid(n=[250, 500, 1_000], ones=ONES),
        "paper": grid(n=[250, 500, 750, 1_000, 5_000, 20_000], ones=ONES),
        "full": grid(n=[1_000, 10_000, 100_000], ones=ONES),
    },
    timed=measure,
    memory=per_subscription(40_000),
    panels=(
        Panel("time", "n", "subscriptions, 6 % ones", "CPU us per event", where=lambda row: row["ones"] < 0.5),
        Panel("time", "n", "subscriptions, uniform events", "CPU us per event", where=lambda row: row["ones"] == 0.5),
    ),
    claims=(
        order("RAPID is faster than naive", "time", "rapid", "naive"),
        order("Modified RAPID is faster than RAPID", "time", "modified_rapid", "rapid"),
        order(
            "SGIM is slower than RAPID for few subscriptions", "time", "rapid", "sgim",
            where=lambda row: row["n"] <= FEW,
        ),
        order(
            "SGIM is faster than RAPID for many subscriptions", "time", "sgim", "rapid",
            where=lambda row: row["n"] >= MANY,
        ),
    ),
    notes=(
        "The survey says 250 to 1,000 predicates, which is read as subscriptions. It does not describe its events.",
        "naive is interpreted; compiled_naive reads tables by column, where RAPID and SGIM take events one by one.",
    ),
)  # fmt: skip
