"""The tables of the matching benchmark: the terminal shows them, and a page holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whimbrel.lab.measure.benchmark_results import Result, ResultFiles, ResultTable, cells, number, verdict_cells


def tables_of(result: Result) -> list[ResultTable]:
    """All tables of a run: the engine first, then a table for each race."""
    workloads = result["workloads"]
    found = [_targets(workloads)]
    for workload in workloads:
        main, *apart = workload["fields"]
        empty = [field for field in apart if all("refused" in one for one in field["competitors"][1:])]
        found.append(_side_by_side(workload, main, [one for field in empty for one in field["competitors"][1:]]))
        found += [_side_by_side(workload, field) for field in apart if field not in empty]
    found += [_building(workloads), _calls(workloads)]
    if result["start"]:
        found.append(_start(result["start"]))
    verdicts = _verdicts(result)
    return [*found, verdicts] if verdicts.rows else found


def _targets(workloads: Iterable[Result]) -> ResultTable:
    rows = []
    for workload in workloads:
        engine = workload["fields"][0]["competitors"][0]
        others = workload["fields"][0]["competitors"]
        naive = next((one for one in others if one["name"] == "compiled naive" and "refused" not in one), None)
        met = {verdict["what"]: verdict["met"] for verdict in workload["verdicts"]}
        target, peer = workload["target"], workload["peer"]
        ratio = None if naive is None else naive["cpu_us"] / engine["cpu_us"]
        rows.append(
            (
                workload["name"],
                number(workload["fields"][0]["subscriptions"]),
                *cells(engine, "matches_per_event", "cpu_us", "ns_per_match", "events_per_second"),
                _aim(target["events_per_second"], met.get("events/s")) if target else "",
                number(ratio),
                _aim(target["times_naive"], met.get("times compiled naive")) if target else "",
                f"{peer['name']}: {number(peer['us_per_event'])} us" if peer else "",
            )
        )
    columns = (
        "workload", "subscriptions", "matches/event", "us/event", "ns/match", "events/s", "target", "x naive", "target",
        "strongest peer, measured apart",
    )  # fmt: skip
    return ResultTable("The engine, one core", columns, tuple(rows), ("Targets are for the full sizes.",))


def _side_by_side(workload: Result, field: Result, refused: Sequence[Result] = ()) -> ResultTable:
    rows = []
    for one in field["competitors"]:
        if "refused" in one:
            continue
        rows.append(
            (
                one["name"],
                number(one["events"]) + ("*" if one["scaled"] else ""),
                *cells(one, "matches_per_event", "cpu_us"),
                " to ".join(cells(one, "cpu_us_lowest", "cpu_us_highest")),
                *cells(one, "wall_us", "events_per_second", "ns_per_match"),
                *cells(one, "times_engine", "load_seconds", "bytes_per_subscription"),
            )
        )
    scaled = any(one.get("scaled") for one in field["competitors"])
    columns = (
        "competitor", "events", "matches/event", "us/event", "spread", "wall us/event", "events/s", "ns/match",
        "x engine", "load s", "bytes/sub",
    )  # fmt: skip
    title = (
        f"{workload['name']}, {field['subscriptions']:,} subscriptions, {field['matches_per_event']:,.2f} matches/event"
    )
    notes = ["* The first events only, as many as it matches in the time that it is given."] if scaled else []
    notes += _refusals([*(one for one in field["competitors"] if "refused" in one), *refused])
    return ResultTable(title, columns, tuple(rows), tuple(notes))


def _refusals(refused: Iterable[Result]) -> list[str]:
    """One sentence with those that do not take part, grouped by the reason."""
    reasons: dict[str, list[str]] = {}
    for one in refused:
        reasons.setdefault(one["refused"], []).append(one["name"])
    told = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    return [f"Not taking part: {told}."] if told else []


def _building(workloads: Iterable[Result]) -> ResultTable:
    rows = []
    rates = ("from_columns_per_second", "from_text_per_second", "from_text_both_cores_per_second")
    for workload in workloads:
        engine = workload["engine"]
        build = engine["build"]
        sizes = cells(engine, "bytes_per_subscription", "text_bytes_per_subscription")
        rows.append((workload["name"], *cells(build["whole"], "seconds"), *cells(build, *rates), *sizes))
    columns = (
        "workload", "build s", "subs/s from columns", "from text, one core", "from text, two cores", "bytes/sub",
        "text bytes/sub",
    )  # fmt: skip
    notes = ("The load on one core is of the first 100,000 subscriptions; small loads use no second core.",)
    return ResultTable("Building and memory", columns, tuple(rows), notes)


def _calls(workloads: Iterable[Result]) -> ResultTable:
    rows = []
    for workload in workloads:
        engine = workload["engine"]
        batch, single = cells(engine["batch"], "events_per_second", "times_blocks"), engine["single"]
        outside = f"{single['outside_kernel']:.0%}"
        times = cells(single, "median_us", "p99_us")
        rows.append((workload["name"], *batch, *times, outside, *cells(engine, "both_cores")))
    columns = (
        "workload", "match_batch events/s", "x match_blocks", "match, median us", "p99 us", "outside the kernel",
        "both cores, x one",
    )  # fmt: skip
    return ResultTable("Batches, single events, both cores", columns, tuple(rows))


def _start(start: Result) -> ResultTable:
    columns = ("start", "whole s", "CPU s", "import", "load", "first match", "first batch")
    parts = ("seconds", "cpu_seconds", "import", "load", "first_match", "first_batch")
    rows = tuple((kind, *cells(start[kind], *parts)) for kind in ("cold", "warm"))
    said = "says" if start["cold"]["said_so"] else "does not say"
    notes = (f"The cold start {said} on standard error what it is doing.",)
    return ResultTable("Start of a process", columns, rows, notes)


def _verdicts(result: Result) -> ResultTable:
    rows = []
    groups = [(workload["name"], workload["verdicts"]) for workload in result["workloads"]]
    for name, verdicts in [*groups, ("start", (result["start"] or {}).get("verdicts", ()))]:
        rows += [(name, *verdict_cells(verdict)) for verdict in verdicts]
    return ResultTable("All targets", ("workload", "what", "target", "measured", ""), tuple(rows))


def _aim(target: float, met: bool | None) -> str:
    return number(target) + {True: " met", False: " **missed**", None: ""}[met]


FILES = ResultFiles("match", "<!-- results -->", "<!-- end of results -->", tables_of)
"""`match.json`, `match.md`, and the marks of docs/benchmarks.md."""
