"""The options that commands for a running broker share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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
    """A client of the broker at a URL; BadParameter if it is none."""
    from whimbrel.client import Client

    if not url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"Expected an address such as {DEFAULT_URL}, but got {url!r}", param_hint="--url")
    return Client(url, token, source=source, ca=authority)


def read_object(text: bytes, place: str = "") -> dict[str, Any]:
    """The JSON object that a text is, as strictly as the broker reads it; BadParameter says what is wrong."""
    import msgspec

    from whimbrel.broker.requests.errors import BAD_JSON
    from whimbrel.model.errors import WhimbrelError
    from whimbrel.model.json_text import parse_text

    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
        parse_text(text.decode())  # refuses a key that comes twice, of which msgspec takes the last
    except (*BAD_JSON, WhimbrelError) as error:
        raise typer.BadParameter(f"Expected a JSON object{place}, but got: {error}") from None
    return found
