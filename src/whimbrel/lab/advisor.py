"""The advisor: it measures every matcher on a sample of subscriptions and events, recommends one, and says why.

Each matcher is loaded with the sample and matches its events one by one, within a share of the given time. Its answers
are compared with those of the reference. A matcher that refuses the sample, runs out of time or answers wrongly is
listed with the reason and not recommended.
"""

from __future__ import annotations

import inspect
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from whimbrel.matchers import MATCHERS, BaseMatcher, make
from whimbrel.matchers.shared.capabilities import constructs
from whimbrel.model.errors import UnsupportedFilter, WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.subscription import Id

_REFERENCE = "naive"
_WARM = 3  # events before the clock runs: they compile what a matcher compiles late
_FEWEST = 5  # events that are timed even if that takes longer than it should
_STEP = 256  # subscriptions between two looks at the clock
_LEAST_SHARE = 0.5  # of an equal part of the time, for a matcher that comes after slow ones
_CLOSE = 1.1  # matchers within a tenth of the fastest are as fast
_MOST = 0.8  # the share of equalities from which on a sample is said to have mostly those
_FEW_MATCHES = 0.01  # of the subscriptions, for an event

T = TypeVar("T")


class NothingToAdvise(WhimbrelError, ValueError):
    """No subscriptions or no events: there is nothing to measure."""

    def __init__(self, subscriptions: int, events: int) -> None:
        self.subscriptions, self.events = subscriptions, events
        super().__init__(f"Expected at least one subscription and one event, but got {subscriptions:,} and {events:,}")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The outcome of one matcher: measured, refused, too slow or wrong; `reason` says why it is not measured."""

    matcher: str
    outcome: str
    reason: str = ""
    build_seconds: float | None = None
    median_us: float | None = None
    events: int = 0
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Features:
    """Counts of a sample; `constructs` has the share of each construct among all constraints and links."""

    subscriptions: int
    conjunctions: int
    events: int
    attributes: int
    constraints_per_conjunction: float
    constructs: dict[str, float]
    attributes_per_event: float
    events_with_lists: float
    matches_per_event: float | None

    @property
    def sentence(self) -> str:
        """The sample in a sentence."""
        shares = ", ".join(f"{share:.0%} {name}" for name, share in self.constructs.items())
        matches = "?" if self.matches_per_event is None else f"{self.matches_per_event:,.1f}"
        return (
            f"Sample: {self.subscriptions:,} subscriptions over {self.attributes:,} attributes, "
            f"{self.constraints_per_conjunction:.1f} constraints per conjunction ({shares or 'none'}); "
            f"{self.events:,} events of {self.attributes_per_event:.1f} attributes, {matches} matches per event."
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """The features that favour some algorithms over others, in sentences."""
        out = []
        equality = self.constructs.get("equality", 0.0)
        if equality >= _MOST:
            out.append(f"{equality:.0%} of the constraints are equalities, which an index looks up instead of testing.")
        elif equality > 0:
            out.append(f"{equality:.0%} of the constraints are equalities and {1 - equality:.0%} are not.")
        else:
            out.append("No constraint is an equality, so nothing can be looked up by its value alone.")
        matches = self.matches_per_event
        if matches is not None and matches <= _FEW_MATCHES * self.subscriptions:
            out.append("An event matches few of the subscriptions, which favours finding over ruling out.")
        elif matches is not None:
            out.append(
                f"An event matches {matches / self.subscriptions:.0%} of the subscriptions: naming them costs too."
            )
        if self.events_with_lists:
            out.append(f"{self.events_with_lists:.0%} of the events have several values of an attribute.")
        return tuple(out)


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommended matcher, the reasons, the features of the sample, and all measurements, the fastest first."""

    recommended: str | None
    why: tuple[str, ...]
    features: Features
    measurements: tuple[Measurement, ...]

    @property
    def text(self) -> str:
        """The advice as text for people."""
        lines = [f"Recommended: {self.recommended or 'none'}", *(f"  {reason}" for reason in self.why), ""]
        lines += [self.features.sentence, ""]
        lines.append(f"{'matcher':<20} {'us/event':>10} {'build s':>9} {'MB':>8} {'events':>7}")
        for found in self.measurements:
            if found.outcome == "measured":
                size = "-" if found.bytes is None else f"{found.bytes / 1e6:,.2f}"
                row = f"{found.matcher:<20} {found.median_us:>10,.1f} {found.build_seconds:>9,.2f}"
                lines.append(f"{row} {size:>8} {found.events:>7,}")
        left = [found for found in self.measurements if found.outcome != "measured"]
        lines += ["", *(f"{found.matcher}: {found.outcome}: {found.reason}" for found in left)] if left else []
        return "\n".join(lines)


