"""`whimbrel backup` and `whimbrel restore`: copy the data of a broker, also of one that runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.broker.options import Authority, TokenOption, connect
from whimbrel.cli.terminal.console import say, say_json
from whimbrel.cli.terminal.options import Json

if TYPE_CHECKING:
    from whimbrel.broker.backup.making import Progress
    from whimbrel.broker.backup.manifest import Manifest

Verify = Annotated[bool, typer.Option("--verify/--no-verify", help="Read every entry again and check it.")]


def backup(
    source: Annotated[
        str, typer.Argument(metavar="DIR|URL", help="The data of a broker, which may run, or the address of one.")
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A new directory for the backup.")],
    token: TokenOption = None,
    ca: Authority = None,
    verify: Verify = True,
    json: Json = False,
) -> None:
    """Back up the data of a broker, while it runs.

    Everything is in it that the broker had acknowledged when this began.
    With the address of a broker the backup is sent over HTTP, to a token with the scope `admin`.
    """
    if source.startswith(("http://", "https://")):
        from whimbrel.broker.backup.receiving import receive

        with connect(source, token, ca) as client:
            _tell(receive(client.download("/backup"), target, _progress(json), verify), target, json)
        return
    from whimbrel.broker.backup.making import back_up

    _tell(back_up(Path(source), target, _progress(json), verify), target, json)


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A backup.")],
    target: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory for the data of a broker.")],
    verify: Verify = True,
    json: Json = False,
) -> None:
    """Make the data directory of a broker from a backup.

    Its log gets another id, because it gives offsets again that consumers and peers have seen.
    """
    from whimbrel.broker.backup.restoring import restore as restore_from

    _tell(restore_from(source, target, _progress(json), verify), target, json)


def _progress(quiet: bool) -> Progress | None:
    """Show how far it is, on a terminal."""
    if quiet or not sys.stderr.isatty():
        return None

    def show(name: str, done: int, total: int) -> None:
        end = "\n" if done >= total else "\r"
        sys.stderr.write(f"{name}: {done / max(total, 1):4.0%}{end}")

    return show


def _tell(made: Manifest, target: Path, json: bool) -> None:
    facts = {"path": str(target), "floor": made.floor, "end": made.end, "bytes": sum(made.sizes.values())}
    if json:
        say_json(facts)
    else:
        say(f"whimbrel: {target} has entries {made.floor:,} to {made.end:,}, {facts['bytes']:,} bytes")
