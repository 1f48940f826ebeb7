"""Figure 9a: processing time against the number of subscriptions, one event at a time."""

from __future__ import annotations

from collections.abc import Iterator

from whimbrel.engine.index import Index
from whimbrel.lab.experiments.lesubscribe.three_algorithms import BYTES_EACH, SIZES, THREE, workload_of
from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.contenders import ENGINE
from whimbrel.lab.harness.experiment import Experiment, Point, Timed, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.measure.matching.paper_rival import PaperMatcher
from whimbrel.model.matcher import Matcher

EVENTS = 50


def measure(point: Point) -> Iterator[Timed | Row]:
    """From a dict to the list of ids, for each algorithm and the engine."""
    workload = workload_of(point)
    rows = workload.events.slice(0, EVENTS).to_pylist()
    events = [{name: value for name, value in row.items() if value is not None} for row in rows]
    index = Index()
    index.add_many(workload.subscriptions)
    members: dict[str, Matcher] = {ENGINE: index}
    for title, (name, options) in THREE.items():
        member = PaperMatcher(title, name, options)
        member.load(workload.subscriptions, 0.0)
        members[title] = member.matcher
    for name, matcher in members.items():
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