def advise(
    subscriptions: Iterable[tuple[Id, Filter]],
    events: Iterable[Event | Mapping[str, object]],
    seconds: float = 30.0,
    matchers: Collection[str] | None = None,
    timestamps: Collection[str] = (),
    progress: Callable[[str, float], None] = lambda matcher, share: None,
) -> Advice:
    """Measure the matchers (all, unless some are named) on a sample within about that many seconds, and recommend one.

    `progress` is called with the name of the matcher that is measured and the share of the work that is done.

    >>> sample = [(i, Filter.parse(f"a = {i % 50} AND b < {i}")) for i in range(100)]
    >>> advice = advise(sample, [{"a": 7, "b": i} for i in range(20)], seconds=5, matchers=["naive", "hanson", "rapid"])
    >>> advice.recommended, [found.outcome for found in advice.measurements]
    ('hanson', ['measured', 'measured', 'refused'])
    """
    filters = dict(subscriptions)
    found = [Event.of(event, timestamps) for event in events]
    if not filters or not found:
        raise NothingToAdvise(len(filters), len(found))
    names = [name for name in MATCHERS if matchers is None or name in matchers or name == _REFERENCE]
    names.sort(key=lambda name: name != _REFERENCE)
    deadline = time.perf_counter() + seconds
    trial = _Trial(filters, found, tuple(timestamps))
    measurements = []
    for done, name in enumerate(names):
        progress(name, done / len(names))
        left = deadline - time.perf_counter()
        measurements.append(trial.run(name, max(left / (len(names) - done), _LEAST_SHARE * seconds / len(names))))
    progress("", 1.0)
    measurements.sort(key=lambda m: (m.median_us is None, m.median_us or 0.0, m.matcher))
    features = features_of(filters.values(), found, trial.matches_per_event())
    recommended = _recommended(measurements)
    why = _reasons(recommended, measurements, features) if recommended else ("No matcher took the whole sample.",)
    if recommended and not trial.expected:
        why += ("No answers were compared, as the reference did not take the sample in its time.",)
    return Advice(recommended.matcher if recommended else None, why, features, tuple(measurements))


class _Trial:
    """One sample, and the answers of the reference to its first events."""

    def __init__(self, filters: dict[Id, Filter], events: Sequence[Event], timestamps: tuple[str, ...]) -> None:
        self.filters, self.events, self.timestamps = filters, events, timestamps
        self.expected: list[list[Id]] = []

    def matches_per_event(self) -> float | None:
        return statistics.fmean(map(len, self.expected)) if self.expected else None

    def run(self, name: str, seconds: float) -> Measurement:
        try:
            self._load(name)
            started = time.perf_counter()
            deadline = started + seconds
            matcher = self._filled(name, deadline)
            if matcher is None:
                return Measurement(name, "too slow", f"still adding subscriptions after {seconds:.1f} s")
            matcher.match(self.events[0])
            built = time.perf_counter() - started
            for event in self.events[:_WARM]:
                matcher.match(event)
            times, answers = self._timed(matcher, deadline)
            size = matcher.stats().get("bytes")
        except WhimbrelError as error:
            return Measurement(name, "refused", str(error))
        if name == _REFERENCE:
            self.expected = answers
        for row, (answer, expected) in enumerate(zip(answers, self.expected, strict=False)):
            if answer != expected:
                reason = f"on event {row} it found {len(answer):,} subscriptions and the reference {len(expected):,}"
                return Measurement(name, "wrong", reason)
        median = round(statistics.median(times) * 1e6, 2)
        return Measurement(
            name, "measured", "", round(built, 4), median, len(times), None if size is None else int(size)
        )

    def _load(self, name: str) -> None:
        """Compile or load the kernels of a matcher before it is timed."""
        matcher = make(name, timestamps=self.timestamps)
        for id, filter in list(self.filters.items())[:_WARM]:
            with suppress(UnsupportedFilter):
                matcher.add(id, filter)
        for event in self.events[:_WARM]:
            matcher.match(event)
        matcher.stats()

    def _filled(self, name: str, deadline: float) -> BaseMatcher | None:
        matcher = make(name, timestamps=self.timestamps)
        refused: list[UnsupportedFilter] = []
        for place, (id, filter) in enumerate(self.filters.items()):
            try:
                matcher.add(id, filter)
            except UnsupportedFilter as error:
                refused.append(error)
            if place % _STEP == 0 and time.perf_counter() > deadline and not refused:
                return None
        if refused:
            raise _Refusal(f"{len(refused):,} of {len(self.filters):,} subscriptions; the first: {refused[0]}")
        return matcher

    def _timed(self, matcher: BaseMatcher, deadline: float) -> tuple[list[float], list[list[Id]]]:
        times: list[float] = []
        answers: list[list[Id]] = []
        for event in self.events:
            started = time.perf_counter()
            answer = matcher.match(event)
            ended = time.perf_counter()
            times.append(ended - started)
            answers.append(answer)
            if ended > deadline and len(times) >= _FEWEST:
                break
        return times, answers


