"""How much more each form of filter, event and index costs than its plain neighbour.

CPU time of one core, medians; a form and its neighbour take turns. A matching form is measured for every form
of events. Bias: filters and events are generated, and what costs much among few subscriptions need not among many.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.lab.measure.benchmark_results import Progress, UnknownName, Verdict, no_progress, report
from whimbrel.lab.measure.cliff_forms import LOAD_FORMS, MATCH_FORMS, LoadForm, MatchForm, SourceFields
from whimbrel.lab.measure.live_changes import settle
from whimbrel.lab.measure.machine import card
from whimbrel.lab.measure.timing import Times, affordable, interleaved

HIGHEST_RATIO = 4.0
_LEAST_EVENTS = 64
"""Events of one run, at least: what a call costs by itself must not count much."""


@dataclass(frozen=True, slots=True)
class CliffSizes:
    """The sizes of one run; `seconds` is for one run of one form."""

    subscriptions: int
    loaded: int
    events: int
    repeat: int
    seconds: float


SMALL = CliffSizes(subscriptions=20_000, loaded=10_000, events=4_000, repeat=5, seconds=0.04)
FULL = CliffSizes(subscriptions=100_000, loaded=100_000, events=20_000, repeat=9, seconds=0.2)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a form costs beside its neighbour: CPU microseconds per event, or per filter.

    `ratio` is the lowest of those that may be compared, and `per` says which: per event, filter, match, or byte of the
    event or filter.
    """

    kind: str
    form: str
    events_as: str
    neighbour: str
    us: float
    neighbour_us: float
    matches: float
    neighbour_matches: float
    ratio: float
    per: str

    @property
    def is_cliff(self) -> bool:
        """Whether the form costs more than it should."""
        return self.ratio > HIGHEST_RATIO


def run(sizes: CliffSizes, only: Sequence[str] = (), progress: Progress = no_progress) -> dict[str, Any]:
    """Measure all forms, or those whose names contain one of `only`; JSON-ready data with the machine card."""
    kinds = {"loading": [form.name for form in LOAD_FORMS], "matching": [form.name for form in MATCH_FORMS]}
    for part in only:
        if part not in kinds and not any(part in name for names in kinds.values() for name in names):
            raise UnknownName("loading, matching, or a part of the name of a form", part)
    machine = card()
    rows = [*_loading(sizes, only, progress), *_matching(sizes, only, progress)]
    cliffs = [Verdict(f"forms above {HIGHEST_RATIO:g} x", 0, sum(row.is_cliff for row in rows), least=False)]
    figures = [{**asdict(row), "is_cliff": row.is_cliff} for row in rows]
    return report(machine, cliffs, sizes=asdict(sizes), rows=figures)


def _chosen(kind: str, names: Iterable[str], only: Sequence[str]) -> set[str]:
    """The names of forms to measure; `only` may also hold `loading` and `matching`."""
    return {name for name in names if not only or kind in only or any(part in name for part in only)}


def _texts(form: LoadForm | MatchForm, count: int, seed: int = 0) -> list[str]:
    source = Random(f"{form.name} {seed}")
    return [form.filter.format_map(SourceFields(source)) for _ in range(count)]


def _loading(sizes: CliffSizes, only: Sequence[str], progress: Progress) -> Iterator[Comparison]:
    forms = {form.name: form for form in LOAD_FORMS}
    chosen = _chosen("loading", forms, only)
    for form in LOAD_FORMS:
        if form.name not in chosen:
            continue
        progress(f"loading: {form.name}")
        plain = forms[form.neighbour]
        times, lengths = (Times(), Times()), [0, 0]
        for seed in range(sizes.repeat + 1):
            for one, (kind, spent) in enumerate(zip((form, plain), times, strict=True)):
                texts = _texts(kind, sizes.loaded, seed)
                lengths[one] += sum(map(len, texts))
                Times().of(lambda t=texts: _load(t)) if seed == 0 else spent.of(lambda t=texts: _load(t))  # type: ignore[misc]
        us, beside = (spent.median_cpu * 1e6 / sizes.loaded for spent in times)
        ratios = {"filter": us / beside, "byte": us / beside / (lengths[0] / lengths[1])}
        yield _compared("loading", form.name, "text", form.neighbour, (us, beside), (0.0, 0.0), ratios)


