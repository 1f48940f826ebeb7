"""The survey's five algorithms on 50 properties: its comparison, and Modified RAPID, which may search by zeros."""

from __future__ import annotations

from whimbrel.lab.harness.claims import order, ratio
from whimbrel.lab.harness.contenders import Series, counting, plain, racing
from whimbrel.lab.harness.experiment import Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import Workload, make

TREE_MATCH: Series = {"tree_match": ("equality_tree", {"collapse": False, "successors": False, "aggressive": False})}
"""The survey's TreeMatch: the equality tree over two values, without its later optimisations."""
ALL = plain("naive", "compiled_naive", "rapid", "modified_rapid", "sgim") | TREE_MATCH
TREES = TREE_MATCH | plain("rapid", "modified_rapid")
FEW, MANY = 250, 1_000
ONES = [0.06, 0.5]


def workload_of(point: Point) -> Workload:
    """Subscriptions over {0, 1, *}, and events with a share of ones."""
    n = int(point["n"])
    return make("properties", n=n, events=50 if n < 250 else 400, ones=float(point["ones"]))


COMPARISON = Experiment(
    name="survey-time",
    figure="the comparison",
    question="Which of naive, TreeMatch, RAPID, Modified RAPID and SGIM is fastest on 50 properties?",
    why="RAPID searches a tree without properties that the event lacks; SGIM evaluates most predicates of an event.",
    scales={
        "tiny": grid(n=[60], ones=[0.06]),
        "small": grid(n=[250, 500, 1_000], ones=ONES),
        "paper": grid(n=[250, 500, 750, 1_000, 5_000, 20_000], ones=ONES),
        "full": grid(n=[1_000, 10_000, 100_000], ones=ONES),
    },
    timed=racing(ALL, workload_of),
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

SHARE_OF_ONES = Experiment(
    name="survey-ones",
    figure="section III.D",
    question="What does it bring to search by zeros where zeros are the fewer?",
    why="An event with few zeros has a block of ones, whose tree is as small as that of a block of zeros.",
    scales={
        "tiny": grid(n=[60], ones=[0.06, 0.94]),
        "small": grid(n=[1_000], ones=[0.06, 0.25, 0.5, 0.75, 0.94]),
        "paper": grid(n=[1_000], ones=[0.02, 0.06, 0.12, 0.25, 0.5, 0.75, 0.88, 0.94, 0.98]),
        "full": grid(n=[20_000], ones=[0.02, 0.06, 0.25, 0.5, 0.75, 0.94, 0.98]),
    },
    counted=counting(TREES, workload_of, {"steps": "nodes_visited"}),
    timed=racing(TREES, workload_of),
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
