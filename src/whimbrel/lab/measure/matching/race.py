"""A field: competitors with the same subscriptions on the same events, checked against each other and timed in turn."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from whimbrel.lab.measure.matching.answers import Answers, MatchesDiffer
from whimbrel.lab.measure.matching.engine import Engine
from whimbrel.lab.measure.matching.rival import CannotTakePart, Rival
from whimbrel.lab.measure.timing import Times, affordable
from whimbrel.model.errors import LimitExceeded, UnsupportedEvent, UnsupportedFilter

Progress = Callable[[str], None]


@dataclass(slots=True)
class Competitor:
    """A competitor in a field: how many events it is given, its times, or why it does not take part."""

    rival: Rival
    events: int = 0
    load: Times = field(default_factory=Times)
    match: Times = field(default_factory=Times)
    refused: str = ""
    size: int | None = None

    @property
    def us(self) -> float | None:
        """Microseconds per event, the median: of the CPU, or with several cores by the wall; None if it was refused."""
        return self.seconds(wall=self.rival.cores > 1) * 1e6 if self.match.cpu else None

    def seconds(self, wall: bool) -> float:
        """Seconds per event by one of the clocks, the median."""
        return (self.match.median_wall if wall else self.match.median_cpu) / self.events


@dataclass(slots=True)
class Race:
    """The outcome: entries in the order given, the engine first."""

    workload: str
    subscriptions: int
    events: int
    answers: Answers
    entries: list[Competitor]

    @property
    def matches_per_event(self) -> float:
        """Over all events that the engine was given."""
        return self.answers.total(self.events) / self.events

    def entry(self, name: str) -> Competitor | None:
        """The entry of that name, if it was measured."""
        return next((entry for entry in self.entries if entry.rival.name == name and entry.match.cpu), None)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "subscriptions": self.subscriptions,
            "events": self.events,
            "matches_per_event": round(self.matches_per_event, 3),
            "competitors": [self._figures(entry) for entry in self.entries],
        }

    def _figures(self, entry: Competitor) -> dict[str, object]:
        name, group = entry.rival.name, entry.rival.group
        if not entry.match.cpu:
            return {"name": name, "group": group, "refused": entry.refused}
        pairs = self.answers.total(entry.events)
        engine = self.entries[0].seconds(wall=entry.rival.cores > 1)
        assert entry.us is not None
        size = entry.size
        return {
            "name": name,
            "group": group,
            "events": entry.events,
            "scaled": entry.events < self.events,
            "cores": entry.rival.cores,
            **entry.match.to_dict(entry.events),
            "events_per_second": round(1e6 / entry.us, 1),
            "matches_per_event": round(pairs / entry.events, 3),
            "ns_per_match": round(entry.us * 1e3 * entry.events / pairs, 3) if pairs else None,
            "times_engine": round(entry.us / 1e6 / engine, 3),
            "load_seconds": round(entry.load.median_cpu, 3) if entry.load.cpu else None,
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
    """Load the rivals, check what everybody finds, then time everybody in turn.

    The engine gets all events. A rival gets the first of them, as many as it matches in `seconds`, check and repeats
    together. `MatchesDiffer` if one finds something else than the engine.
    """
    count = events.num_rows
    progress(f"checking {count:,} events")
    answers = Answers(count, engines[0].pairs(events))
    entries = [Competitor(engine, count) for engine in engines]
    for engine in engines[1:]:
        answers.check(Answers(count, engine.pairs(events)), workload, engine.name)
    for rival in rivals:
        entry = Competitor(rival)
        entries.append(entry)
        _enter(entry, workload, subscriptions, events, answers, seconds, repeat, progress)
    taking_part = [entry for entry in entries if not entry.refused]
    gc.collect()
    gc.freeze()  # what is loaded is not looked through again while the clocks run
    for turn in range(repeat):
        for entry in taking_part:
            progress(f"repeat {turn + 1} of {repeat}: {entry.rival.name}")
            some = events.slice(0, entry.events)
            found = entry.match.of(lambda rival=entry.rival, some=some: rival.run(some))  # type: ignore[misc]
            if found != answers.total(entry.events):
                raise MatchesDiffer(workload, entry.rival.name, -1, found, answers.total(entry.events))
    gc.unfreeze()
    for entry in taking_part:
        entry.size = entry.rival.bytes()
    return Race(workload, subscriptions.num_rows, count, answers, entries)


def _enter(
    entry: Competitor,
    workload: str,
    subscriptions: pa.Table,
    events: pa.Table,
    answers: Answers,
    seconds: float,
    repeat: int,
    progress: Progress,
) -> None:
    """Loads a rival, finds out how many events it can afford, and checks its answers."""
    rival = entry.rival
    progress(f"loading {rival.name}")
    try:
        entry.load.of(lambda: rival.load(subscriptions, seconds))
        progress(f"trying {rival.name}")
        entry.events = affordable(
            lambda number: rival.run(events.slice(0, number)), events.num_rows, seconds / (repeat + 2)
        )
        found = Answers(entry.events, rival.pairs(events.slice(0, entry.events)))
    except (CannotTakePart, LimitExceeded, UnsupportedFilter, UnsupportedEvent) as reason:
        entry.refused = str(reason)
        return
    answers.check(found, workload, rival.name)
