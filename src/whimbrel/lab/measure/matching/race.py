"""A race: competitors match the same events against the same subscriptions, are checked, and are timed in turns."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from whimbrel.lab.measure.benchmark_results import Progress
from whimbrel.lab.measure.matching.engine_rival import Engine
from whimbrel.lab.measure.matching.rival import Answers, CannotTakePart, MatchesDiffer, Rival
from whimbrel.lab.measure.timing import Times, affordable
from whimbrel.model.errors import LimitExceeded, UnsupportedEvent, UnsupportedFilter


@dataclass(slots=True)
class Competitor:
    """A rival in a race: how many events it is given, its times, or the reason why it does not take part."""

    rival: Rival
    events: int = 0
    load: Times = field(default_factory=Times)
    match: Times = field(default_factory=Times)
    refused: str = ""
    size: int | None = None

    @property
    def us(self) -> float | None:
        """Median microseconds per event: CPU time, with several cores wall time. None if it does not take part."""
        return self.seconds(wall=self.rival.cores > 1) * 1e6 if self.match.cpu else None

    def seconds(self, wall: bool) -> float:
        """Median seconds per event, wall or CPU time."""
        return (self.match.median_wall if wall else self.match.median_cpu) / self.events


@dataclass(slots=True)
class Race:
    """The outcome of a race. The engine is the first competitor."""

    workload: str
    subscriptions: int
    events: int
    answers: Answers
    competitors: list[Competitor]

    @property
    def matches_per_event(self) -> float:
        """The mean over all events of the engine."""
        return self.answers.total(self.events) / self.events

    def competitor(self, name: str) -> Competitor | None:
        """The competitor of that name; None if it was not measured."""
        return next((one for one in self.competitors if one.rival.name == name and one.match.cpu), None)

    def to_dict(self) -> dict[str, object]:
        return {
            "subscriptions": self.subscriptions,
            "events": self.events,
            "matches_per_event": round(self.matches_per_event, 3),
            "competitors": [self._figures(one) for one in self.competitors],
        }

    def _figures(self, one: Competitor) -> dict[str, object]:
        name, group = one.rival.name, one.rival.group
        if not one.match.cpu:
            return {"name": name, "group": group, "refused": one.refused}
        pairs = self.answers.total(one.events)
        engine = self.competitors[0].seconds(wall=one.rival.cores > 1)
        assert one.us is not None
        size = one.size
        return {
            "name": name,
            "group": group,
            "events": one.events,
            "scaled": one.events < self.events,
            "cores": one.rival.cores,
            **one.match.to_dict(one.events),
            "events_per_second": round(1e6 / one.us, 1),
            "matches_per_event": round(pairs / one.events, 3),
            "ns_per_match": round(one.us * 1e3 * one.events / pairs, 3) if pairs else None,
            "times_engine": round(one.us / 1e6 / engine, 3),
            "load_seconds": round(one.load.median_cpu, 3) if one.load.cpu else None,
            "bytes_per_subscription": None if size is None else round(size / self.subscriptions, 1),
        }


def run_race(
    workload: str,
    subscriptions: pa.Table,
    events: pa.Table,
    engines: Sequence[Engine],
    rivals: Sequence[Rival],
    repeat: int,
    seconds: float,
    progress: Progress,
) -> Race:
    """Load the rivals, compare what all competitors find, then time them in turns, `repeat` times.

    The engine gets all events. A rival gets the first events, as many as it matches in `seconds`, including the check
    and the repeats. Raises `MatchesDiffer` if a rival does not find what the engine finds. Closes the rivals.
    """
    count = events.num_rows
    progress(f"checking {count:,} events")
    answers = Answers(count, engines[0].pairs(events))
    competitors = [Competitor(engine, count) for engine in engines]
    for engine in engines[1:]:
        answers.check(Answers(count, engine.pairs(events)), workload, engine.name)
    for rival in rivals:
        one = Competitor(rival)
        competitors.append(one)
        _enter(one, workload, subscriptions, events, answers, seconds, repeat, progress)
    taking_part = [one for one in competitors if not one.refused]
    gc.collect()
    gc.freeze()  # the collector skips what is loaded while the clocks run
    for turn in range(repeat):
        for one in taking_part:
            progress(f"repeat {turn + 1} of {repeat}: {one.rival.name}")
            some = events.slice(0, one.events)
            found = one.match.of(lambda rival=one.rival, some=some: rival.run(some))  # type: ignore[misc]
            if found != answers.total(one.events):
                raise MatchesDiffer(workload, one.rival.name, -1, found, answers.total(one.events))
    gc.unfreeze()
    for one in taking_part:
        one.size = one.rival.bytes()
    for rival in rivals:
        rival.close()
    gc.collect()
    return Race(workload, subscriptions.num_rows, count, answers, competitors)


def _enter(
    one: Competitor,
    workload: str,
    subscriptions: pa.Table,
    events: pa.Table,
    answers: Answers,
    seconds: float,
    repeat: int,
    progress: Progress,
) -> None:
    """Load a rival, find out how many events it can match in the time, and check its answers."""
    rival = one.rival
    progress(f"loading {rival.name}")
    try:
        one.load.of(lambda: rival.load(subscriptions))
        progress(f"trying {rival.name}")
        one.events = affordable(
            lambda number: rival.run(events.slice(0, number)), events.num_rows, seconds / (repeat + 2)
        )
        found = Answers(one.events, rival.pairs(events.slice(0, one.events)))
    except (UnsupportedFilter, UnsupportedEvent) as reason:
        one.refused = f"does not support {reason.construct}"
        return
    except (CannotTakePart, LimitExceeded) as reason:
        one.refused = str(reason)
        return
    answers.check(found, workload, rival.name)
