"""`whimbrel webhook`: subscriptions whose messages a broker sends to a URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whimbrel.cli.broker.options import DEFAULT_URL, Authority, TokenOption, Url, connect
from whimbrel.cli.terminal.console import to_json

if TYPE_CHECKING:
    from whimbrel.client import Client

webhook = typer.Typer(
    help="Webhooks of a broker: messages that it sends to a URL.", no_args_is_help=True, rich_markup_mode=None
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the subscription.")]


@webhook.command()
def create(
    sink: Annotated[str, typer.Argument(metavar="SINK", help="The URL that messages are sent to.")],
    filter: Annotated[str, typer.Argument(metavar="[FILTER]", help="Which events; all by default.")] = "TRUE",
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, max=1_000, help="Most events of one request (default: one).")
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest", metavar="TIME", help="Send messages together, once in this time, such as 30s, 5m or 1h."
        ),
    ] = None,
    waive_consent: Annotated[
        bool, typer.Option("--waive-consent", help="Do not ask the receiver; for admins.")
    ] = False,
    url: Url = DEFAULT_URL,
    token: TokenOption = None,
    ca: Authority = None,
) -> None:
    """Create a webhook and print it, with the secret that signs. The secret is not shown again."""
    settings: dict[str, Any] = {} if batch is None else {"batch": batch}
    if waive_consent:
        settings["consent"] = "waived"
    fields: dict[str, Any] = {"protocol": "HTTP", "sink": sink, "protocolsettings": settings}
    if digest is not None:
        fields["digest"] = {"every": digest}
    _call(url, token, ca, lambda client: client.create(filter, **fields))


@webhook.command()
def show(id: Id, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Print a webhook, its cursor and what waits."""
    _call(url, token, ca, lambda client: client.read(id))


@webhook.command()
def attempts(id: Id, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Print the newest requests to the sink, the last one first."""
    _call(url, token, ca, lambda client: client.attempts(id))


@webhook.command("dead-letters")
def dead_letters(id: Id, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Print the deliveries that were given up, one per line."""
    _call(url, token, ca, lambda client: client.undelivered(id))


@webhook.command()
def redeliver(
    id: Id,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The number of the dead letter.")],
    url: Url = DEFAULT_URL,
    token: TokenOption = None,
    ca: Authority = None,
) -> None:
    """Send a delivery that was given up again."""
    _call(url, token, ca, lambda client: client.redeliver(id, number))


@webhook.command("test")
def send_test(id: Id, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Send a test event, and print what the receiver said.

    The event is of the type whimbrel.test.
    """
    _call(url, token, ca, lambda client: client.test(id))


@webhook.command()
def rotate(
    id: Id,
    keep: Annotated[int, typer.Option("--keep", min=0, help="Seconds that the former secret signs too.")] = 86_400,
    url: Url = DEFAULT_URL,
    token: TokenOption = None,
    ca: Authority = None,
) -> None:
    """Sign with another secret, and print it."""
    with connect(url, token, ca) as client:
        typer.echo(client.rotate(id, keep=keep))


@webhook.command()
def enable(id: Id, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Deliver again, now.

    Consent that was refused is asked for again.
    """
    with connect(url, token, ca) as client:
        client.enable(id)


@webhook.command()
def disable(id: Id, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Deliver nothing until the webhook is enabled.

    Messages wait in the log.
    """
    with connect(url, token, ca) as client:
        client.disable(id)


def _call(url: str, token: str | None, ca: str | None, ask: Callable[[Client], Any]) -> None:
    """Ask a broker and print the answer, one object per line."""
    with connect(url, token, ca) as client:
        found = ask(client)
    for one in found if isinstance(found, list) else [found]:
        typer.echo(to_json(one))
