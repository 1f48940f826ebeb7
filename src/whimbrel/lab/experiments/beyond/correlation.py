"""Correlated attributes: values that go together, so that the second equality says little more than the first."""

from __future__ import annotations

from whimbrel.lab.experiments.beyond.skew import SERIES
from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.contenders import raced
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import make


def measure(point: Point) -> TimedWorks:
    """Three algorithms, compiled naive and the engine."""
    n = int(point["n"])
    events = 100 if n <= 1_000 else 2_000
    return raced(SERIES, make("skewed", n=n, skew=0.5, correlation=float(point["correlation"]), events=events))


EXPERIMENT = Experiment(
    name="beyond-correlation",
    paper="Beyond",
    figure="correlated attributes",
    question="What happens where the values of attributes go together?",
    why="Estimates multiply shares as if attributes were independent; a lookup of all values at once does not care.",
    scales={
        "tiny": grid(n=[1_000], correlation=[0.0, 0.9]),
        "small": grid(n=[50_000], correlation=[0.0, 0.5, 0.9, 1.0]),
        "paper": grid(n=[400_000], correlation=[0.0, 0.25, 0.5, 0.75, 0.9, 1.0]),
        "full": grid(n=[2_000_000], correlation=[0.0, 0.5, 0.9, 1.0]),
    },
    timed=measure,
    memory=per_subscription(3_500),
    panels=(
        Panel("time", "correlation", "share of attributes that repeat the first one", "CPU us per event", log_x=False),
        Panel("matches", "correlation", "share of attributes that repeat the first one", "matches per event",
              log_x=False),
    ),
    claims=(order("Ours: the engine is no slower than quarantining", "time", "engine", "quarantine"),),
)  # fmt: skip
