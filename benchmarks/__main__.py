"""`python -m benchmarks`: the benchmarks of `whimbrel bench` that have rivals, beside all of them."""

from typing import Annotated

import typer

from benchmarks.rivals import MATCHING, PIPELINE
from whimbrel.cli.bench.match import measure_matching
from whimbrel.cli.bench.options import (
    Cache,
    Master,
    MatchOutput,
    Page,
    PipelineOutput,
    Repeat,
    ScaleChoice,
    ScaleOption,
    Start,
    Workloads,
    Works,
)
from whimbrel.cli.bench.output import Destination
from whimbrel.cli.bench.pipeline import measure_pipeline
from whimbrel.cli.main import run_program
from whimbrel.cli.terminal.options import Json, names_of
from whimbrel.lab.measure.matching.match_run import MatchSettings
from whimbrel.lab.measure.pipeline.pipeline_run import PipelineSettings
from whimbrel.lab.measure.workload_cache import default_folder

app = typer.Typer(
    help="Measure Whimbrel beside its rivals.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def run_all(context: typer.Context) -> None:
    """Measure Whimbrel beside its rivals; without a name, run both benchmarks."""
    if context.invoked_subcommand is None:
        match()
        pipeline()


@app.command()
def match(
    workload: Workloads = None,
    scale: ScaleOption = ScaleChoice.SMALL,
    rivals: Annotated[str, typer.Option("--rivals", metavar="A,B", help="Whom to run beside the engine.")] = (
        ",".join(MATCHING)
    ),
    output: MatchOutput = None,
    page: Page = None,
    repeat: Repeat = 5,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="For one rival on one workload.")] = 20.0,
    start: Start = True,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Events per second on the frozen workloads, beside rivals, with every answer checked.

    Exit status 1 if competitors do not find the same subscriptions.
    """
    names, folder = tuple(workload or ()), cache or default_folder()
    settings = MatchSettings(names, scale.value, names_of(rivals), repeat, seconds, start, folder)
    measure_matching(settings, MATCHING, Destination(output, page, json))


@app.command()
def pipeline(
    work: Works = None,
    scale: ScaleOption = ScaleChoice.SMALL,
    rivals: Annotated[str, typer.Option("--rivals", metavar="A,B", help="Plain Spark SQL to run beside it.")] = (
        ",".join(PIPELINE)
    ),
    output: PipelineOutput = None,
    page: Page = None,
    repeat: Repeat = 3,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="For one rival on one work.")] = 120.0,
    master: Master = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Matching on Spark beside plain Spark SQL, streaming, compiling and opening an index.

    Exit status 1 if a rival does not find as many pairs.
    """
    names, folder = tuple(work or ()), cache or default_folder()
    settings = PipelineSettings(names, scale.value, names_of(rivals), repeat, seconds, master, folder)
    measure_pipeline(settings, PIPELINE, Destination(output, page, json))


if __name__ == "__main__":
    run_program(app)
