"""`whimbrel bench overlay`: what routing by prefix saves."""

from __future__ import annotations

from whimbrel.cli.bench.output import PartOutput, PartScale, ScaleChoice, show_with_verdicts
from whimbrel.cli.terminal.console import say
from whimbrel.cli.terminal.options import Json
from whimbrel.lab.measure.benchmark_results import ResultTable, no_progress


def overlay(scale: PartScale = ScaleChoice.SMALL, output: PartOutput = None, json: Json = False) -> None:
    """Work per event with prefixes and as SIENA in one simulation, the steps of a router, and a chain of 3 brokers."""
    from whimbrel.lab.measure.overlay_bench import FULL, SMALL, run

    result = run(FULL if scale is ScaleChoice.FULL else SMALL, no_progress if json else say)
    names = ("work_per_event", "content_matches_per_event", "hops_per_event", "edge_checks", "deliveries")
    tables = [
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
    show_with_verdicts("overlay", result, tables, output, json)
