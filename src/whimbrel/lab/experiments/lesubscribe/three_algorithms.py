"""The three algorithms: time by size and by share of equalities, work, the ratio to naive, adding a subscription.

Figures 9 to 11 and the cost expressions of section 3; of section 4 the remarks on naive and on adding, and the
discussion of unselective equalities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from whimbrel.lab.harness.claims import order, ratio, slope, untestable
from whimbrel.lab.harness.contenders import counting, loaded_matchers, plain, racing, work_counted
from whimbrel.lab.harness.experiment import (
    CountedRows,
    Experiment,
    Point,
    Scale,
    Timed,
    TimedWorks,
    grid,
    per_subscription,
)
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Line, Panel
from whimbrel.lab.workloads import Workload, event_dicts, make
from whimbrel.model.matcher import Matcher

THREE = plain("fair_predicate", "equality_preferred", "quarantine")
SIZES: Mapping[Scale, list[Point]] = {
    "tiny": grid(n=[500, 1_000]),
    "small": grid(n=[10_000, 30_000, 100_000]),
    "paper": grid(n=[50_000, 100_000, 200_000, 400_000, 800_000]),
    "full": grid(n=[100_000, 400_000, 1_600_000, 3_200_000]),
}
BYTES_EACH = 2_500
"""About how much the engine and three matchers take for a subscription, with its text."""
PARTS = ("probes", "predicate_evaluations", "additions", "quarantine_scanned")
"""The counters that touch a predicate or a subscription."""
EVENTS = 50
ADDED = 100
OLD_MACHINE = "a time of the paper's machine says nothing about this one"
HALF_EQUALITIES = Panel("time", "n", "subscriptions, p = 0.5", "CPU us per event")
ORDER = (
    order("Equality-preferred is faster than fair predicate", "time", "equality_preferred", "fair_predicate"),
    order("Quarantining is faster than equality-preferred", "time", "quarantine", "equality_preferred"),
)


def workload_of(point: Point) -> Workload:
    """Le Subscribe's workload at that point; half of the numeric predicates are equalities unless it has a share p."""
    n = int(point["n"])
    return make("lesubscribe", n=n, p=float(point.get("p", 0.5)), events=100 if n <= 1_000 else 2_000)


def equalities_only(point: Point) -> Workload:
    """The workload of a point without any other predicate."""
    return workload_of({**point, "p": 1.0})


def few_events(point: Point) -> Workload:
    """The workload of a point with at most 500 events: naive takes most of a second for one."""
    workload = workload_of(point)
    return replace(workload, events=workload.events.slice(0, 500))


def measure_single_events(point: Point) -> TimedWorks:
    """From a dict to the list of ids, for each algorithm and the engine."""
    workload = workload_of(point)
    events = event_dicts(workload.events.slice(0, EVENTS))
    for name, matcher in loaded_matchers(THREE, workload.subscriptions).items():
        matcher.match(events[0])
        yield Timed(name, lambda m=matcher: [m.match(event) for event in events], len(events))  # type: ignore[misc]


