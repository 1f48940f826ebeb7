"""The tables of the pipeline benchmark: the terminal shows them, and a page holds them."""

from __future__ import annotations

from collections.abc import Iterable

from whimbrel.lab.measure.benchmark_results import Result, ResultFiles, ResultTable, cells, verdict_cells
from whimbrel.lab.measure.benchmark_results import number as shown


def tables_of(result: Result) -> list[ResultTable]:
    """All tables of a run that have rows; the targets come first."""
    works = result["works"]
    found = [_verdicts(works)]
    found += [_side_by_side(work) for work in works if work["kind"] == "match"]
    found.append(_curve(work for work in works if work["kind"] == "curve"))
    for kind, table in {"stream": _stream, "open": _open, "compile": _compile, "handover": _handover}.items():
        found += [table(work) for work in works if work["kind"] == kind]
    return [table for table in found if table.rows]


def _verdicts(works: Iterable[Result]) -> ResultTable:
    rows = []
    for work in works:
        rows += [(work["name"], *verdict_cells(verdict), work["said"]) for verdict in work["verdicts"]]
    columns = ("work", "what", "target", "measured", "", "plain Spark, measured once")
    return ResultTable("The pipeline: targets", columns, tuple(rows))


def _side_by_side(work: Result) -> ResultTable:
    rows = []
    for one in work["competitors"]:
        low, high = min(one["measured"]), max(one["measured"])
        rows.append(
            (
                one["name"],
                shown(one["events"]) + ("*" if one["scaled"] else ""),
                shown(one["seconds"]),
                f"{shown(low)} to {shown(high)}",
                *cells(one, "cpu_seconds", "events_per_second", "times"),
            )
        )
    columns = ("competitor", "events", "seconds", "spread", "CPU s", "events/s", "x Whimbrel")
    per_event = work["pairs"] / max(work["events"], 1)
    title = (
        f"{work['name']}: {work['subscriptions']:,} subscriptions, {work['events']:,} events, "
        f"{work['pairs']:,} pairs ({per_event:,.1f} per event)"
    )
    notes = []
    if any(one["scaled"] for one in work["competitors"]):
        notes.append(
            "* As many events as it matches in the time that it is given; its seconds are scaled to all events, except "
            "for the fixed cost of a query. Spread and CPU time are those of the events it had."
        )
    return ResultTable(title, columns, tuple(rows), tuple(notes))


def _curve(works: Iterable[Result]) -> ResultTable:
    rows = []
    keys = (
        "subscriptions", "events", "matches_per_event", "us_per_event", "ns_per_pair", "seconds", "fixed",
        "compile_seconds",
    )  # fmt: skip
    for work in works:
        for point in work["points"]:
            rows.append((work["workload"], *cells(point, *keys)))
    columns = (
        "workload", "subscriptions", "events", "matches/event", "us/event", "ns/pair", "whole s", "of it fixed s",
        "compile s",
    )  # fmt: skip
    notes = ("Per event and pair without the fixed seconds, which a query over two events takes.",)
    return ResultTable("Growth with the number of subscriptions", columns, tuple(rows), notes)


def _stream(work: Result) -> ResultTable:
    full, even, figures = work["sustained"], work["even"], work["figures"]
    rows = (
        ("sustained events/s", shown(figures["events/s sustained"])),
        ("events per micro-batch, sustained", shown(full["events_per_batch"])),
        ("CPU us per event, sustained, all processes", shown(full["cpu_us_per_event"])),
        (f"median micro-batch at {even['rate']:,} events/s, ms", shown(figures["median micro-batch, ms"])),
        ("lowest, 95 %, highest, ms", " ".join(cells(even, "lowest_ms", "p95_ms", "highest_ms"))),
        ("micro-batches", shown(even["batches"])),
    )
    return ResultTable(f"{work['name']}", ("figure", ""), rows)


def _open(work: Result) -> ResultTable:
    keys = ("worker", "ms", "mapped_mb", "shared_mb", "private_mb", "process_private_mb")
    rows = tuple(cells(one, *keys) for one in work["workers"])
    columns = ("worker", "ms to open", "mapped MB in memory", "shared MB", "private MB", "private MB of the process")
    title = f"Opening an index of {work['index_mb']:,.0f} MB ({work['subscriptions']:,} subscriptions) in workers"
    return ResultTable(title, columns, rows)


def _compile(work: Result) -> ResultTable:
    spread = " to ".join(shown(one) for one in (min(work["measured"]), max(work["measured"])))
    row = (shown(work["subscriptions"]), shown(work["figures"]["seconds"]), spread)
    columns = ("subscriptions", "seconds", "spread", "subscriptions/s")
    return ResultTable(f"{work['name']}: from text", columns, ((*row, shown(work["subscriptions_per_second"])),))


def _handover(work: Result) -> ResultTable:
    rows = tuple((one["name"], *cells(one, "seconds", "rows_per_second")) for one in work["forms"])
    title = f"Handing {work['events']:,} events of 100 nullable columns to workers"
    return ResultTable(title, ("form", "seconds", "rows/s"), rows)


FILES = ResultFiles("pipeline", "<!-- pipeline results -->", "<!-- end of pipeline results -->", tables_of)
"""`pipeline.json`, `pipeline.md`, and the marks of docs/benchmarks.md."""
