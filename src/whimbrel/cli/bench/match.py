"""`whimbrel bench match`: events per second on the frozen workloads, beside compiled naive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.bench.options import Cache, MatchOutput, Page, Repeat, ScaleChoice, ScaleOption, Start, Workloads
from whimbrel.cli.bench.output import Destination, shown_progress
from whimbrel.cli.terminal.options import Json, names_of

if TYPE_CHECKING:
    from whimbrel.lab.measure.matching.match_run import MatchSettings
    from whimbrel.lab.measure.matching.rival import RivalMaker


def match(
    workload: Workloads = None,
    scale: ScaleOption = ScaleChoice.SMALL,
    rivals: Annotated[
        str,
        typer.Option("--rivals", metavar="A,B", help="Whom to run beside the engine: naive, or nobody if it is empty."),
    ] = "naive",
    output: MatchOutput = None,
    page: Page = None,
    repeat: Repeat = 5,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="For one rival on one workload.")] = 20.0,
    start: Start = True,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Events per second on the frozen workloads, beside compiled naive, with every answer checked.

    More rivals (DuckDB, Polars, the papers' matchers) are in a checkout: python -m benchmarks match. Exit status 1 if
    competitors do not find the same subscriptions.
    """
    from whimbrel.lab.measure.matching.match_run import MatchSettings
    from whimbrel.lab.measure.matching.naive_loop import RIVALS
    from whimbrel.lab.measure.workload_cache import default_folder

    names = tuple(workload or ())
    settings = MatchSettings(names, scale.value, names_of(rivals), repeat, seconds, start, cache or default_folder())
    measure_matching(settings, RIVALS, Destination(output, page, json))


def measure_matching(settings: MatchSettings, rivals: Mapping[str, RivalMaker], to: Destination) -> None:
    """Run the benchmark beside these rivals, and show and write the result."""
    from whimbrel.lab.measure.matching.match_run import run
    from whimbrel.lab.measure.matching.match_tables import FILES

    to.check()
    with shown_progress(to.json) as progress:
        result = run(settings, rivals, progress)
    written = FILES.write(result, to.output) if to.output is not None else ()
    to.finish(result, FILES, written)