SINGLE_EVENTS = Experiment(
    name="lesub-9a",
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

EVENT_TABLES = Experiment(
    name="lesub-9b",
    figure="figure 9b",
    question="How long does matching alone take as subscriptions grow, with half of the numeric predicates equalities?",
    why="Quarantining looks only at subscriptions whose equalities hold; counting adds to every satisfied range.",
    scales=SIZES,
    timed=racing(THREE | plain("neon", "compiled_naive"), workload_of),
    memory=per_subscription(BYTES_EACH + 800),
    panels=(HALF_EQUALITIES,),
    claims=(
        *ORDER,
        slope("Ours: counting takes time in proportion to subscriptions", "time", "fair_predicate", "n", 1.0),
    ),
)

SHARE_OF_EQUALITIES = Experiment(
    name="lesub-10",
    figure="figure 10",
    question="What does the share of equalities do to the three algorithms?",
    why="With p = 1 there is nothing left to count or to check: both cluster algorithms do the same lookups.",
    scales={
        "tiny": grid(n=[1_000], p=[0.0, 1.0]),
        "small": grid(n=[50_000], p=[0.0, 0.5, 1.0]),
        "paper": grid(n=[800_000], p=[0.0, 0.25, 0.5, 0.75, 1.0]),
        "full": grid(n=[800_000], p=[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
    },
    timed=racing(THREE, workload_of),
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

EQUALITIES_ONLY = Experiment(
    name="lesub-11",
    figure="figure 11",
    question="Is the time flat where all predicates are equalities?",
    why="A lookup per set of attributes finds all candidates; only the matches themselves grow with subscriptions.",
    scales=SIZES,
    timed=racing(THREE, equalities_only),
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


def count_work(point: Point) -> CountedRows:
    """The sum of lookups, evaluations, additions and scanned rows, and additions alone."""
    work: dict[str, float] = {}
    for row in work_counted(THREE | plain("neon"), workload_of(point), {part: part for part in PARTS}):
        work[row.series] = work.get(row.series, 0.0) + row.value
        if row.measure == "additions":
            yield row
    for name, total in work.items():
        yield Row(name, "work", total, "per event")


WORK = Experiment(
    name="lesub-work",
    figure="section 3, cost expressions",
    question="How much does each algorithm do for an event?",
    why="Counting adds once for every satisfied predicate of every subscription, whether it matches in the end or not.",
    scales=SIZES,
    counted=count_work,
    memory=per_subscription(BYTES_EACH),
    panels=(
        Panel("work", "n", "subscriptions, p = 0.5", "lookups, evaluations, additions per event"),
        Panel("additions", "n", "subscriptions, p = 0.5", "additions per event"),
    ),
    claims=(
        order("Equality-preferred does less than fair predicate", "work", "equality_preferred", "fair_predicate"),
        order("Quarantining does less than equality-preferred", "work", "quarantine", "equality_preferred"),
        order("Fair predicate does less than Neon, which evaluates all", "work", "fair_predicate", "neon"),
    ),
)

NAIVE = Experiment(
    name="lesub-naive",
    figure="section 4, naive",
    question="How far behind is checking every subscription?",
    why="Naive touches every subscription; interpreted, a predicate costs a thousand times what machine code takes.",
    scales={
        "tiny": grid(n=[500]),
        "small": grid(n=[2_000, 10_000]),
        "paper": grid(n=[10_000, 100_000, 400_000]),
        "full": grid(n=[400_000, 1_000_000]),
    },
    timed=racing(plain("naive", "compiled_naive", "quarantine"), few_events),
    memory=per_subscription(12_000),
    panels=(replace(HALF_EQUALITIES, lines=(Line("400,000", x=400_000),)),),
    claims=(
        order("Quarantining is faster than naive", "time", "quarantine", "naive"),
        ratio("Naive takes 10,000 times as long as quarantining", "time", "naive", "quarantine", 10_000,
              where=lambda row: row["n"] == 400_000),
        ratio("So does naive in machine code", "time", "compiled_naive", "quarantine", 10_000),
    ),
    notes=("The paper's figure is for 400,000 subscriptions. Here naive is the reference evaluator in Python.",),
)  # fmt: skip


def measure_adding(point: Point) -> TimedWorks:
    """Add a hundred subscriptions to each, then match one event, which makes them part of the structure."""
    n = int(point["n"])
    workload = make("lesubscribe", n=n + ADDED, events=1)
    stored, new = workload.subscriptions.slice(0, n), workload.subscriptions.slice(n).to_pylist()
    event = {"a1": "v001", "a4": 17}
    for title, matcher in loaded_matchers(THREE, stored).items():
        yield _adding(title, matcher, new, event)


def _adding(title: str, matcher: Matcher, new: list[dict[str, object]], event: dict[str, object]) -> Timed:
    def work() -> None:
        for row in new:
            matcher.add(row["id"], row["filter"])  # type: ignore[arg-type]
        matcher.match(event)

    def undo() -> None:
        for row in new:
            matcher.remove(row["id"])  # type: ignore[arg-type]
        matcher.match(event)

    work()
    undo()
    return Timed(title, work, len(new), undo, unit="us per subscription")


ADDING = Experiment(
    name="lesub-adding",
    figure="section 4, adding",
    question="What does it cost to add a subscription to a large set?",
    why="New subscriptions enter a mutable structure of the same kind, beside the arrays, until those are built again.",
    scales={
        "tiny": grid(n=[500, 1_000]),
        "small": grid(n=[10_000, 50_000]),
        "paper": grid(n=[100_000, 400_000, 1_600_000]),
        "full": grid(n=[400_000, 1_600_000, 3_200_000]),
    },
    timed=measure_adding,
    memory=per_subscription(BYTES_EACH),
    panels=(Panel("time", "n", "subscriptions", "CPU us per added subscription"),),
    claims=(
        order("Fair predicate adds faster than equality-preferred", "time", "fair_predicate", "equality_preferred"),
        order("Fair predicate adds faster than quarantining", "time", "fair_predicate", "quarantine"),
        untestable("Quarantining adds one subscription among 3.2 million in 32.2 ms", OLD_MACHINE),
        slope("Ours: adding costs the engine the same at any size", "time", "engine", "n", 0.0),
    ),
    notes=("The time of a match after every hundred additions is included.",),
)


def unselective(point: Point) -> Workload:
    """Equalities of a number of values beside a comparison that one event in a thousand satisfies."""
    n = int(point["n"])
    return make("unselective", n=n, values=int(point["values"]), events=100 if n <= 1_000 else 1_000)


UNSELECTIVE = Experiment(
    name="lesub-unselective",
    figure="section 4, discussion",
    question="Does equality-preferred win where equalities are unselective?",
    why="Quarantining checks every subscription of a full cluster; counting touches what the comparison satisfies.",
    scales={
        "tiny": grid(n=[1_000], values=[2]),
        "small": grid(n=[50_000], values=[2, 20, 2_000]),
        "paper": grid(n=[400_000], values=[2, 5, 20, 100, 500, 2_000]),
        "full": grid(n=[1_600_000], values=[2, 20, 200, 2_000]),
    },
    timed=racing(THREE, unselective),
    counted=counting(THREE, unselective, {"false candidates": "false_candidates"}),
    memory=per_subscription(BYTES_EACH),
    panels=(
        Panel("time", "values", "values of the attribute with equalities", "CPU us per event"),
        Panel("false candidates", "values", "values of the attribute with equalities", "false candidates per event"),
    ),
    claims=(
        order("With few values equality-preferred is faster than quarantining", "time", "equality_preferred",
              "quarantine", where=lambda row: row["values"] <= 20),
        order("With many values quarantining is faster", "time", "quarantine", "equality_preferred",
              where=lambda row: row["values"] >= 500),
    ),
    notes=("Subscriptions `a1 = v AND a2 < c`; an event satisfies one comparison in a thousand. Ours.",),
)  # fmt: skip
