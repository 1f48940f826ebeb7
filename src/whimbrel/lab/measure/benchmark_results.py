"""What all benchmarks share: their settings, targets with their verdicts, tables, and Markdown below a machine card."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from whimbrel.lab.measure.machine import described, load
from whimbrel.model.errors import WhimbrelError, WrongUsage
from whimbrel.storage.atomic import replace_file

Result = Mapping[str, Any]
Progress = Callable[[str], None]
Scale = Literal["small", "full"]
"""How large workloads are: for a look in minutes, or the sizes that targets are for."""


def no_progress(text: str) -> None:
    """Ignore progress."""


def default_folder() -> Path:
    """Where generated workloads are kept: `whimbrel/workloads` in the user's folder for caches."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "whimbrel" / "workloads"


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What a benchmark runs and how thoroughly. Without `names` all of its workloads or works run.

    `seconds` is the time that one rival may take on one workload, repeats included. `start` says whether to measure the
    start of a process, too, and `master` where Spark runs.
    """

    names: tuple[str, ...] = ()
    scale: Scale = "small"
    rivals: tuple[str, ...] = ()
    repeat: int = 5
    seconds: float = 20.0
    start: bool = True
    master: str | None = None
    cache: Path = field(default_factory=default_folder)

    def to_dict(self) -> dict[str, object]:
        """The settings that figures depend on, as JSON-ready data."""
        return {name: getattr(self, name) for name in ("scale", "rivals", "repeat", "seconds")}


class UnknownName(WrongUsage, ValueError):
    """No workload, rival, experiment or the like has that `name`."""

    def __init__(self, what: str, name: str, hint: str = "") -> None:
        self.name = name
        super().__init__(f"Expected {what}, but got {name!r}{hint}")


def check_names(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise `UnknownName` for the first of the names that is not known."""
    known = tuple(known)
    for name in names:
        if name not in known:
            raise UnknownName(f"{what} of {', '.join(known)}" if known else f"no {what}, as there are none", name)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and what was measured. With `least` the target is a lower bound, else an upper one."""

    what: str
    target: float
    measured: float | None
    least: bool = True

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if nothing was measured."""
        if self.measured is None:
            return None
        return self.measured >= self.target if self.least else self.measured <= self.target

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table with its title; `notes` are sentences below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def number(value: float | None) -> str:
    """A figure with as many digits as matter; an empty text for None."""
    if value is None:
        return ""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def cells(record: Result, *keys: str) -> tuple[str, ...]:
    """The figures of a record that have these keys."""
    return tuple(number(record[key]) for key in keys)


def verdict_cells(verdict: Result) -> tuple[str, str, str, str]:
    """A verdict as cells of a table: what, target, measured, and a word for the outcome."""
    word = {True: "met", False: "**missed**", None: "not measured"}[verdict["met"]]
    target = f"{'>=' if verdict['least'] else '<='} {number(verdict['target'])}"
    return verdict["what"], target, number(verdict["measured"]), word


def report(machine: Result, verdicts: Iterable[Verdict], **parts: object) -> dict[str, Any]:
    """The result of a benchmark as JSON-ready data: the machine card of its start, its parts, and the verdicts."""
    judged = [verdict.to_dict() for verdict in verdicts]
    return {"machine": {**machine, "load_at_end": load()}, **parts, "verdicts": judged}


class NoMarks(WhimbrelError):
    """A `page` has no place for results."""

    def __init__(self, page: Path, begin: str, end: str) -> None:
        self.page = page
        super().__init__(f"Expected the lines {begin} and {end} in {page}, but did not find both")


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """The files of one benchmark: `<name>.json`, `<name>.md`, and a page with a pair of marks around its tables."""

    name: str
    begin: str
    end: str
    tables: Callable[[Result], list[ResultTable]]

    def write(self, result: Result, folder: Path) -> tuple[Path, Path]:
        """Write both files into the folder, which is created. Each is replaced as a whole."""
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / f"{self.name}.json", folder / f"{self.name}.md"
        for path, text in ((data, json.dumps(result, indent=1) + "\n"), (page, self.markdown(result))):
            replace_file(path, [text.encode()])
        return data, page

    def parts_of(self, page: Path) -> tuple[str, str]:
        """The text of a page before its pair of marks, and the text behind it. Raises `NoMarks` without a pair."""
        before, begin, rest = page.read_text().partition(self.begin)
        _, end, after = rest.partition(self.end)
        if not begin or not end:
            raise NoMarks(page, self.begin, self.end)
        return before, after

    def insert(self, result: Result, page: Path) -> None:
        """Replace what stands between the marks of a page by the tables of the result."""
        before, after = self.parts_of(page)
        page.write_text(f"{before}{self.begin}\n\n{self.markdown(result)}\n{self.end}{after}")

    def markdown(self, result: Result) -> str:
        """The machine card, and all tables below it."""
        return "\n".join([*_card(result), *_tables(self.tables(result))]) + "\n"


def _card(result: Result) -> list[str]:
    machine, settings = result["machine"], result["settings"]
    commit = f" at commit {machine['commit']}" if machine["commit"] else ""
    lines = [
        f"Measured {machine['date']}{commit}, scale {settings['scale']}, {settings['repeat']} repeats, "
        f"on {described(machine)}. "
        f"Load average before and after: {machine['load']} and {machine['load_at_end']}."
    ]
    if max(machine["load"], machine["load_at_end"]) > machine["cores"]:
        lines.append(
            "**The machine was busy with other work:** CPU times are somewhat too long, wall times and what both cores "
            "give mean little."
        )
    return lines


def _tables(tables: Iterable[ResultTable]) -> Iterable[str]:
    for table in tables:
        head = [table.columns, ("---", *["---:"] * (len(table.columns) - 1))]
        rows = "\n".join(f"| {' | '.join(row)} |" for row in [*head, *table.rows])
        yield from ("", f"### {table.title}", "", rows)
        yield from (line for note in table.notes for line in ("", note))
