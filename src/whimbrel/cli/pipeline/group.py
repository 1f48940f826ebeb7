"""The group `whimbrel pipeline`."""

from __future__ import annotations

import typer

from whimbrel.cli.pipeline.broker import broker
from whimbrel.cli.pipeline.run import explain, run
from whimbrel.cli.pipeline.versions import compile_, gc

pipeline = typer.Typer(help="Match on Apache Spark: batches and streams.", no_args_is_help=True)
pipeline.command()(run)
pipeline.command("compile")(compile_)
pipeline.command()(explain)
pipeline.command()(gc)
pipeline.command()(broker)
