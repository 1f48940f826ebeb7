"""`whimbrel schema fetch` and `whimbrel schema extend`: the schema of a running broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from whimbrel.cli.broker.options import DEFAULT_URL, Authority, TokenOption, Url, connect
from whimbrel.cli.commands.schema import schema
from whimbrel.cli.terminal.console import say, say_json
from whimbrel.cli.terminal.options import Json


@schema.command()
def fetch(url: Url = DEFAULT_URL, token: TokenOption = None, ca: Authority = None, json: Json = False) -> None:
    """Print the schema of a broker, extensions included, as a file that `serve --schema` takes."""
    from whimbrel.model.schema.documents import to_text

    with connect(url, token, ca) as client:
        typer.echo(to_text(client.schema(), json), nl=False)


@schema.command()
def extend(
    file: Annotated[Path, typer.Argument(metavar="SCHEMA", help="What is to be there, in TOML or JSON.")],
    url: Url = DEFAULT_URL,
    token: TokenOption = None,
    ca: Authority = None,
    json: Json = False,
) -> None:
    """Extend the schema of a broker by what a file has and it has not: all of it, or nothing.

    A file may hold new domains, attributes and types alone. Needs a token with the scope `schema`.
    """
    from whimbrel.model.schema import documents

    wanted = documents.load(file)
    if not isinstance(wanted, Mapping):
        raise typer.BadParameter(f"Expected a table of domains, attributes and types - at {file}")
    with connect(url, token, ca) as client:
        extensions = missing(client.schema(), wanted)
        offsets = [offset for offset in client.extend_schema(extensions) if offset is not None] if extensions else []
    if json:
        say_json({"extensions": len(offsets), "offsets": offsets})
    else:
        say(f"whimbrel: {len(offsets):,} extensions")


def missing(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The extensions after which a schema has all that another document defines.

    >>> missing(
    ...     {"attributes": {}, "types": {"bid": {}}},
    ...     {"attributes": {"price": "float"}, "types": {"bid": {"price": "optional"}}},
    ... )
    [{'rule': 'create-attribute', 'name': 'price', 'domain': 'float'}, {'rule': 'extend-type', 'type': 'bid', 'attribute': 'price', 'use': 'optional'}]
    """  # noqa: E501
    found: list[dict[str, Any]] = []
    for name, definition in wanted.get("domains", {}).items():
        if current.get("domains", {}).get(name) != definition:
            found.append({"rule": "create-domain", "name": name, "definition": definition})
    for name, domain in wanted.get("attributes", {}).items():
        if current["attributes"].get(name) != domain:
            found.append({"rule": "create-attribute", "name": name, "domain": domain})
    for name, uses in wanted.get("types", {}).items():
        known = current["types"].get(name)
        if known is None:
            found.append({"rule": "create-type", "name": name, "attributes": uses})
            continue
        for attribute, use in uses.items():
            if known.get(attribute) != use:
                found.append({"rule": "extend-type", "type": name, "attribute": attribute, "use": use})
    return found
