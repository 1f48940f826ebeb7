"""The group `whimbrel bench`, and its benchmarks without rivals: filters, cliffs, forms, changes, spaces, overlays."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.bench.bench_broker import broker
from whimbrel.cli.bench.output import PartOutput, PartScale, show, show_benchmark
from whimbrel.cli.bench.races import match, pipeline
from whimbrel.cli.terminal.console import to_json
from whimbrel.cli.terminal.options import Json
from whimbrel.lab.measure.benchmark_results import Result, ResultTable, number

if TYPE_CHECKING:
    from whimbrel.lab.measure.filter_parsing import Figure


def language(
    count: Annotated[int, typer.Option("--count", min=1_000, help="How many filters to read at once.")] = 1_000_000,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="How often each is measured; the median is shown.")
    ] = 3,
    json: Json = False,
) -> None:
    """Filters per second from SQL text.

    The shapes of texts (texts without their literals) are known in one measurement, and new in another.
    """
    from whimbrel.lab.measure.filter_parsing import SHAPES, run

    figures = run(count, repeats)
    if json:
        facts = {"count": count, "shapes": SHAPES, "python": platform.python_version()}
        sys.stdout.write(to_json({**facts, "figures": [figure._asdict() for figure in figures]}) + "\n")
    else:
        show([figures_table(figures)])


def figures_table(figures: list[Figure]) -> ResultTable:
    """The figures with their spread."""
    rows = tuple((name, unit, aim, *(f"{number:,.0f}" for number in numbers)) for name, unit, aim, *numbers in figures)
    return ResultTable("Reading filters", ("what", "unit", "aim", "median", "lowest", "highest"), rows)


def cliffs(
    form: Annotated[
        list[str] | None,
        typer.Option("--form", help="Only forms with this in their name, or loading, or matching; may be repeated."),
    ] = None,
    scale: PartScale = "small",
    output: PartOutput = None,
    json: Json = False,
) -> None:
    """Forms of filters, events and indexes that cost too much.

    Shows the microseconds of every form beside those of its plain neighbour, and which are above 4 x.
    """
    from whimbrel.lab.measure import cliffs

    show_benchmark("cliffs", cliffs, _cliff_tables, scale, output, json, form or ())


def _cliff_tables(result: Result) -> list[ResultTable]:
    note = f"Load average at the end: {result['machine']['load_at_end']}."
    loading = tuple(
        (row["form"], number(row["us"]), row["neighbour"], number(row["neighbour_us"]), *_ratio(row))
        for row in result["rows"]
        if row["kind"] == "loading"
    )
    matching = tuple(
        (
            row["form"], row["events_as"], number(row["us"]), number(row["matches"]), row["neighbour"],
            number(row["neighbour_us"]), number(row["neighbour_matches"]), *_ratio(row),
        )
        for row in result["rows"]
        if row["kind"] == "matching"
    )  # fmt: skip
    sizes = result["sizes"]
    beside = ("ratio", "per", "above 4 x")
    columns = ("form", "events as", "us", "matches", "beside", "us", "matches", *beside)
    return [
        ResultTable(
            f"Loading {sizes['loaded']:,} filters, CPU us per filter", ("form", "us", "beside", "us", *beside), loading
        ),
        ResultTable(
            f"Matching against {sizes['subscriptions']:,} subscriptions, CPU us per event", columns, matching, (note,)
        ),
    ]


def _ratio(row: Result) -> tuple[str, str, str]:
    return f"{row['ratio']:.2f}", row["per"], "**yes**" if row["is_cliff"] else ""


def forms(
    workload: Annotated[
        list[str] | None, typer.Option("--workload", help="Only this of hm, mixed and lesubscribe; may be repeated.")
    ] = None,
    scale: PartScale = "small",
    output: PartOutput = None,
    json: Json = False,
) -> None:
    """Microseconds of an event in every form.

    Events come as Arrow, JSON and dicts, many at once and one by one.
    """
    from whimbrel.lab.measure.matching import form_costs

    show_benchmark("forms", form_costs, _forms_tables, scale, output, json, workload or ())


def _forms_tables(result: Result) -> list[ResultTable]:
    names = list(dict.fromkeys(row["workload"] for row in result["rows"]))
    cells: dict[str, list[str]] = {}
    for row in result["rows"]:
        cells.setdefault(row["form"], []).append(f"{number(row['us'])} ({number(row['matches'])})")
    rows = tuple((form, *its) for form, its in cells.items())
    peers = "; ".join(f"{peer['name']} {number(peer['us_per_event'])}, {peer['remark']}" for peer in result["peers"])
    notes = (
        f"One event of hm at 100,000 subscriptions elsewhere, measured apart: {peers}.",
        f"Load average at the end: {result['machine']['load_at_end']}.",
    )
    return [ResultTable("CPU us per event, one core (matches per event)", ("form", *names), rows, notes)]


def live(scale: PartScale = "small", output: PartOutput = None, json: Json = False) -> None:
    """Microseconds to change a large index.

    Also to match meanwhile and to find near misses, and the seconds to save and to open it.
    """
    from whimbrel.lab.measure import live_changes

    show_benchmark("live", live_changes, _live_tables, scale, output, json)


def _live_tables(result: Result) -> list[ResultTable]:
    sizes = result["sizes"]
    title = f"An index of {sizes['subscriptions']:,} (near misses: {sizes['missed']:,}), us per call"
    columns = ("call", "calls", "median", "highest", "mean, merges included")
    rows = tuple(
        (row["what"], f"{row['calls']:,}", *(f"{row[key]:,.1f}" for key in ("median", "highest", "mean")))
        for row in result["calls"]
    )
    kept = ", ".join(f"{name.replace('_', ' ')} {seconds:g}" for name, seconds in result["seconds"].items())
    note = f"Seconds: {kept}. Load average at the end: {result['machine']['load_at_end']}."
    return [ResultTable(title, columns, rows, (note,))]


def spaces(
    scale: PartScale = "small",
    transitions: Annotated[
        bool, typer.Option("--transitions", help="Keyed publications on Spark instead; needs the extra spark.")
    ] = False,
    output: PartOutput = None,
    json: Json = False,
) -> None:
    """Microseconds of operations on subject spaces.

    On the paper's workload and on geofences, beside a compiled scan of all subscriptions.
    """
    from whimbrel.lab.measure import spaces_bench
    from whimbrel.lab.measure.pipeline import transitions_bench

    if transitions:
        show_benchmark("transitions", transitions_bench, _transitions_tables, scale, output, json)
    else:
        show_benchmark("spaces", spaces_bench, _spaces_tables, scale, output, json)


def _transitions_tables(result: Result) -> list[ResultTable]:
    sizes = result["sizes"]
    title = f"Transitions on Spark: {sizes['keys']:,} keys, {sizes['filters']:,} filters, medians of micro-batches"
    columns = ("rows", "batches", "notifications", "ms", "CPU ms", "lowest", "highest", "rows/s")
    keys = ("rows", "batches", "notifications", "ms", "cpu_ms", "lowest_ms", "highest_ms", "rows_per_second")
    rows = (tuple("" if row[key] is None else f"{row[key]:,.0f}" for key in keys) for row in result["transitions"])
    return [ResultTable(title, columns, tuple(rows))]


def _spaces_tables(result: Result) -> list[ResultTable]:
    columns = ("operation", "notifications", "us", "lowest", "highest", "scan us", "x scan")
    linear = result["linear"]
    note = (
        f"Time by transitions: {linear['us_fixed']:,} us + {linear['us_per_transition']} us each, "
        f"correlation {linear['correlation']}. Load average at the end: {result['machine']['load_at_end']}."
    )
    return [
        ResultTable("Workload of the paper", columns, tuple(map(_cells, result["paper"])), (note,)),
        ResultTable("Geofences", columns, tuple(map(_cells, result["geofences"]))),
    ]


def _cells(row: Result) -> tuple[str, ...]:
    scan = row["scan_us"]
    ratio = ("", "") if scan is None else (f"{scan:,.0f}", f"{scan / row['us']:.1f}")
    times = (f"{row[key]:,.1f}" for key in ("us", "lowest", "highest"))
    return row["what"], f"{row['notifications']:,}", *times, *ratio


def overlay(scale: PartScale = "small", output: PartOutput = None, json: Json = False) -> None:
    """Work per event of routing by prefix, beside SIENA.

    In one simulation; then the steps of one router, and a chain of 3 brokers.
    """
    from whimbrel.lab.measure import overlay_bench

    show_benchmark("overlay", overlay_bench, _overlay_tables, scale, output, json)


def _overlay_tables(result: Result) -> list[ResultTable]:
    names = ("work_per_event", "content_matches_per_event", "hops_per_event", "edge_checks", "deliveries")
    return [
        ResultTable(
            f"27 routers, {result['sizes']['filters']:,} filters, {result['sizes']['events']:,} events",
            ("", "prefix", "siena"),
            tuple(
                (name.replace("_", " "), *(f"{result[kind][name]:,}" for kind in ("prefix", "siena"))) for name in names
            ),
        ),
        ResultTable(
            "One router",
            ("", ""),
            tuple((name.replace("_", " "), f"{value:,}") for name, value in result["steps"].items()),
        ),
        ResultTable(
            f"A chain of 3 brokers, {result['sizes']['chain_filters']:,} filters",
            ("", "events/s", "middle router, CPU us/event", "matches at each"),
            tuple(
                (
                    mode,
                    f"{found['events_per_second']:,}",
                    f"{found['middle_router_cpu_us_per_event']:,}",
                    ", ".join(f"{count:,}" for count in found["content_matches"]),
                )
                for mode, found in result["chain"].items()
            ),
        ),
    ]


bench = typer.Typer(rich_markup_mode=None)


@bench.callback(invoke_without_command=True)
def run_all(context: typer.Context) -> None:
    """Measure how fast Whimbrel is on this machine.

    Without a command it runs language, match and pipeline.
    """
    if context.invoked_subcommand is None:
        language()
        match()
        pipeline()


for command in (language, match, forms, cliffs, live, spaces, pipeline, broker, overlay):
    bench.command()(command)
