"""`whimbrel match`: which subscriptions does each event match?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.terminal.console import progress
from whimbrel.cli.terminal.options import From, Json, OnErrorOption, Rejects, SchemaOption, Timestamps, names_of
from whimbrel.cli.terminal.outputs import check_outputs
from whimbrel.cli.terminal.pair_writers import PairFormat, PairWriter, open_writer
from whimbrel.cli.terminal.rejects import OnError, RejectReport, Stopped

if TYPE_CHECKING:
    from whimbrel.engine.index import Index
    from whimbrel.readers.source import Format


def match(
    events: Annotated[list[str], typer.Argument(metavar="EVENTS", help="Files of events; - is standard input.")],
    subscriptions: Annotated[
        str, typer.Option("--subscriptions", "-s", metavar="FILE", help="File of id, filter and optionally dialect.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where pairs go (default: standard output).")
    ] = None,
    format: Annotated[
        PairFormat | None,
        typer.Option("--format", "-f", help="Format of the pairs (default: table on a terminal, else jsonl)."),
    ] = None,
    from_: From = None,
    timestamps: Timestamps = "",
    schema: SchemaOption = None,
    on_error: OnErrorOption = OnError.SKIP,
    rejects: Rejects = None,
    json: Json = False,
) -> None:
    """Match events against subscriptions and write the pairs.

    Files are JSON lines, CSV or Parquet. Each pair names the event by its row, from 0 through all files, and the
    subscription by its id. Exit status: 0 all good, 1 some input was refused, 2 wrong usage.
    """
    from whimbrel.cli.terminal.loading import load_index
    from whimbrel.model.subscription import id_kind

    if [subscriptions, *events].count("-") > 1:
        raise typer.BadParameter("Expected - only once, because standard input can be read only once")
    check_outputs({"--output": output, "--rejects": rejects}, [subscriptions, *events, schema])
    with RejectReport(json, on_error, rejects) as report:
        counts = _Counts()
        try:
            index = load_index(subscriptions, from_, names_of(timestamps), report, schema)
        except Stopped:
            report.finish(counts.summary(), counts.sentence())
        counts.subscriptions = len(index)
        if counts.subscriptions or not report.rejected:
            with open_writer(output, format, id_kind(next(iter(index), 0))) as writer:
                _match_files(index, events, from_, report, counts, writer)
        report.finish(counts.summary(), counts.sentence())


@dataclass(slots=True)
class _Counts:
    subscriptions: int = 0
    events: int = 0
    pairs: int = 0
    seconds: float = 0.0

    def summary(self) -> dict[str, object]:
        return {
            "subscriptions": self.subscriptions,
            "events": self.events,
            "pairs": self.pairs,
            "seconds": round(self.seconds, 3),
        }

    def sentence(self) -> str:
        rate = f" ({self.events / self.seconds:,.0f} events/s)" if self.seconds else ""
        return (
            f"{self.pairs:,} pairs of {self.events:,} events and {self.subscriptions:,} subscriptions "
            f"in {self.seconds:.1f} s{rate}"
        )


def _match_files(
    index: Index,
    files: list[str],
    fallback: Format | None,
    report: RejectReport,
    counts: _Counts,
    writer: PairWriter,
) -> None:
    from whimbrel.readers.match_files import match_files
    from whimbrel.readers.seen_names import unseen_attributes

    started = time.perf_counter()
    seen: list[str] = []
    try:
        with progress("Matching", total=len(files), quiet=report.json) as bar:
            for block in report.accepted("event", match_files(index, files, fallback)):
                writer.write(block.pairs)
                counts.pairs += block.pairs.num_rows
                counts.events += block.events
                if block.file not in seen[-1:]:
                    seen.append(block.file)
                bar.update(len(seen) - 1 + block.share, f"{counts.events:,} events, {counts.pairs:,} pairs")
    except Stopped:
        pass
    counts.seconds = time.perf_counter() - started
    for note in unseen_attributes(files, fallback, index.attributes(), matched=counts.pairs > 0):
        report.note(note)
