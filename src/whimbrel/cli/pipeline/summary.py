"""How a run of the pipeline ends: a table for people, a line of JSON for machines, and the exit status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import typer

from whimbrel.cli.pipeline.run import RunSummary
from whimbrel.cli.terminal.console import to_json


def finish(account: RunSummary, json: bool) -> NoReturn:
    """Print the summary and end the program: 0 if all was good, 1 if something was refused."""
    if json:
        typer.echo(to_json(_fields(account)))
    else:
        print_table(_rows(account))
    raise typer.Exit(0 if account.is_good() else 1)


def print_table(rows: Iterable[tuple[str, str]]) -> None:
    """Names and values in a frame."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right", overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    Console(highlight=False).print(table)


def _fields(account: RunSummary) -> dict[str, object]:
    fields: dict[str, object] = {
        "subscriptions": account.subscriptions,
        "version": account.version,
        "events": account.events,
        "pairs": account.pairs,
        "output": account.output,
    }
    if account.batches is not None:
        fields["batches"] = account.batches
    refused = {"subscriptions": account.rejected, "events": account.dead_letters}
    return {
        **fields,
        "seconds": {"compile": round(account.compile_seconds, 3), "match": round(account.match_seconds, 3)},
        "rejected": {name: count for name, count in refused.items() if count},
    }


def _rows(account: RunSummary) -> list[tuple[str, str]]:
    rows = [
        ("subscriptions", f"{account.subscriptions:,}"),
        ("rejected subscriptions", f"{account.rejected:,}"),
        ("index version", f"{account.version}"),
        ("events", f"{account.events:,}"),
        ("dead letters", f"{account.dead_letters:,}"),
        ("pairs", f"{account.pairs:,}"),
    ]
    if account.batches is not None:
        rows.append(("micro-batches", f"{account.batches:,}"))
    rows += [
        ("seconds to compile", f"{account.compile_seconds:.1f}"),
        ("seconds to match", f"{account.match_seconds:.1f}"),
    ]
    if account.batches is None and account.match_seconds:
        rows.append(("events per second", f"{account.events / account.match_seconds:,.0f}"))
    return [*rows, ("output", account.output)]
