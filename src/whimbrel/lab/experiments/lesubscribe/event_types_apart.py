"""Footnote 1 and section 5: several event types, each with a structure of its own or with names of its own."""

from __future__ import annotations

import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.lab.experiments.lesubscribe.three_algorithms import BYTES_EACH
from whimbrel.lab.harness.claims import order, slope
from whimbrel.lab.harness.contenders import ENGINE, Series
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, Timed, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import event_dicts, make
from whimbrel.matchers import make as make_matcher
from whimbrel.model.matcher import Matcher

EVENTS = 200
SERIES: Series = {
    "type as a predicate": ("fair_predicate", {}),
    "a structure per type": ("fair_predicate", {"types": "structures"}),
    "type in the names": ("fair_predicate", {"types": "names"}),
    "neon": ("neon", {}),
}
WORK = ("probes", "predicate_evaluations", "additions")


def typed_workload(point: Point) -> tuple[list[tuple[int, str]], list[dict[str, object]]]:
    """Le Subscribe's subscriptions and events, types in turn; a subscription wants one type."""
    n, types = int(point["n"]), int(point["types"])
    workload = make("lesubscribe", n=n, events=EVENTS)
    texts = workload.subscriptions["filter"].to_pylist()
    subscriptions = [(number, f"event_type = 't{number % types}' AND {text}") for number, text in enumerate(texts)]
    events: list[dict[str, object]] = []
    for number, event in enumerate(event_dicts(workload.events)):
        events.append({"event_type": f"t{number % types}", **event})
    return subscriptions, events


def measure(point: Point) -> TimedWorks:
    """Events one by one, for fair predicate in three ways, Neon and the engine."""
    subscriptions, events = typed_workload(point)
    index = Index()
    index.add_many(pa.table({"id": [id for id, _ in subscriptions], "filter": [text for _, text in subscriptions]}))
    members: dict[str, Matcher] = {ENGINE: index}
    for title, (name, options) in SERIES.items():
        members[title] = make_matcher(name, **options)
        members[title].add_many(subscriptions)
    expected = [sorted(index.match(event)) for event in events]
    for title, matcher in members.items():
        assert [sorted(matcher.match(event)) for event in events] == expected, title
        yield Timed(title, lambda matcher=matcher: [matcher.match(event) for event in events], len(events))  # type: ignore[misc]


def count(point: Point) -> CountedRows:
    """Look-ups, evaluations and additions for an event."""
    subscriptions, events = typed_workload(point)
    for title, (name, options) in SERIES.items():
        matcher = make_matcher(name, count=True, **options)
        matcher.add_many(subscriptions)
        for event in events:
            matcher.match(event)
        stats = matcher.stats()
        yield Row(title, "work", sum(float(stats.get(part, 0)) for part in WORK) / len(events), "per event")


EXPERIMENT = Experiment(
    name="lesub-types",
    figure="footnote 1 and section 5",
    question="What does it save to keep several event types apart?",
    why="Where types are apart, an event is compared with the subscriptions to its own type only.",
    scales={
        "tiny": grid(n=[500], types=[1, 4]),
        "small": grid(n=[20_000], types=[1, 4, 16]),
        "paper": grid(n=[100_000], types=[1, 3, 10, 30, 100]),
        "full": grid(n=[400_000], types=[1, 10, 100, 1_000]),
    },
    timed=measure,
    counted=count,
    memory=per_subscription(2 * BYTES_EACH),
    panels=(
        Panel("time", "types", "event types, equally frequent", "CPU us per event"),
        Panel("work", "types", "event types, equally frequent", "look-ups, evaluations and additions per event"),
    ),
    claims=(
        order("Ours: a structure per type does no more than the type as a predicate", "work", "a structure per type",
              "type as a predicate"),
        order("Ours: nor do names that begin with the type", "work", "type in the names", "type as a predicate"),
        slope("Ours: the work is divided by the types", "work", "a structure per type", "types", -1.0),
    ),
    notes=("The paper names both ways and measures neither. Its workload, with a type for each subscription.",),
)  # fmt: skip
