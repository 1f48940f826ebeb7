"""The group `whimbrel lab`, and its experiments: list them, run them, report what came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from whimbrel.cli.lab.matchers import advise, matchers
from whimbrel.cli.terminal.console import print_columns, progress, say, to_json
from whimbrel.cli.terminal.options import Json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

lab = typer.Typer(help="The papers: their matchers and their experiments.", no_args_is_help=True, rich_markup_mode=None)
lab.command()(matchers)
lab.command()(advise)


LabScale = Literal["tiny", "small", "paper", "full"]
Output = Annotated[Path, typer.Option("--output", metavar="DIR", help="Where results are, and are written.")]
DEFAULT_OUTPUT = Path("lab-results")


@lab.command("list")
def list_(json: Json = False) -> None:
    """List every experiment: the figure or claim of a paper that it tests."""
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
        LabScale, typer.Option("--scale", help="Seconds, minutes, the paper's sizes, or beyond.")
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
                    mark = {True: "+", False: "-", None: "?"}[claim["holds"]]
                    typer.echo(f"            {mark} {claim['claim']}: {claim['found']}")

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
    """Write report.html: one page with every plot, table and verdict, which needs no network."""
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
