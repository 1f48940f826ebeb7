"""The options that commands for a running broker share."""

from __future__ import annotations

from typing import Annotated

import typer

Url = Annotated[str, typer.Option("--url", envvar="WHIMBREL_URL", help="The address of the broker.")]
TokenOption = Annotated[
    str | None, typer.Option("--token", envvar="WHIMBREL_TOKEN", help="The token to show; better in the environment.")
]
DEFAULT_URL = "http://127.0.0.1:8080"
