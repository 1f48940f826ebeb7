"""How fast a large index changes, how long saving and opening take, and finding near misses.

Adding is from text; its mean includes the background merges that it causes. Times are wall time per call, in one
thread. `match` is measured alone, and again while another thread adds a thousand subscriptions a second. Subscriptions
and events are those of `lesubscribe`; near misses are searched among `mixed`.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.lab.measure.benchmark_results import Progress, Verdict, no_progress, report
from whimbrel.lab.measure.machine import card
from whimbrel.lab.measure.timing import Times
from whimbrel.lab.workloads import event_dicts, make
from whimbrel.model.errors import WhimbrelError

_LOAD = 800_000
"""Subscriptions that are generated and loaded in one call."""
_PER_SECOND = 1_000
"""Subscriptions that a thread adds in a second while another matches."""
_SEEN, _EXTRA = 1 << 40, 1 << 41
"""Ids that no workload uses: of the change that a match must see, and the first of those added between saves."""


@dataclass(frozen=True, slots=True)
class LiveSizes:
    """The sizes of one run; `missed` is the number of subscriptions among which near misses are searched."""

    subscriptions: int
    changes: int
    missed: int
    events: int
    repeat: int
    seconds: float


SMALL = LiveSizes(subscriptions=100_000, changes=5_000, missed=50_000, events=20, repeat=3, seconds=2.0)
FULL = LiveSizes(subscriptions=3_200_000, changes=60_000, missed=1_000_000, events=40, repeat=5, seconds=5.0)


class NotVisible(WhimbrelError):
    """A match did not see a change that was made before it."""


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Microseconds of calls of one kind. The mean is over the whole time until the last merge ended."""

    what: str
    calls: int
    median: float
    highest: float
    mean: float


def run(sizes: LiveSizes, progress: Progress = no_progress) -> dict[str, Any]:
    """Measure everything and return JSON-ready data with the machine card."""
    machine = card()
    _warm_up()
    index, events = _loaded(sizes, progress)
    rows = _changes(index, sizes, progress) + _matches(index, events, sizes, progress)
    kept = _save_and_open(index, events, sizes, progress)
    del index
    rows += _near_misses(sizes, progress)
    by_name = {row.what: row for row in rows}
    verdicts = [
        Verdict("add, us with merges", 50.0, by_name["add"].mean, least=False),
        Verdict("open, seconds", 1.0, kept["open"], least=False),
        Verdict("near misses, ms", 200.0, round(by_name["near_misses"].median / 1e3, 1), least=False),
        Verdict("explain, ms", 200.0, round(by_name["explain"].median / 1e3, 2), least=False),
    ]
    return report(machine, verdicts, sizes=asdict(sizes), calls=[asdict(row) for row in rows], seconds=kept)


def _warm_up() -> None:
    """Compile or load all kernels, including those of merges."""
    workload = make("mixed", n=5_000, events=1)
    index = Index()
    for id, filter in zip(*(workload.subscriptions[name].to_pylist() for name in ("id", "filter")), strict=True):
        index.add(id, filter)
    index.match(event_dicts(workload.events)[0])
    settle(index)


def _loaded(sizes: LiveSizes, progress: Progress) -> tuple[Index, list[dict[str, Any]]]:
    index = Index()
    for seed, first in enumerate(range(0, sizes.subscriptions, _LOAD)):
        count = min(_LOAD, sizes.subscriptions - first)
        progress(f"loading {first + count:,} of {sizes.subscriptions:,} subscriptions")
        subscriptions = make("lesubscribe", n=count, events=1, seed=seed).subscriptions
        index.add_many(subscriptions.set_column(0, "id", pa.array(range(first, first + count))))
    settle(index)
    return index, event_dicts(make("lesubscribe", n=1, events=sizes.events).events)


def _changes(index: Index, sizes: LiveSizes, progress: Progress) -> list[CallTimes]:
    """Time add, replace and remove, and check that the next match sees each kind of change."""
    texts = make("lesubscribe", n=sizes.changes, events=1, seed=99).subscriptions["filter"].to_pylist()
    ids = range(-1, -1 - len(texts), -1)
    kinds: list[tuple[str, Iterable[tuple[Any, ...]], Callable[..., None]]] = [
        ("add", zip(ids, texts, strict=True), index.add),
        ("replace", zip(ids, reversed(texts), strict=True), index.replace),
        ("remove", zip(ids, strict=True), index.remove),
    ]
    rows = []
    for what, changes, change in kinds:
        progress(f"{what}: {len(texts):,}")
        rows.append(_timed(what, (lambda c=change, a=one: c(*a) for one in changes), lambda: settle(index)))  # type: ignore[misc]
        _check_visible(index, change)
    return rows


