"""Drift: events that change while the index keeps the plan that it made for the old ones."""

from __future__ import annotations

import pyarrow as pa

from whimbrel.lab.harness.claims import order, ratio
from whimbrel.lab.harness.contenders import loaded_index, race
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.measure.matching.engine_rival import Engine
from whimbrel.lab.workloads import make


def measure(point: Point) -> TimedWorks:
    """The engine without a sample, with a sample of the old events, and with one of the new events."""
    n, drift = int(point["n"]), float(point["drift"])
    count = 200 if n <= 1_000 else 5_000
    old = make("skewed", n=n, drift=0.0, events=count)
    new = make("skewed", n=n, drift=drift, events=count)
    samples: dict[str, pa.Table | None] = {
        "engine, analyzed now": new.events,
        "engine, analyzed before the drift": old.events,
        "engine, never analyzed": None,
    }
    engines = []
    for title, sample in samples.items():
        index = loaded_index(old.subscriptions)
        if sample is not None:
            index.analyze(sample)
        engine = Engine(index)
        engine.name = title
        engines.append(engine)
    yield from race(engines, new.events)


EXPERIMENT = Experiment(
    name="beyond-drift",
    figure="drift",
    question="What does it cost to keep an old plan when events change, and what does `analyze` bring?",
    why="A plan picks for each subscription the attributes that few events pass; when these crowd, it picks badly.",
    scales={
        "tiny": grid(n=[1_000], drift=[0.0, 1.0]),
        "small": grid(n=[50_000], drift=[0.0, 0.5, 1.0]),
        "paper": grid(n=[400_000], drift=[0.0, 0.25, 0.5, 0.75, 1.0]),
        "full": grid(n=[2_000_000], drift=[0.0, 0.5, 1.0]),
    },
    timed=measure,
    memory=per_subscription(1_500),
    panels=(Panel("time", "drift", "share of events of the new kind", "CPU us per event", log_x=False, log_y=False),),
    claims=(
        order("Ours: a plan for the new events is no slower than one for the old ones", "time", "engine, analyzed now",
              "engine, analyzed before the drift"),
        ratio("Ours: without a sample it is within 2 x of a plan with one", "time", "engine, never analyzed",
              "engine, analyzed now", 1.0),
    ),
    notes=("Five of ten attributes, spread over 1,000 values so far, crowd on a few (Zipf exponent 3).",),
)  # fmt: skip
