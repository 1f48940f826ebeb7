"""`whimbrel bench`: how fast is it here? Without a name, every benchmark runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from whimbrel.cli.terminal.options import Json, names_of


class Scale(StrEnum):
    """How large the workloads are."""

    SMALL = "small"
    FULL = "full"


bench = typer.Typer(help="Measure how fast Whimbrel is on this machine.", rich_markup_mode=None)


@bench.callback(invoke_without_command=True)
def run_all(context: typer.Context) -> None:
    """Measure how fast Whimbrel is on this machine; without a name, run every benchmark."""
    if context.invoked_subcommand is None:
        language()
        match()
        pipeline()


@bench.command()
def language(
    count: Annotated[int, typer.Option("--count", min=1_000, help="How many filters to read at once.")] = 1_000_000,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="How often; the median is shown.")] = 3,
    json: Json = False,
) -> None:
    """Filters per second from SQL text, with shapes that are known and shapes that are new."""
    from whimbrel.lab.measure.parsing import run

    run(count, repeats, json)


@bench.command()
def match(
    workload: Annotated[
        list[str] | None, typer.Option("--workload", help="Only this workload or family; may be repeated.")
    ] = None,
    scale: Annotated[Scale, typer.Option("--scale", help="Minutes, or the sizes that targets are for.")] = Scale.SMALL,
    rivals: Annotated[str, typer.Option("--rivals", metavar="A,B", help="Whom to run beside the engine.")] = (
        "naive,duckdb,polars,papers"
    ),
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Write match.json and match.md there.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Put the tables between the marks of this page.")
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="How often; medians are shown.")] = 5,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="For one rival on one workload.")] = 20.0,
    start: Annotated[bool, typer.Option(help="Measure cold and warm start, too.")] = True,
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="DIR", help="Where generated workloads are kept.")
    ] = None,
    json: Json = False,
) -> None:
    """Events per second on the frozen workloads, beside rivals, with every answer checked.

    Needs a checkout, which has the rivals. Exit status 1 if competitors do not find the same subscriptions.
    """
    from whimbrel.cli.bench.match import measure
    from whimbrel.lab.measure.matching.match_run import MatchSettings
    from whimbrel.lab.measure.workload_cache import default_folder

    names = tuple(workload or ())
    folder = cache or default_folder()
    measure(MatchSettings(names, scale.value, names_of(rivals), repeat, seconds, start, folder), output, page, json)


@bench.command()
def live(
    scale: Annotated[Scale, typer.Option("--scale", help="A minute, or the sizes that targets are for.")] = Scale.SMALL,
    output: Annotated[Path | None, typer.Option("--output", metavar="DIR", help="Write live.json there.")] = None,
    json: Json = False,
) -> None:
    """Microseconds to change a large index and to match meanwhile, seconds to save and open it; near misses."""
    from whimbrel.cli.bench.live import measure

    measure(scale.value, output, json)


@bench.command()
def spaces(
    scale: Annotated[Scale, typer.Option("--scale", help="A minute, or the sizes that targets are for.")] = Scale.SMALL,
    transitions: Annotated[
        bool, typer.Option("--transitions", help="Keyed publications on Spark instead; needs the extra spark.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Write spaces.json or transitions.json there.")
    ] = None,
    json: Json = False,
) -> None:
    """Transitions per second in subject spaces: the paper's workload and geofences, beside a compiled scan."""
    from whimbrel.cli.bench.spaces import measure, measure_transitions

    (measure_transitions if transitions else measure)(scale.value, output, json)


@bench.command()
def pipeline(
    work: Annotated[
        list[str] | None,
        typer.Option("--work", help="Only this work, or all of a kind (match, stream, curve...); may be repeated."),
    ] = None,
    scale: Annotated[Scale, typer.Option("--scale", help="Minutes, or the sizes that targets are for.")] = Scale.SMALL,
    rivals: Annotated[str, typer.Option("--rivals", metavar="A,B", help="Plain Spark SQL to run beside it.")] = (
        "access,nested,counting"
    ),
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Write pipeline.json and pipeline.md there, after each work."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Put the tables between the marks of this page.")
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="How often; medians are shown.")] = 3,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="For one rival on one work.")] = 120.0,
    master: Annotated[str | None, typer.Option("--master", metavar="URL", help="Where Spark runs.")] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="DIR", help="Where workloads and indexes are kept.")
    ] = None,
    json: Json = False,
) -> None:
    """Matching on Spark beside plain Spark SQL, streaming, compiling and opening an index.

    Needs a checkout, which has the rivals. Exit status 1 if a rival does not find as many pairs.
    """
    from whimbrel.cli.bench.pipeline import measure
    from whimbrel.lab.measure.pipeline.pipeline_run import PipelineSettings
    from whimbrel.lab.measure.workload_cache import default_folder

    folder = cache or default_folder()
    settings = PipelineSettings(tuple(work or ()), scale.value, names_of(rivals), repeat, seconds, master, folder)
    measure(settings, output, page, json)