class _Refusal(WhimbrelError):
    """A matcher refused some of the subscriptions."""


def _recommended(measurements: Sequence[Measurement]) -> Measurement | None:
    """The fastest matcher; of those within a tenth of it, the one that is built soonest."""
    measured = [m for m in measurements if m.median_us is not None]
    if not measured:
        return None
    fastest = min(m.median_us or 0.0 for m in measured)
    return min((m for m in measured if (m.median_us or 0.0) <= _CLOSE * fastest), key=lambda m: m.build_seconds or 0.0)


def _reasons(best: Measurement, measurements: Sequence[Measurement], features: Features) -> tuple[str, ...]:
    assert best.median_us is not None
    about = (inspect.getdoc(inspect.getmodule(MATCHERS[best.matcher])) or "").partition("\n")[0]
    times = [f"{best.median_us:,.1f} us per event"]
    rivals = [m for m in measurements if m.median_us is not None and m is not best]
    for rival in rivals[:1] + [m for m in rivals[1:] if m.matcher == _REFERENCE]:
        assert rival.median_us is not None
        times.append(f"{rival.median_us / max(best.median_us, 0.01):,.1f} x faster than {rival.matcher}")
    out = [", ".join(times) + ".", about]
    close = [m.matcher for m in rivals if (m.median_us or 0.0) <= _CLOSE * best.median_us]
    if close:
        out.append(f"As fast within a tenth, but longer to build: {', '.join(close)}.")
    return (*out, *features.remarks)


def features_of(filters: Iterable[Filter], events: Sequence[Event], matches: float | None) -> Features:
    """The features of a sample.

    >>> filters = [Filter.parse("a = 1 AND b < 5"), Filter.parse("a = 2")]
    >>> features_of(filters, [Event({"a": 1})], 1.0).constructs
    {'equality': 0.6666666666666666, 'ranges': 0.3333333333333333}
    """
    filters = list(filters)
    conjunctions = [conjunction for filter in filters for conjunction in filter.conjunctions]
    found = Counter(construct for conjunction in conjunctions for construct in constructs(conjunction))
    mentioned = {name for conjunction in conjunctions for name in conjunction.attributes}
    lists = sum(any(len(event.keys(name)) > 1 for name in mentioned) for event in events)
    return Features(
        len(filters),
        len(conjunctions),
        len(events),
        len(mentioned),
        round(sum(len(c.constraints) + len(c.links) for c in conjunctions) / max(1, len(conjunctions)), 3),
        {name: count / found.total() for name, count in found.most_common()},
        round(sum(len(event.attributes) for event in events) / max(1, len(events)), 3),
        lists / max(1, len(events)),
        matches,
    )


def thinned(items: Sequence[T], most: int) -> list[T]:
    """At most that many of the items, evenly spread over all of them.

    >>> thinned(range(10), 3)
    [0, 3, 6]
    """
    return list(items) if len(items) <= most else [items[place * len(items) // most] for place in range(most)]
