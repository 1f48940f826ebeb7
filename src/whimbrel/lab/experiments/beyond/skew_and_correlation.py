"""Skew and correlation: popular values, and values that go together, so that a second equality says little."""

from __future__ import annotations

from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.contenders import plain, racing
from whimbrel.lab.harness.experiment import Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import Workload, make

SERIES = plain("fair_predicate", "equality_preferred", "quarantine", "compiled_naive")


def workload_of(point: Point) -> Workload:
    """Values with the skew of the point; where it has a correlation, with an exponent of 0.5."""
    n, correlation = int(point["n"]), float(point.get("correlation", 0.0))
    events = 100 if n <= 1_000 else 2_000
    return make("skewed", n=n, skew=float(point.get("skew", 0.5)), correlation=correlation, events=events)


SKEW = Experiment(
    name="beyond-skew",
    figure="skew",
    question="What do popular values do to the algorithms, which the papers measure on uniform ones?",
    why="A popular value fills one cluster: whoever finds candidates by a single value meets nearly all subscriptions.",
    scales={
        "tiny": grid(n=[1_000], skew=[0.0, 1.5]),
        "small": grid(n=[50_000], skew=[0.0, 0.5, 1.0, 1.5, 2.0]),
        "paper": grid(n=[400_000], skew=[0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0]),
        "full": grid(n=[2_000_000], skew=[0.0, 0.5, 1.0, 1.5, 2.0]),
    },
    timed=racing(SERIES, workload_of),
    memory=per_subscription(3_500),
    panels=(
        Panel("time", "skew", "exponent of Zipf's law", "CPU us per event", log_x=False),
        Panel("matches", "skew", "exponent of Zipf's law", "matches per event", log_x=False),
    ),
    claims=(order("Ours: the engine is no slower than quarantining at any skew", "time", "engine", "quarantine"),),
    notes=("Subscriptions of three equalities on ten attributes of 1,000 values and a range.",),
)

CORRELATION = Experiment(
    name="beyond-correlation",
    figure="correlated attributes",
    question="What happens where the values of attributes go together?",
    why="Estimates multiply shares as if attributes were independent; a lookup of all values at once does not care.",
    scales={
        "tiny": grid(n=[1_000], correlation=[0.0, 0.9]),
        "small": grid(n=[50_000], correlation=[0.0, 0.5, 0.9, 1.0]),
        "paper": grid(n=[400_000], correlation=[0.0, 0.25, 0.5, 0.75, 0.9, 1.0]),
        "full": grid(n=[2_000_000], correlation=[0.0, 0.5, 0.9, 1.0]),
    },
    timed=racing(SERIES, workload_of),
    memory=per_subscription(3_500),
    panels=(
        Panel("time", "correlation", "share of attributes that repeat the first one", "CPU us per event", log_x=False),
        Panel("matches", "correlation", "share of attributes that repeat the first one", "matches per event",
              log_x=False),
    ),
    claims=(order("Ours: the engine is no slower than quarantining", "time", "engine", "quarantine"),),
)  # fmt: skip
