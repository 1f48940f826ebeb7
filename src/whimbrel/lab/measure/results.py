"""What a run leaves behind: `match.json` with everything, `match.md` with the tables, ready for the docs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from whimbrel.lab.measure.matching.match_tables import Result, ResultTable, tables_of
from whimbrel.model.errors import WhimbrelError

BEGIN, END = "<!-- results -->", "<!-- end of results -->"


class NoMarks(WhimbrelError):
    """A page has no place for results."""

    def __init__(self, page: Path, begin: str = BEGIN, end: str = END) -> None:
        self.page = page
        super().__init__(f"Expected the lines {begin} and {end} in {page}, but did not find both")


def write(result: Result, folder: Path) -> tuple[Path, Path]:
    """Write both files into the folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / "match.json", folder / "match.md"
    data.write_text(json.dumps(result, indent=1) + "\n")
    page.write_text(markdown(result))
    return data, page


def insert(result: Result, page: Path) -> None:
    """Put the tables between the marks of a page, in place of those that are there."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoMarks(page)
    page.write_text(f"{before}{BEGIN}\n\n{markdown(result)}\n{END}{after}")


def markdown(result: Result) -> str:
    """The machine card and all tables."""
    return with_card(result, tables_of(result))


def with_card(result: Result, tables: Iterable[ResultTable]) -> str:
    """Tables below the card of the machine of a result."""
    machine, settings = result["machine"], result["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    commit = f" at commit {machine['commit']}" if machine["commit"] else ""
    lines = [
        f"Measured {machine['date']}{commit}, scale {settings['scale']}, {settings['repeat']} repeats, "
        f"on {machine['cpu']} with {machine['cores']} cores and {machine['memory_gb']} GB, {machine['system']}, "
        f"Python {machine['python']} ({versions}). "
        f"Load average before and after: {machine['load']} and {machine['load_at_end']}."
    ]
    if max(machine["load"], machine["load_at_end"]) > machine["cores"]:
        lines.append(
            "**The machine was busy with other work:** CPU times are somewhat too long, wall times and what both cores "
            "give mean little."
        )
    for table in tables:
        lines += ["", f"### {table.title}", "", _table(table)]
        lines += [line for note in table.notes for line in ("", note)]
    return "\n".join(lines) + "\n"


def _table(table: ResultTable) -> str:
    head = [table.columns, ("---", *["---:"] * (len(table.columns) - 1))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [*head, *table.rows])
