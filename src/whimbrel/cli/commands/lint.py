"""`whimbrel lint`: what is wrong or needless in a file of subscriptions?"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from whimbrel.cli.terminal.console import plain, progress, say, say_json, to_json
from whimbrel.cli.terminal.options import From, Json, SchemaOption
from whimbrel.cli.terminal.outputs import check_outputs, text_output


def lint(
    subscriptions: Annotated[
        str, typer.Argument(metavar="SUBSCRIPTIONS", help="File of id, filter and optionally dialect; - is stdin.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where findings go (default: standard output)."),
    ] = None,
    from_: From = None,
    schema: SchemaOption = None,
    json: Json = False,
) -> None:
    """Check subscriptions for errors and needless filters.

    Finds filters that do not parse, never or always match, stand there twice, are covered by another one, or have a
    name in double quotes where text was meant; with a schema also those that do not fit it.

    Exit status: 1 if there are errors, 0 if there are only warnings or none.
    """
    from whimbrel.model.schema import Schema
    from whimbrel.readers.lint_file import Finding, find

    check_outputs({"--output": output}, [subscriptions, schema])
    typed = None if schema is None else Schema.load(schema)
    counts: Counter[str] = Counter()
    with text_output(output) as stream, progress("Checking", quiet=json) as bar:

        def write(finding: Finding) -> None:
            counts[finding.rule] += 1
            stream.write((to_json(finding.to_dict()) if json else plain(str(finding))) + "\n")

        checked = find(subscriptions, from_, write, lambda count, step: bar.update(count, f"{step} {count:,}"), typed)
    if json:
        say_json({"subscriptions": checked, "findings": dict(sorted(counts.items()))})
    elif sys.stderr.isatty() or counts:
        found = ", ".join(_counted(count, rule) for rule, count in sorted(counts.items())) or "nothing found"
        say(f"{checked:,} subscriptions checked: {found}")
    raise typer.Exit(1 if counts["error"] else 0)


def _counted(count: int, rule: str) -> str:
    """A rule with its number of findings, as text: `2 errors`, `3 covered`."""
    return f"{count:,} {rule}" + ("s" if rule in ("error", "duplicate", "suspicious-name") and count > 1 else "")
