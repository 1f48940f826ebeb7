"""`whimbrel bench pipeline`: matching on Spark, streaming, compiling and opening an index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from whimbrel.cli.bench.options import Cache, Master, Page, PipelineOutput, Repeat, ScaleChoice, ScaleOption, Works
from whimbrel.cli.bench.output import Destination, shown_progress
from whimbrel.cli.terminal.options import Json

if TYPE_CHECKING:
    from whimbrel.lab.measure.pipeline.pipeline_run import PipelineSettings
    from whimbrel.lab.measure.pipeline.spark_rival import SparkRivalMaker


def pipeline(
    work: Works = None,
    scale: ScaleOption = ScaleChoice.SMALL,
    output: PipelineOutput = None,
    page: Page = None,
    repeat: Repeat = 3,
    master: Master = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Matching on Spark, streaming, compiling and opening an index.

    Rivals in plain Spark SQL are in a checkout: python -m benchmarks pipeline.
    """
    from whimbrel.lab.measure.pipeline.pipeline_run import PipelineSettings
    from whimbrel.lab.measure.workload_cache import default_folder

    names, folder = tuple(work or ()), cache or default_folder()
    settings = PipelineSettings(names, scale.value, repeat=repeat, master=master, cache=folder)
    measure_pipeline(settings, {}, Destination(output, page, json))


def measure_pipeline(settings: PipelineSettings, rivals: Mapping[str, SparkRivalMaker], to: Destination) -> None:
    """Run the benchmark beside these rivals. Files are written after each work, tables are shown at the end."""
    from whimbrel.lab.measure.pipeline.pipeline_run import run
    from whimbrel.lab.measure.pipeline.pipeline_tables import FILES

    to.check()

    def keep(result: dict[str, object]) -> None:
        if to.output is not None:
            FILES.write(result, to.output)

    with shown_progress(to.json) as progress:
        result = run(settings, rivals, progress, keep)
    to.finish(result, FILES, () if to.output is None else (to.output,))
