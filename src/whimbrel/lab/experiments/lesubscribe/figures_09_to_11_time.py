"""Figures 9 to 11: time against the number of subscriptions, and against the share of equalities."""

from __future__ import annotations

from whimbrel.lab.experiments.lesubscribe.three_algorithms import BYTES_EACH, SIZES, THREE, workload_of
from whimbrel.lab.harness.claims import order, ratio, slope
from whimbrel.lab.harness.contenders import loaded_matchers, plain, raced
from whimbrel.lab.harness.experiment import Experiment, Point, Timed, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import event_dicts

EVENTS = 50
HALF_EQUALITIES = Panel("time", "n", "subscriptions, p = 0.5", "CPU us per event")
ORDER = (
    order("Equality-preferred is faster than fair predicate", "time", "equality_preferred", "fair_predicate"),
    order("Quarantining is faster than equality-preferred", "time", "quarantine", "equality_preferred"),
)


def measure_single_events(point: Point) -> TimedWorks:
    """From a dict to the list of ids, for each algorithm and the engine."""
    workload = workload_of(point)
    events = event_dicts(workload.events.slice(0, EVENTS))
    for name, matcher in loaded_matchers(THREE, workload.subscriptions).items():
        matcher.match(events[0])
        yield Timed(name, lambda m=matcher: [m.match(event) for event in events], len(events))  # type: ignore[misc]


SINGLE_EVENTS = Experiment(
    name="lesub-9a",
    paper="LeSub",
    figure="figure 9a",
    question="How long does one event take, from its attributes to the list of ids?",
    why="Thousands of ids are listed for every event: with the fastest algorithms that is most of the time.",
    scales=SIZES,
    timed=measure_single_events,
    memory=per_subscription(BYTES_EACH),
    panels=(HALF_EQUALITIES,),
    claims=ORDER,
    notes=(
        "The paper tells processing from execution time; 9a is read as a call for each event, 9b as matching alone.",
    ),
)


def measure_event_tables(point: Point) -> TimedWorks:
    """The three algorithms, Neon, compiled naive and the engine."""
    return raced(THREE | plain("neon", "compiled_naive"), workload_of(point))


EVENT_TABLES = Experiment(
    name="lesub-9b",
    paper="LeSub",
    figure="figure 9b",
    question="How long does matching alone take as subscriptions grow, with half of the numeric predicates equalities?",
    why="Quarantining looks only at subscriptions whose equalities hold; counting adds to every satisfied range.",
    scales=SIZES,
    timed=measure_event_tables,
    memory=per_subscription(BYTES_EACH + 800),
    panels=(HALF_EQUALITIES,),
    claims=(
        *ORDER,
        slope("Ours: counting takes time in proportion to subscriptions", "time", "fair_predicate", "n", 1.0),
    ),
)


def measure_three(point: Point) -> TimedWorks:
    """The three algorithms and the engine."""
    return raced(THREE, workload_of(point))


SHARE_OF_EQUALITIES = Experiment(
    name="lesub-10",
    paper="LeSub",
    figure="figure 10",
    question="What does the share of equalities do to the three algorithms?",
    why="With p = 1 there is nothing left to count or to check: both cluster algorithms do the same lookups.",
    scales={
        "tiny": grid(n=[1_000], p=[0.0, 1.0]),
        "small": grid(n=[50_000], p=[0.0, 0.5, 1.0]),
        "paper": grid(n=[800_000], p=[0.0, 0.25, 0.5, 0.75, 1.0]),
        "full": grid(n=[800_000], p=[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
    },
    timed=measure_three,
    memory=per_subscription(BYTES_EACH),
    panels=(Panel("time", "p", "p: share of equalities among numeric predicates", "CPU us per event", log_x=False),),
    claims=(
        order("Quarantining is faster than equality-preferred below p = 1", "time", "quarantine", "equality_preferred",
              where=lambda row: row["p"] < 1),
        order("Fair predicate is the slowest", "time", "equality_preferred", "fair_predicate"),
        ratio("At p = 1 equality-preferred and quarantining are the same", "time", "equality_preferred", "quarantine",
              1.0, where=lambda row: row["p"] == 1),
    ),
)  # fmt: skip


def measure_equalities(point: Point) -> TimedWorks:
    """The three algorithms and the engine."""
    return raced(THREE, workload_of(point, p=1.0))


EQUALITIES_ONLY = Experiment(
    name="lesub-11",
    paper="LeSub",
    figure="figure 11",
    question="Is the time flat where all predicates are equalities?",
    why="A lookup per set of attributes finds all candidates; only the matches themselves grow with subscriptions.",
    scales=SIZES,
    timed=measure_equalities,
    memory=per_subscription(BYTES_EACH),
    panels=(Panel("time", "n", "subscriptions, p = 1", "CPU us per event"),),
    claims=(
        slope("Quarantining is flat or logarithmic", "time", "quarantine", "n", 0.0),
        slope("Equality-preferred is flat or logarithmic", "time", "equality_preferred", "n", 0.0),
    ),
    notes=(
        "Matches per event grow with subscriptions, from 12 at 100,000 to 99 at 800,000: no time can be flat below.",
    ),
)
