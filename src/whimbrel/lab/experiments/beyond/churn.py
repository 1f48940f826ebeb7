"""Churn: subscriptions that come and go between events."""

from __future__ import annotations

from itertools import count

from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.contenders import loaded_matchers, plain
from whimbrel.lab.harness.experiment import Experiment, Point, Timed, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import event_dicts, make
from whimbrel.model.matcher import Matcher

STEPS = 100
"""Events of one run."""


def measure(point: Point) -> TimedWorks:
    """Time runs of a hundred events, with additions and as many removals after each event."""
    n, changes = int(point["n"]), int(point["changes"])
    workload = make("lesubscribe", n=n, p=1.0, events=STEPS)
    events = event_dicts(workload.events)
    texts = make("lesubscribe", n=5_000, p=1.0, events=1, seed=1).subscriptions["filter"].to_pylist()
    for title, matcher in loaded_matchers(plain("quarantine", "hanson"), workload.subscriptions).items():
        yield _stepping(title, matcher, events, texts, changes)


def _stepping(title: str, matcher: Matcher, events: list[dict[str, object]], texts: list[str], changes: int) -> Timed:
    first, last = count(0), count(len(matcher))

    def work() -> None:
        for event in events:
            matcher.match(event)
            for _ in range(changes):
                new = next(last)
                matcher.add(new, texts[new % len(texts)])
                matcher.remove(next(first))

    work()
    return Timed(title, work, len(events))


EXPERIMENT = Experiment(
    name="beyond-churn",
    figure="churn",
    question="What do additions and removals between events cost?",
    why="The engine keeps new subscriptions in a small indexed head; a frozen matcher checks them one by one.",
    scales={
        "tiny": grid(n=[500], changes=[0, 2]),
        "small": grid(n=[10_000], changes=[0, 1, 10]),
        "paper": grid(n=[50_000], changes=[0, 1, 3, 10, 30]),
        "full": grid(n=[200_000], changes=[0, 1, 10, 100]),
    },
    timed=measure,
    memory=per_subscription(15_000),
    panels=(
        Panel("time", "changes", "additions, and as many removals, per event", "CPU us per event, changes included",
              log_x=False),
    ),
    claims=(
        order("Ours: the engine is fastest at any rate of change", "time", "engine", "quarantine"),
        order("Ours: it is faster than Hanson's tree, too", "time", "engine", "hanson"),
    ),
    notes=("Events one by one, equality only, so that a match is a lookup; texts are parsed within the time.",),
)  # fmt: skip
