"""`whimbrel pipeline gc`: delete versions of an index that nothing needs."""

from __future__ import annotations

from typing import Annotated

import typer

from whimbrel.cli.pipeline.options import Config, IndexFolder
from whimbrel.cli.terminal.console import to_json
from whimbrel.cli.terminal.options import Json, names_of


def gc(
    index: IndexFolder,
    config: Config = None,
    keep: Annotated[int, typer.Option("--keep", metavar="N", min=1, help="Newest versions to keep.")] = 1,
    batches: Annotated[
        int,
        typer.Option("--batches", metavar="N", min=1, help="Newest micro-batches of each stream to be able to redo."),
    ] = 2,
    forget: Annotated[str, typer.Option("--forget", metavar="A,B", help="Ids of streams that are gone for good.")] = "",
    json: Json = False,
) -> None:
    """Delete versions of an index that nothing needs any more; streams may run meanwhile.

    A version that an uncommitted micro-batch names is never deleted.
    """
    from whimbrel.pipeline.index.batches import gc as collect

    done = collect(index, keep=keep, batches=batches, forget=names_of(forget))
    if json:
        typer.echo(to_json({"deleted": done.deleted, "kept": done.kept, "named": done.named}))
        return
    typer.echo(f"deleted {_listed(done.deleted)}, kept {_listed(done.kept)}")
    for query, versions in done.named.items():
        typer.echo(f"stream {query} holds {_listed(versions)}")


def _listed(versions: tuple[int, ...]) -> str:
    if not versions:
        return "no version"
    return f"version{'s' if len(versions) > 1 else ''} {', '.join(map(str, versions))}"