def _load(texts: list[str], timestamps: tuple[str, ...] = ()) -> Index:
    index = Index(timestamps)
    index.add_many(pa.table({"id": range(len(texts)), "filter": texts}))
    return index


@dataclass(slots=True)
class _Loaded:
    """An index and events of one form."""

    index: Index
    events: list[dict[str, Any]]
    table: pa.Table
    lines: list[bytes]


EVENT_FORMS: dict[str, Callable[[_Loaded, int], int]] = {
    "Arrow": lambda loaded, count: _block_matches(loaded.index, loaded.table.slice(0, count)),
    "dicts": lambda loaded, count: _block_matches(loaded.index, loaded.events[:count]),
    "dict": lambda loaded, count: sum(len(loaded.index.match(event)) for event in loaded.events[:count]),
    "JSON lines": lambda loaded, count: _block_matches(loaded.index, loaded.lines[:count]),
    "JSON": lambda loaded, count: sum(len(loaded.index.match(line)) for line in loaded.lines[:count]),
}
"""The forms that events come in; each returns how many pairs matched."""


def _block_matches(index: Index, events: object) -> int:
    return sum(len(rows) for _, rows in index.match_blocks(events, threads=1))


def _matching(sizes: CliffSizes, only: Sequence[str], progress: Progress) -> Iterator[Comparison]:
    forms = {form.name: form for form in MATCH_FORMS}
    chosen = _chosen("matching", forms, only)
    kept: dict[tuple[str, int], _Loaded] = {}

    def loaded(form: MatchForm, divide: int) -> _Loaded:
        if (form.name, divide) not in kept:
            kept[form.name, divide] = _loaded(form, sizes, divide)
        return kept[form.name, divide]

    neighbours = {form.neighbour for form in MATCH_FORMS}
    for form in MATCH_FORMS:
        if form.name not in chosen:
            continue
        progress(f"matching: {form.name}")
        mine, plain = loaded(form, form.divide), loaded(forms[form.neighbour], form.divide)
        for events_as in EVENT_FORMS:
            yield _match_both(form, events_as, mine, plain, sizes)
        if form.name not in neighbours:
            del kept[form.name, form.divide]


def _loaded(form: MatchForm, sizes: CliffSizes, divide: int) -> _Loaded:
    texts = _texts(form, max(1, sizes.subscriptions // divide))
    index = _load(texts, form.timestamps)
    if form.change is not None:
        form.change(index, texts)
        settle(index)
    source = Random(form.name)
    events = [form.event(source) for _ in range(sizes.events)]
    lines = [json.dumps(event, ensure_ascii=False).encode() for event in events]
    return _Loaded(index, events, pa.Table.from_pylist(events), lines)


def _match_both(form: MatchForm, events_as: str, mine: _Loaded, plain: _Loaded, sizes: CliffSizes) -> Comparison:
    match = EVENT_FORMS[events_as]
    both = (mine, plain)
    least = min(sizes.events, _LEAST_EVENTS)
    counts = [
        affordable(lambda n, one=one: match(one, n), sizes.events, sizes.seconds, first=least, clock=time.process_time)  # type: ignore[misc]
        for one in both
    ]
    found = [match(one, count) / count for one, count in zip(both, counts, strict=True)]
    works = [lambda one=one, n=count: match(one, n) for one, count in zip(both, counts, strict=True)]
    times = interleaved(works, sizes.repeat)
    us, beside = (spent.median_cpu * 1e6 / count for spent, count in zip(times, counts, strict=True))
    ratios = {"event": us / beside, "match": us / beside * (1 + found[1]) / (1 + found[0])}
    if form.per_byte:
        longer = sum(map(len, mine.lines)) / sum(map(len, plain.lines))
        ratios["byte"] = us / beside / longer
    return _compared("matching", form.name, events_as, form.neighbour, (us, beside), (found[0], found[1]), ratios)


def _compared(
    kind: str, form: str, events_as: str, neighbour: str, us: tuple[float, float], matches: tuple[float, float],
    ratios: dict[str, float],
) -> Comparison:  # fmt: skip
    per = min(ratios, key=ratios.__getitem__)
    times, found = (tuple(round(value, 3) for value in pair) for pair in (us, matches))
    return Comparison(
        kind, form, events_as, neighbour, times[0], times[1], found[0], found[1], round(ratios[per], 2), per
    )
