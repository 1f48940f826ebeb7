"""What both pages say about the results: their order, who wins, tables with a column per series, the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from whimbrel.lab.experiments import experiments
from whimbrel.lab.harness.claims import figure
from whimbrel.lab.harness.contenders import ENGINE
from whimbrel.lab.harness.measures import Measures
from whimbrel.lab.measure.benchmark_results import ResultTable
from whimbrel.lab.measure.machine import described

Record = dict[str, Any]
PAPER_TITLES = {
    "Gryphon": "Gryphon: the matching tree",
    "Survey": "Survey: RAPIDMatch and SGIM",
    "LeSub": "Le Subscribe: counting and clusters",
    "Spaces": "Subject spaces: publications that stay",
    "Prefix": "Prefix forwarding: routing in an overlay",
    "Beyond": "Beyond the papers",
}
MOST_ROWS = 60
NOT_RIVALS = ("all", "bound", "expected", "theorem", "paper")
"""Series that are no matcher."""


def in_order(records: Iterable[Record]) -> list[Record]:
    """The records in the order of the papers and of their figures."""
    known = {name: place for place, name in enumerate(experiments())}
    return sorted(records, key=lambda record: (known.get(record["name"], len(known)), record["name"]))


def by_paper(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The records of each paper."""
    out: dict[str, list[Record]] = {}
    for record in in_order(records):
        out.setdefault(record["paper"], []).append(record)
    return out


def winner(measures: Measures) -> str:
    """Name the series that is fastest at most points, and its lead.

    An empty text if only one series was timed, or the engine was not: then series are kinds of operations, not rivals.
    """
    names = [name for name in measures.names("time") if not name.startswith(NOT_RIVALS)]
    if not any(name.startswith(ENGINE) for name in names):
        return ""
    values = {name: measures.values("time", name) for name in names}
    wins: Counter[str] = Counter()
    places = {place for found in values.values() for place in found}
    leads: dict[str, list[float]] = {}
    for place in places:
        here = sorted((found[place], name) for name, found in values.items() if place in found)
        if len(here) > 1:
            wins[here[0][1]] += 1
            leads.setdefault(here[0][1], []).append(here[1][0] / max(here[0][0], 1e-9))
    if not wins:
        return ""
    name, times = wins.most_common(1)[0]
    total = sum(wins.values())
    where = "everywhere" if times == total else f"at {times} of {total} points"
    return f"{name} {where}, {figure(median(leads[name]))} x faster than the next"


def pivots(measures: Measures) -> list[ResultTable]:
    """A table for each measure: a row for each of at most `MOST_ROWS` points, a column for each series."""
    out = []
    for measure in dict.fromkeys(row["measure"] for row in measures.rows):
        rows = [row for row in measures.rows if row["measure"] == measure]
        axes = [name for name in measures.coordinates if any(name in row for row in rows)]
        names = list(dict.fromkeys(row["series"] for row in rows))
        cells: dict[tuple[Any, ...], dict[str, str]] = {}
        for row in rows:
            spread = f" ({figure(row['low'])} to {figure(row['high'])})" if row["high"] > row["low"] else ""
            cells.setdefault(tuple(row.get(name, "") for name in axes), {})[row["series"]] = (
                figure(row["value"]) + spread
            )
        unit = next((row["unit"] for row in rows if row.get("unit")), "")
        title = f"{measure}, {unit}" if unit else measure
        if len(cells) > MOST_ROWS:
            title += f" (the first {MOST_ROWS} of {len(cells)} points; the CSV has all)"
        lines = tuple(
            (*(_text(one) for one in place), *(found.get(name, "") for name in names))
            for place, found in list(cells.items())[:MOST_ROWS]
        )
        out.append(ResultTable(title, (*axes, *names), lines))
    return out


def machine_sentence(record: Record) -> str:
    """The machine card in one sentence."""
    machine = record["machine"]
    commit = f", commit {machine['commit']}" if machine["commit"] else ""
    loads = f"load average {machine['load']} at the start and {machine['load_at_end']} at the end"
    return f"{machine['date']}{commit}: {described(machine)}; {loads}"


def measured_sentence(records: Sequence[Record]) -> str:
    """When all results were measured, on which machine, of which commits and under which load."""
    machines = [record["machine"] for record in records]
    dates = sorted(str(machine["date"]) for machine in machines)
    loads = [load for machine in machines for load in (machine["load"], machine["load_at_end"])]
    commits = list(dict.fromkeys(str(machine["commit"]) for machine in machines if machine["commit"]))
    newest = max(machines, key=lambda machine: str(machine["date"]))
    of_commits = f", commit {' and '.join(commits)}" if commits else ""
    return (
        f"Measured until {dates[-1]}, the earliest result at {dates[0]}{of_commits}: {described(newest)}; "
        f"load average {min(loads):.1f} to {max(loads):.1f}."
    )


def was_busy(records: Iterable[Record]) -> bool:
    """Whether others used the machine while times were taken."""
    machines = [record["machine"] for record in records]
    return any(max(machine["load"], machine["load_at_end"]) > machine["cores"] for machine in machines)


def counts(records: Sequence[Record]) -> dict[str, int]:
    """How many results have each verdict."""
    found = Counter(verdict_word(record) for record in records)
    return {verdict: found[verdict] for verdict in ("reproduced", "partly", "not", "untestable", "measured")}


def verdict_word(record: Record) -> str:
    """The verdict; `measured` where no paper claims anything."""
    return str(record["verdict"]) if record["has_paper_claims"] else "measured"


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
