"""The group `whimbrel overlay`."""

from __future__ import annotations

import typer

from whimbrel.cli.overlay.simulate import simulate
from whimbrel.cli.overlay.trace import trace

overlay = typer.Typer(help="Brokers that work together: match once, forward by prefix.", no_args_is_help=True)
overlay.command()(simulate)
overlay.command()(trace)
