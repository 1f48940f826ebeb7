"""Matchers and the engine side by side: loaded with one table, compared with each other, timed or counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from math import ceil

import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.lab.harness.experiment import CountedRows, Point, Timed, TimedWorks
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.measure.matching.engine_rival import Engine
from whimbrel.lab.measure.matching.paper_rival import PaperMatcher
from whimbrel.lab.measure.matching.rival import Answers, Rival
from whimbrel.lab.measure.timing import affordable, seconds_of
from whimbrel.lab.workloads import Workload
from whimbrel.model.matcher import Matcher

ENGINE = "engine"
Options = dict[str, object]
Series = dict[str, tuple[str, Options]]
"""The name of a line in a plot -> the matcher and its options."""
RUN_SECONDS = 0.25
"""About how long one timed run takes at most: slow matchers are given fewer events."""
SHORTEST_RUN = 0.02
"""A run that takes less is repeated within one turn of the clock."""


def plain(*names: str) -> Series:
    """Matchers with their usual options, each under its own name."""
    return {name: (name, {}) for name in names}


def loaded_index(subscriptions: pa.Table) -> Index:
    """An index with the subscriptions in one segment."""
    index = Index()
    index.add_many(subscriptions)
    return index


def loaded(series: Series, subscriptions: pa.Table) -> list[Rival]:
    """The engine and then a matcher for each series, with the subscriptions."""
    return [Engine(loaded_index(subscriptions)), *_loaded_papers(series, subscriptions)]


def loaded_matchers(series: Series, subscriptions: pa.Table) -> dict[str, Matcher]:
    """The engine and a matcher for each series, by its name, with the subscriptions: to be called event by event."""
    papers = {rival.name: rival.matcher for rival in _loaded_papers(series, subscriptions)}
    return {ENGINE: loaded_index(subscriptions), **papers}


def _loaded_papers(series: Series, subscriptions: pa.Table) -> list[PaperMatcher]:
    rivals = [PaperMatcher(title, matcher, options) for title, (matcher, options) in series.items()]
    for rival in rivals:
        rival.load(subscriptions)
    return rivals


def race(rivals: Sequence[Rival], events: pa.Table) -> TimedWorks:
    """The work of matching a table for each rival, after all answers were compared; and the matches per event.

    Raises `MatchesDiffer` if two rivals do not agree.
    """
    answers = Answers(events.num_rows, rivals[0].pairs(events))
    yield Row("all", "matches", answers.total(events.num_rows) / events.num_rows, "per event")
    for rival in rivals:
        count = affordable(
            lambda number, r=rival: r.run(events.slice(0, number)),  # type: ignore[misc]
            events.num_rows,
            RUN_SECONDS,
            clock=time.process_time,
        )
        some = events.slice(0, count)
        answers.check(Answers(count, rival.pairs(some)), "lab", rival.name)
        yield repeated(Timed(rival.name, lambda r=rival, s=some: r.run(s), count))  # type: ignore[misc]


def racing(series: Series, workload: Callable[[Point], Workload]) -> Callable[[Point], TimedWorks]:
    """The `timed` of an experiment: a `race` of the engine and a matcher for each series on the workload of a point."""

    @wraps(workload)  # the version of the code looks at the file of the experiment
    def timed(point: Point) -> TimedWorks:
        made = workload(point)
        return race(loaded(series, made.subscriptions), made.events)

    return timed


def repeated(timed: Timed) -> Timed:
    """The same work, done several times in one run if once is too short for a clock."""
    times = ceil(SHORTEST_RUN / max(seconds_of(timed.work, time.process_time), 1e-6))
    if times == 1:
        return timed

    def work() -> None:
        for _ in range(times):
            timed.work()

    return replace(timed, work=work, per=timed.per * times)


def work_counted(series: Series, workload: Workload, measures: Mapping[str, str]) -> CountedRows:
    """Run each matcher, and yield what it counts per event.

    `measures` gives the counter of `stats()` for each measure of the table; a matcher without the counter has no row.
    Sizes (`bytes`) come as they are; the engine's is there, too.
    """
    for title, (matcher, options) in series.items():
        rival = PaperMatcher(title, matcher, {**options, "count": True})
        rival.load(workload.subscriptions)
        rival.run(workload.events)
        stats = rival.matcher.stats()
        for measure, counter in measures.items():
            if counter == "bytes" and counter in stats:
                yield Row(title, measure, float(stats[counter]), "bytes")
            elif counter in stats:
                yield Row(title, measure, float(stats[counter]) / workload.events.num_rows, "per event")
    for measure, counter in measures.items():
        if counter == "bytes":
            yield Row(ENGINE, measure, float(Engine(loaded_index(workload.subscriptions)).bytes() or 0), "bytes")


def counting(
    series: Series, workload: Callable[[Point], Workload], measures: Mapping[str, str]
) -> Callable[[Point], CountedRows]:
    """The `counted` of an experiment: `work_counted` on the workload of a point."""

    @wraps(workload)
    def counted(point: Point) -> CountedRows:
        return work_counted(series, workload(point), measures)

    return counted
