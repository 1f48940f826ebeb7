"""The group `whimbrel pipeline`."""

from __future__ import annotations

import typer

from whimbrel.cli.pipeline.compile import compile_
from whimbrel.cli.pipeline.explain import explain
from whimbrel.cli.pipeline.gc import gc
from whimbrel.cli.pipeline.run import run

pipeline = typer.Typer(
    help="Match on Apache Spark: batches and streams, one machine or a cluster.", no_args_is_help=True
)
pipeline.command()(run)
pipeline.command("compile")(compile_)
pipeline.command()(explain)
pipeline.command()(gc)