def _check_visible(index: Index, change: Callable[..., None]) -> None:
    """Make one more change and check that the next match sees it."""
    change(_SEEN, *(["whimbrel = 2"] if change != index.remove else []))
    if (_SEEN in index.match({"whimbrel": 2})) is (change == index.remove):
        raise NotVisible(f"Expected the next match to see `{change.__name__}`, but it did not")


def _matches(index: Index, events: list[dict[str, Any]], sizes: LiveSizes, progress: Progress) -> list[CallTimes]:
    """Time single events with thousands of matches and with none, alone and while a thread adds."""
    progress("match, alone and while subscriptions come")
    kinds = {"match": events, "match of nothing": [{"whimbrel": -number} for number in range(1, 9)]}
    index.match(events[0])
    rows = [_timed(what, _matching(index, chosen, sizes.seconds)) for what, chosen in kinds.items()]
    with _adding(index, sizes):
        for what, chosen in kinds.items():
            rows.append(_timed(f"{what}, {_PER_SECOND:,} adds/s", _matching(index, chosen, sizes.seconds)))
    settle(index)
    return rows


def _matching(index: Index, events: list[dict[str, Any]], seconds: float) -> Iterator[Callable[[], object]]:
    """Calls that match one event after the other, for that many seconds."""
    until = time.monotonic() + seconds
    for event in cycle(events):
        yield lambda e=event: index.match(e)  # type: ignore[misc]
        if time.monotonic() > until:
            return


@contextmanager
def _adding(index: Index, sizes: LiveSizes) -> Iterator[None]:
    """A thread adds subscriptions at an even rate while the context is open."""
    texts = make("lesubscribe", n=sizes.changes, events=1, seed=98).subscriptions["filter"].to_pylist()
    stop = threading.Event()

    def add() -> None:
        begun, number = time.monotonic(), 0
        while not stop.wait(max(begun + number / _PER_SECOND - time.monotonic(), 0)):
            index.add(sizes.subscriptions + number, texts[number % len(texts)])
            number += 1

    thread = threading.Thread(target=add)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _save_and_open(
    index: Index, events: list[dict[str, Any]], sizes: LiveSizes, progress: Progress
) -> dict[str, float]:
    """Seconds to save, to save again after a hundred changes, to open, and of the first match after opening."""
    progress("save and open")
    with tempfile.TemporaryDirectory(prefix="whimbrel-live-") as home:
        folder = Path(home)
        first, again, opened, unverified, matched = (Times() for _ in range(5))
        first.of(lambda: index.save(folder / "index"))
        for number in range(sizes.repeat):
            for place in range(100):
                index.add(_EXTRA + 100 * number + place, f"whimbrel = {place}")
            again.of(lambda: index.save(folder / "index"))
            unverified.of(lambda: Index.open(folder / "index", verify=False))
            other = opened.of(lambda: Index.open(folder / "index"))
            event = events[number % len(events)]
            if matched.of(lambda o=other, e=event: o.match(e)) != index.match(event):  # type: ignore[misc]
                raise NotVisible("Expected the opened index to match as the saved one does, but it did not")
    parts = {"save": first, "save_again": again, "open": opened, "open_unverified": unverified, "first_match": matched}
    return {name: round(times.median_wall, 4) for name, times in parts.items()}


def _near_misses(sizes: LiveSizes, progress: Progress) -> list[CallTimes]:
    progress(f"near misses among {sizes.missed:,} subscriptions")
    workload = make("mixed", n=sizes.missed, events=sizes.events)
    index = Index()
    index.add_many(workload.subscriptions)
    settle(index)
    events = event_dicts(workload.events)
    ids = workload.subscriptions["id"].to_pylist()[: len(events)]
    index.near_misses(events[0])
    return [
        _timed("near_misses", (lambda e=event: index.near_misses(e) for event in events)),  # type: ignore[misc]
        _timed("explain", (lambda i=id, e=event: index.explain(i, e) for id, event in zip(ids, events, strict=True))),  # type: ignore[misc]
    ]


def settle(index: Index) -> None:
    """Wait until background merges have ended."""
    while index._subscriptions.segments.merging:
        time.sleep(0.005)


def _timed(what: str, calls: Iterable[Callable[[], object]], settle: Callable[[], None] = lambda: None) -> CallTimes:
    us, begun = [], time.perf_counter()
    for call in calls:
        started = time.perf_counter()
        call()
        us.append((time.perf_counter() - started) * 1e6)
    settle()
    mean = (time.perf_counter() - begun) * 1e6 / len(us)
    return CallTimes(what, len(us), round(statistics.median(us), 1), round(max(us), 1), round(mean, 1))
