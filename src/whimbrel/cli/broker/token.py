"""`whimbrel token`: create, change, list and revoke tokens, of a running broker or of a data directory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whimbrel.cli.broker.options import DEFAULT_URL, Authority, TokenOption, Url, connect
from whimbrel.cli.terminal.console import to_json

if TYPE_CHECKING:
    from whimbrel.broker.service.broker import Broker

token = typer.Typer(
    help="Tokens of a broker: who may publish and subscribe.", no_args_is_help=True, rich_markup_mode=None
)

Data = Annotated[
    str | None, typer.Option("--data", metavar="DIR", help="The data of a broker that does not run, instead of --url.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the token.")]
TokenScope = StrEnum("TokenScope", ["publish", "subscribe", "match", "peer", "schema", "admin"])
Scope = Annotated[list[TokenScope], typer.Option("--scope", help="What the token may do; may be repeated.")]
Rule = Annotated[
    list[str] | None,
    typer.Option("--rule", metavar="NAME=VALUE", help="Only events with this value; JSON, or text. May be repeated."),
]
Tenant = Annotated[str, typer.Option("--tenant", help="Among tokens of one tenant, ids of events must differ.")]


@token.command()
def create(
    name: Name, scope: Scope, rule: Rule = None, tenant: Tenant = "", data: Data = None, url: Url = DEFAULT_URL,
    token: TokenOption = None, ca: Authority = None,
) -> None:  # fmt: skip
    """Create a token and print it. It is not shown again."""
    rules = _rules(rule)
    if data is not None:
        typer.echo(_offline(data, lambda broker: broker.tokens.create(name, scope, tenant, rules)))
        return
    from whimbrel.client import wire

    body = {"name": name, "scopes": scope, "tenant": tenant, "rules": rules}
    with connect(url, token, ca) as client:
        typer.echo(_decoded(client.call(wire.post("/tokens", body)))["token"])


@token.command()
def change(
    name: Name, scope: Scope, rule: Rule = None, tenant: Tenant = "", data: Data = None, url: Url = DEFAULT_URL,
    token: TokenOption = None, ca: Authority = None,
) -> None:  # fmt: skip
    """Give a token other rights: these and no others. Its filters follow, and its streams are closed."""
    rules = _rules(rule)
    if data is not None:
        _check_there(data)
        _offline(data, lambda broker: broker.tokens.change(name, scope, tenant, rules))
        return
    from whimbrel.client import wire

    with connect(url, token, ca) as client:
        client.call(wire.put(wire.path_of("tokens", name), {"scopes": scope, "tenant": tenant, "rules": rules}))


@token.command("list")
def list_tokens(data: Data = None, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None) -> None:
    """Print the tokens and what they may do, one per line as JSON."""
    if data is not None:

        async def shown(broker: Broker) -> list[dict[str, object]]:
            return [
                {"name": one.name, "scopes": one.scopes.split(), "tenant": one.tenant, "rules": _decoded(one.rules)}
                for one in broker.tokens.stored.values()
            ]

        _check_there(data)
        found = _offline(data, shown)
    else:
        from whimbrel.client import wire

        with connect(url, token, ca) as client:
            found = _decoded(client.call(wire.get("/tokens")))["tokens"]
    for one in found:
        typer.echo(to_json(one))


@token.command()
def revoke(
    name: Name, data: Data = None, url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None
) -> None:
    """Revoke a token. Its subscriptions end and its streams are closed."""
    if data is not None:
        _check_there(data)
        _offline(data, lambda broker: broker.tokens.revoke(name))
        return
    from whimbrel.client import wire

    with connect(url, token, ca) as client:
        client.call(wire.delete(wire.path_of("tokens", name)))


def _check_there(data: str) -> None:
    """BadParameter if no broker has its data there: only `create` makes it, for a broker that has not run yet."""
    if not Path(data, "broker.sqlite").is_file():
        raise typer.BadParameter(f"Expected the data directory of a broker, but got {data!r}", param_hint="--data")


def _offline(data: str, work: Callable[[Broker], Awaitable[Any]]) -> Any:
    """Open the data of a broker that does not run, and call `work` on it; LogLocked if the broker runs."""
    from whimbrel.broker.requests.settings import Settings
    from whimbrel.broker.service.broker import Broker

    async def main() -> Any:  # not inline, which would first match what waits for another engine
        async with Broker(Settings(data=data, engine="spark", spark_job=False), serve=False) as broker:
            return await work(broker)

    return asyncio.run(main())


def _rules(texts: list[str] | None) -> dict[str, Any]:
    rules: dict[str, Any] = {}
    for name, value in map(_rule, texts or ()):
        if rules.setdefault(name, value) != value:
            raise typer.BadParameter(f"Expected one value for each attribute, but got two for {name!r}")
    return rules


def _rule(text: str) -> tuple[str, Any]:
    """An attribute and its value: JSON if it is a scalar in JSON, else text."""
    import msgspec

    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"Expected NAME=VALUE, but got {text!r}")
    try:
        decoded = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value
    return name, decoded if isinstance(decoded, str | int | float | bool) else value


def _decoded(content: bytes | str) -> Any:
    import msgspec

    return msgspec.json.decode(content)
