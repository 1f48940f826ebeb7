"""The group `whimbrel lab`: its matchers and advice on them; its experiments, their runs and reports."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from whimbrel.cli.terminal.console import print_columns, progress, say, to_json
from whimbrel.cli.terminal.options import From, Json, Timestamps, names_of
from whimbrel.cli.terminal.rejects import RejectReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

lab = typer.Typer(help="The papers: their matchers and their experiments.", no_args_is_help=True, rich_markup_mode=None)
LabScale = Literal["tiny", "small", "paper", "full"]
Output = Annotated[
    Path, typer.Option("--output", metavar="DIR", file_okay=False, help="Where results are, and are written.")
]
DEFAULT_OUTPUT = Path("lab-results")


@lab.command()
def matchers(json: Json = False) -> None:
    """List every matcher, its paper and what it supports."""
    from whimbrel.lab.catalogue import catalogue

    entries = catalogue()
    if json:
        for entry in entries:
            typer.echo(to_json(asdict(entry)))
        return
    rows = [("matcher", "papers", "section", "supports")]
    rows += [(entry.name, ", ".join(entry.papers), entry.section, entry.scope) for entry in entries]
    print_columns(rows)


@lab.command()
def advise(
    subscriptions: Annotated[
        str, typer.Option("--subscriptions", "-s", metavar="FILE", help="File of id, filter and optionally dialect.")
    ],
    events: Annotated[str, typer.Option("--events", "-e", metavar="FILE", help="File of events.")],
    seconds: Annotated[
        float, typer.Option("--seconds", min=1.0, help="About how many seconds to measure, in all.")
    ] = 30.0,
    most: Annotated[
        int, typer.Option("--most", min=1, help="Use at most this many subscriptions, evenly chosen.")
    ] = 20_000,
    most_events: Annotated[
        int, typer.Option("--most-events", min=1, help="Use at most this many events, evenly chosen.")
    ] = 1_000,
    matcher: Annotated[
        list[str] | None, typer.Option("--matcher", help="Measure only this one and naive; may be repeated.")
    ] = None,
    from_: From = None,
    timestamps: Timestamps = "",
    json: Json = False,
) -> None:
    """Measure every matcher on a sample, recommend one and say why.

    Files are JSON lines, CSV or Parquet. Matchers that refuse a subscription or an event of the sample are listed with
    the reason. Exit status: 0 all good, 1 some input was refused or no matcher takes the sample, 2 wrong usage.
    """
    from whimbrel.lab.advisor import advise as measure
    from whimbrel.lab.advisor import thinned
    from whimbrel.lab.measure.benchmark_results import check_names
    from whimbrel.matchers import MATCHERS
    from whimbrel.readers.events import parse_events
    from whimbrel.readers.subscription_rows import parse_subscriptions

    if subscriptions == events == "-":
        raise typer.BadParameter("Expected - only once, because standard input can be read only once")
    check_names("a matcher", matcher or (), MATCHERS)
    names = names_of(timestamps)
    with RejectReport(json) as report:
        filters = dict(report.accepted("subscription", parse_subscriptions(subscriptions, from_)))
        mentioned = {name for filter in filters.values() for name in filter.attributes}
        found = list(report.accepted("event", parse_events([events], from_, mentioned, names)))
        with progress("Measuring", total=1.0, quiet=json) as bar:
            advice = measure(
                thinned(list(filters.items()), most),
                thinned(found, most_events),
                seconds,
                matcher,
                names,
                lambda name, share: bar.update(share, name),
            )
        typer.echo(to_json(asdict(advice)) if json else advice.text)
        if report.rejected or advice.recommended is None:
            raise typer.Exit(1)


@lab.command("list")
def list_(json: Json = False) -> None:
    """List every experiment, and the figure or claim that it tests."""
    from whimbrel.lab.experiments import experiments

    found = experiments()
    if json:
        typer.echo(to_json([one.to_dict() for one in found.values()]))
        return
    rows = [("name", "paper", "figure", "question")]
    rows += [(one.name, one.paper, one.figure, one.question) for one in found.values()]
    print_columns(rows)


@lab.command()
def run(
    name: Annotated[list[str] | None, typer.Argument(help="Names of experiments, as `lab list` has them.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Run every experiment.")] = False,
    scale: Annotated[
        LabScale, typer.Option("--scale", help="How large: for seconds, for minutes, as in the paper, or beyond.")
    ] = "small",
    output: Output = DEFAULT_OUTPUT,
    master: Annotated[str, typer.Option("--master", help="Where Spark counts what is not timed.")] = "local[*]",
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Count on Spark, or in this process.")] = True,
    json: Json = False,
) -> None:
    """Run experiments: a table, a plot and a verdict for each.

    What was measured by this version of the code is not measured again, so an interrupted run goes on where it stopped.
    Exit status: 0 all were run, 1 something went wrong, 2 wrong usage, 130 interrupted. A verdict of `not` is a result.
    """
    from whimbrel.lab.experiments import experiment, experiments
    from whimbrel.lab.harness.panels import MARKS
    from whimbrel.lab.harness.running import run_experiments
    from whimbrel.lab.report.report_contents import verdict_word

    if bool(name) == all_:
        raise typer.BadParameter("Expected names of experiments or --all, and not both")
    chosen = list(experiments().values()) if all_ else [experiment(one) for one in dict.fromkeys(name or ())]
    with progress("Experiments", total=1.0, quiet=json) as bar:

        def told(record: dict[str, Any]) -> None:
            if not json:
                typer.echo(f"{verdict_word(record):<11} {record['name']}")
                for claim in record["claims"]:
                    typer.echo(f"            {MARKS[claim['holds']]} {claim['claim']}: {claim['found']}")

        try:
            records = run_experiments(
                chosen,
                scale,
                output,
                (lambda: _session(master)) if spark else None,
                lambda share, what, left: bar.update(share, f"{what} {left}"),
                told,
            )
        except KeyboardInterrupt:
            say(f"Interrupted. What is done is in {output}; the same command goes on from there")
            raise typer.Exit(130) from None
    if json:
        keys = ("name", "scale", "verdict", "claims", "files", "version")
        typer.echo(to_json([{key: record[key] for key in keys} for record in records]))
    else:
        typer.echo(f"Wrote {output / scale}; whimbrel lab report --output {output} makes a page of it")


def _session(master: str) -> SparkSession:
    from whimbrel.pipeline.spark.session import session

    return session(master, name="whimbrel lab")


@lab.command()
def report(
    output: Output = DEFAULT_OUTPUT,
    scale: Annotated[
        LabScale | None, typer.Option("--scale", help="Only results of this scale; else the largest there is of each.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Also write a summary in Markdown with its plots.")
    ] = None,
    json: Json = False,
) -> None:
    """Write report.html, a page with all results.

    It has every plot, table and verdict, and needs no network.
    """
    from whimbrel.lab.harness.result_store import read_results
    from whimbrel.lab.report.html_page import write_page
    from whimbrel.lab.report.summary import write_summary

    records = read_results(output, scale)
    files = [write_page(records, output / "report.html")]
    if markdown is not None:
        files += write_summary(records, markdown)
    if json:
        typer.echo(to_json({"files": [str(path) for path in files], "experiments": len(records)}))
    else:
        for path in files:
            typer.echo(f"Wrote {path}")
