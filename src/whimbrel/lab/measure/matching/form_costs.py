"""What an event costs in each form in which it may come: Arrow, JSON and dicts, many at once and one by one.

CPU time of one core, medians; all forms of a workload take turns and give the same number of matches. Bias: in a list
of texts or dicts all events have been made before, so that the memory caches hold less of them than of a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.lab.measure.benchmark_results import Progress, Verdict, check_names, no_progress, report
from whimbrel.lab.measure.machine import card
from whimbrel.lab.measure.matching.cases import Peer
from whimbrel.lab.measure.timing import Times, interleaved
from whimbrel.lab.workloads import event_dicts, make
from whimbrel.model.errors import WhimbrelError

ARROW, LINES, TEXTS, COLUMN, DICTS = (
    "Arrow table, match_blocks",
    "JSON lines, match_blocks",
    "list of JSON texts, match_blocks",
    "Arrow column of JSON, match_blocks",
    "list of dicts, match_blocks",
)
ONE_DICT, ONE_TEXT, DECODED = "one dict, match", "one JSON text, match", "JSON, msgspec then match"
TEXT_ROWS = "one JSON text, match_rows"
TARGETS: dict[str, dict[str, float]] = {
    LINES: {"hm": 1.6, "mixed": 14},
    DICTS: {"hm": 3, "mixed": 16},
    ONE_DICT: {"hm": 5, "mixed": 20, "lesubscribe": 130},
    ONE_TEXT: {"hm": 5, "mixed": 20, "lesubscribe": 130},
    TEXT_ROWS: {"hm": 4, "mixed": 19, "lesubscribe": 40},
}
"""Most microseconds per event, by form and workload, at full scale."""
ABOVE_ARROW = {LINES: 1.0, DICTS: 3.0}
"""Most microseconds of a form above those of Arrow, where an event matches thousands (lesubscribe)."""

PEERS = (
    Peer("event-ruler (Java)", 19.3, "from JSON"),
    Peer("quamina (Go)", 81.6, "from JSON"),
    Peer("be-tree (C)", 4.1, "from a prepared event, half the rules"),
)
"""What others take for one event of hm with 100,000 subscriptions. Quoted: measured apart on such a machine."""


@dataclass(frozen=True, slots=True)
class FormSizes:
    """Subscriptions of hm and mixed, and of lesubscribe; events, and those that are matched one by one."""

    subscriptions: int
    many: int
    events: int
    alone: int
    repeat: int


SMALL = FormSizes(subscriptions=10_000, many=20_000, events=4_096, alone=500, repeat=3)
FULL = FormSizes(subscriptions=100_000, many=1_000_000, events=16_384, alone=2_000, repeat=7)


class UnequalMatches(WhimbrelError):
    """Two forms of the same events have different numbers of matches."""


@dataclass(frozen=True, slots=True)
class FormCost:
    """CPU microseconds per event of one form, and matches per event."""

    workload: str
    form: str
    us: float
    matches: float


def run(sizes: FormSizes, only: Sequence[str] = (), progress: Progress = no_progress) -> dict[str, Any]:
    """Measure all forms on all workloads, or on `only` some; JSON-ready data with the machine card."""
    machine = card()
    loads: dict[str, dict[str, int | float]] = {
        "hm": {"n": sizes.subscriptions},
        "mixed": {"n": sizes.subscriptions},
        "lesubscribe": {"n": sizes.many, "p": 0.5},
    }
    check_names("a workload", only, loads)
    rows = [
        row
        for name, parameters in loads.items()
        if not only or name in only
        for row in _measured(name, parameters, sizes, progress)
    ]
    peers = [asdict(peer) for peer in PEERS]
    return report(machine, list(_verdicts(rows)), sizes=asdict(sizes), rows=[asdict(row) for row in rows], peers=peers)


def _measured(name: str, parameters: Mapping[str, int | float], sizes: FormSizes, progress: Progress) -> list[FormCost]:
    progress(f"{name}: {parameters['n']:,} subscriptions")
    workload = make(name, events=sizes.events, **parameters)
    index = Index()
    index.add_many(workload.subscriptions)
    progress(f"{name}: {sizes.events:,} events in all forms")
    forms = _forms(index, workload.events, sizes.alone)
    counts = {form: (work(), events) for form, (work, events) in forms.items()}  # warms up, too
    many = {found for found, events in counts.values() if events == sizes.events}
    alone = {found for found, events in counts.values() if events == sizes.alone}
    if len(many) > 1 or len(alone) > 1:
        raise UnequalMatches(f"Expected all forms of {name} to have the same matches, but got {counts}")
    times: list[Times] = interleaved([work for work, _ in forms.values()], sizes.repeat)
    return [
        FormCost(name, form, round(one.median_cpu * 1e6 / events, 3), round(counts[form][0] / events, 2))
        for (form, (_, events)), one in zip(forms.items(), times, strict=True)
    ]


def _forms(index: Index, table: pa.Table, alone: int) -> dict[str, tuple[Callable[[], int], int]]:
    """The work of each form, which returns the number of matches, and its number of events."""
    dicts = event_dicts(table)
    texts = [msgspec.json.encode(event) for event in dicts]

    def many(events: object) -> tuple[Callable[[], int], int]:
        return lambda: sum(len(rows) for _, rows in index.match_blocks(events, threads=1)), len(dicts)

    def each(events: Sequence[Any], match: Callable[[Any], Sized] = index.match) -> tuple[Callable[[], int], int]:
        some = events[:alone]
        return lambda: sum(len(match(event)) for event in some), len(some)

    return {
        ARROW: many(table),
        LINES: many(b"\n".join(texts)),
        TEXTS: many(texts),
        COLUMN: many(pa.array(texts, pa.binary())),
        DICTS: many(dicts),
        ONE_DICT: each(dicts),
        ONE_TEXT: each(texts),
        TEXT_ROWS: each(texts, index.match_rows),
        DECODED: each(texts, lambda text: index.match(msgspec.json.decode(text))),
    }


def _verdicts(rows: Sequence[FormCost]) -> Iterator[Verdict]:
    found = {(row.workload, row.form): row.us for row in rows}
    for form, targets in TARGETS.items():
        for name, most in targets.items():
            if (name, form) in found:
                yield Verdict(f"{name}: {form}, us", most, found[name, form], least=False)
    for form, above in ABOVE_ARROW.items():
        if ("lesubscribe", form) in found:
            most = round(found["lesubscribe", ARROW] + above, 1)
            yield Verdict(f"lesubscribe: {form}, us", most, found["lesubscribe", form], least=False)
