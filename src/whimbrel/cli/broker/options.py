"""The options that commands for a running broker share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from whimbrel.client import Client

Url = Annotated[str, typer.Option("--url", envvar="WHIMBREL_URL", help="The address of the broker.")]
TokenOption = Annotated[
    str | None, typer.Option("--token", envvar="WHIMBREL_TOKEN", help="The token to show; better in the environment.")
]
DEFAULT_URL = "http://127.0.0.1:8080"
Authority = Annotated[
    str | None,
    typer.Option("--ca", metavar="FILE", envvar="WHIMBREL_CA", help="Trust this certificate (PEM), for https."),
]


def connect(url: str, token: str | None, authority: str | None, source: str = "whimbrel-cli") -> Client:
    """A client of the broker at a URL."""
    from whimbrel.client import Client

    return Client(url, token, source=source, ca=authority)
