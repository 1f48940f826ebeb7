"""Figure 9a: processing time against the number of subscriptions, one event at a time."""

from __future__ import annotations

from whimbrel.lab.experiments.lesubscribe.three_algorithms import BYTES_EACH, SIZES, THREE, workload_of
from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.contenders import loaded_matchers
from whimbrel.lab.harness.experiment import Experiment, Point, Timed, TimedWorks, per_subscription
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import event_dicts

EVENTS = 50


def measure(point: Point) -> TimedWorks:
    """From a dict to the list of ids, for each algorithm and the engine."""
    workload = workload_of(point)
    events = event_dicts(workload.events.slice(0, EVENTS))
    for name, matcher in loaded_matchers(THREE, workload.subscriptions).items():
        matcher.match(events[0])
        yield Timed(name, lambda m=matcher: [m.match(event) for event in events], len(events))  # type: ignore[misc]


EXPERIMENT = Experiment(
    name="lesub-9a",
    paper="LeSub",
    figure="figure 9a",
    question="How long does one event take, from its attributes to the list of ids?",
    why="Thousands of ids are listed for every event: with the fastest algorithms that is most of the time.",
    scales=SIZES,
    timed=measure,
    memory=per_subscription(BYTES_EACH),
    panels=(Panel("time", "n", "subscriptions, p = 0.5", "CPU us per event"),),
    claims=(
        order("Equality-preferred is faster than fair predicate", "time", "equality_preferred", "fair_predicate"),
        order("Quarantining is faster than equality-preferred", "time", "quarantine", "equality_preferred"),
    ),
    notes=(
        "The paper tells processing from execution time; 9a is read as a call for each event, 9b as matching alone.",
    ),
)
