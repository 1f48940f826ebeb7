"""`whimbrel publications`: events that stay, by key: put, patch, delete, get, list."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from whimbrel.cli.broker.options import DEFAULT_URL, Authority, TokenOption, Url, connect, read_object
from whimbrel.cli.terminal.console import to_json

publications = typer.Typer(
    help="Publications of a broker: events that stay, by key.", no_args_is_help=True, rich_markup_mode=None
)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The key of the publication.")]
State = Annotated[str, typer.Argument(metavar="STATE", help="A JSON object, or - for standard input.")]


@publications.command()
def put(key: Key, state: State, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Give a publication a new state, and print its offset."""
    with connect(url, token, ca) as client:
        typer.echo(client.publications.put(key, _object(state)))


@publications.command()
def patch(key: Key, state: State, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Change some attributes of a publication, and print its offset.

    An attribute that is null in STATE is deleted.
    """
    with connect(url, token, ca) as client:
        typer.echo(client.publications.patch(key, _object(state)))


@publications.command()
def delete(key: Key, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Delete a publication, and print the offset of that."""
    with connect(url, token, ca) as client:
        typer.echo(client.publications.delete(key))


@publications.command()
def get(key: Key, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Print a publication: key, offset, time and state."""
    with connect(url, token, ca) as client:
        typer.echo(to_json(client.publications.get(key)))


@publications.command("list")
def list_(url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Print all publications, one per line, in the order of their keys."""
    with connect(url, token, ca) as client:
        for one in client.publications.list():
            typer.echo(to_json(one))


def _object(text: str) -> dict[str, Any]:
    return read_object(sys.stdin.buffer.read() if text == "-" else text.encode(errors="surrogateescape"))
