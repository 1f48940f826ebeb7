"""The benchmarks of `whimbrel bench` that have rivals: matching, and matching on Spark.

The rivals are those that are registered in `whimbrel.lab.measure`. `python -m benchmarks` in a checkout registers more
(DuckDB, Polars, the papers' matchers, plain Spark SQL) and runs the same commands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whimbrel.cli.bench.output import PartScale, check_page, make_folder, show_race, shown_progress
from whimbrel.cli.terminal.options import Json, names_of
from whimbrel.lab.measure.benchmark_results import BenchSettings, Result, default_folder

Rivals = Annotated[
    str | None,
    typer.Option("--rivals", metavar="A,B", help="Whom to run beside it: all there are, or nobody if it is empty."),
]
Page = Annotated[
    Path | None, typer.Option("--page", metavar="FILE", help="Put the tables between the marks of this page.")
]
Repeat = Annotated[int, typer.Option("--repeat", min=1, help="How often each is measured; medians are shown.")]
Seconds = Annotated[float, typer.Option("--seconds", min=0.1, help="Seconds for one rival on one workload.")]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        callback=make_folder,
        help="Where generated workloads are kept (default: in the user's cache).",
    ),
]


def match(
    workload: Annotated[
        list[str] | None, typer.Option("--workload", help="Only this workload or family; may be repeated.")
    ] = None,
    scale: PartScale = "small",
    rivals: Rivals = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", callback=make_folder, help="Write match.json and match.md there."),
    ] = None,
    page: Page = None,
    repeat: Repeat = 5,
    seconds: Seconds = 20.0,
    start: Annotated[bool, typer.Option(help="Measure cold and warm start, too.")] = True,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Events per second on the frozen workloads.

    Compiled naive runs beside the engine, and every answer is checked. More rivals (DuckDB, Polars, the papers'
    matchers) are in a checkout: python -m benchmarks match. Exit status 1 if competitors do not find the same
    subscriptions.
    """
    from whimbrel.lab.measure.matching.match_run import run
    from whimbrel.lab.measure.matching.match_tables import FILES
    from whimbrel.lab.measure.matching.naive_loop import RIVALS

    check_page(page, FILES)
    names, chosen = tuple(workload or ()), tuple(RIVALS) if rivals is None else names_of(rivals)
    folder = cache or default_folder()
    settings = BenchSettings(names, scale, chosen, repeat, seconds, start, cache=folder)
    with shown_progress(json) as progress:
        result = run(settings, RIVALS, progress)
    show_race(result, FILES, output, page, json)


def pipeline(
    work: Annotated[
        list[str] | None,
        typer.Option("--work", help="Only this work, or all of a kind (match, stream, curve...); may be repeated."),
    ] = None,
    scale: PartScale = "small",
    rivals: Rivals = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="DIR", callback=make_folder, help="Write pipeline.json and pipeline.md after each work."
        ),
    ] = None,
    page: Page = None,
    repeat: Repeat = 3,
    seconds: Seconds = 120.0,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Where Spark runs (default: here).")
    ] = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Matching on Spark, streaming, compiling and opening an index.

    Rivals in plain Spark SQL are in a checkout: python -m benchmarks pipeline. Exit status 1 if a rival does not find
    as many pairs.
    """
    from whimbrel.lab.measure.pipeline.pipeline_run import run
    from whimbrel.lab.measure.pipeline.pipeline_tables import FILES
    from whimbrel.lab.measure.pipeline.spark_rival import SPARK_RIVALS

    check_page(page, FILES)
    names, chosen = tuple(work or ()), tuple(SPARK_RIVALS) if rivals is None else names_of(rivals)
    folder = cache or default_folder()
    settings = BenchSettings(names, scale, chosen, repeat, seconds, master=master, cache=folder)

    def keep(result: Result) -> None:
        if output is not None:
            FILES.write(result, output)

    with shown_progress(json) as progress:
        result = run(settings, SPARK_RIVALS, progress, keep)
    show_race(result, FILES, output, page, json)
