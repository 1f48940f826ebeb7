"""`whimbrel demo`: match the bundled events against the bundled subscriptions, and show what comes out."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.terminal.console import print_table, to_json
from whimbrel.cli.terminal.options import Json

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from whimbrel.engine.index import Index
    from whimbrel.model.subscription import Id

_AT_ONCE = 60


@dataclass(slots=True)
class _Run:
    """The outcome of matching: pairs by subscription, the event with the most matches, and the seconds."""

    events: int = 0
    seconds: float = 0.0
    by_subscription: Counter[Id] = field(default_factory=Counter)
    busiest: dict[str, object] = field(default_factory=dict)
    busiest_count: int = -1

    def add(self, events: list[dict[str, object]], pairs: pa.Table) -> None:
        self.events += len(events)
        self.by_subscription.update(pairs["subscription"].to_pylist())
        row, count = Counter(pairs["event"].to_pylist()).most_common(1)[0]
        if count > self.busiest_count:
            self.busiest, self.busiest_count = events[row], count


def demo(
    write: Annotated[
        Path | None,
        typer.Option(
            "--write", metavar="FOLDER", file_okay=False, help="Only write the sample's files there, to play with."
        ),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Go on with a second chapter: a stream of events, on Apache Spark.")
    ] = False,
    broker: Annotated[
        bool, typer.Option("--broker", help="Go on with another chapter: a broker that is killed and loses nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Match a bundled day of a web shop, in a few seconds.

    If asked, it also matches a stream on Spark, in half a minute.
    """
    from whimbrel.lab.web_shop import write_samples

    if write is not None:
        for path in write_samples(write):
            typer.echo(to_json({"written": str(path)}) if json else f"wrote {path}")
        return
    from rich.console import Console

    console = Console(highlight=False, quiet=json)
    if spark:
        from whimbrel.cli.demo import spark_chapter

        with closing(spark_chapter.SparkInBackground()) as background:
            _library(console, json)
            totals = spark_chapter.play(console, background)
        if json:
            typer.echo(to_json(totals.to_dict()))
    else:
        _library(console, json)
    if broker:
        from whimbrel.cli.demo import broker_chapter

        counts = broker_chapter.play(console)
        if json:
            typer.echo(to_json(counts))
        if counts["lost"]:
            raise typer.Exit(1)
    _go_on(console)


def _library(console: Console, json: bool) -> None:
    """Show the first chapter: matching in this process."""
    from whimbrel.engine.index import Index
    from whimbrel.lab.web_shop import TIMESTAMPS, sample_events, sample_subscriptions

    subscriptions, events = sample_subscriptions(), sample_events()
    _introduce(console, subscriptions, events)
    index = Index(timestamps=TIMESTAMPS)
    console.print("Indexing (the very first time the engine is compiled for this machine, for up to half a minute)")
    with console.status("Indexing"):
        index.add_many(subscriptions)
        index.match_batch(events[:1])
        index.near_misses(events[0], limit=1)
    run = _match(console, index, events)
    if json:
        summary = {"events": run.events, "subscriptions": len(index), "pairs": run.by_subscription.total()}
        typer.echo(to_json({**summary, "seconds": round(run.seconds, 3)}))
        return
    _summarise(console, index, run)
    _explain(console, index, run)


def _introduce(console: Console, subscriptions: list[tuple[Id, str]], events: list[dict[str, object]]) -> None:
    console.rule("Whimbrel: which standing queries does each event match?")
    console.print(f"\n{len(subscriptions)} subscriptions on a web shop, such as")
    for id, filter in subscriptions[1:20:4]:
        console.print(f"  {id:<22}  {filter}", markup=False, overflow="ellipsis", no_wrap=True)
    console.print(f"\n{len(events):,} events of one day, such as")
    for event in events[:4]:
        console.print(f"  {to_json(event)}", markup=False, overflow="ellipsis", no_wrap=True)
    console.print()


def _match(console: Console, index: Index, events: list[dict[str, object]]) -> _Run:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    run = _Run()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("Matching", total=len(events), note="")
        started = time.perf_counter()
        for start in range(0, len(events), _AT_ONCE):
            run.add(events[start : start + _AT_ONCE], index.match_batch(events[start : start + _AT_ONCE]))
            progress.update(task, completed=run.events, note=f"{run.by_subscription.total():,} pairs")
        run.seconds = time.perf_counter() - started
    return run


def _summarise(console: Console, index: Index, run: _Run) -> None:
    from rich.table import Table

    pairs = run.by_subscription.total()
    rows = [
        ("events", f"{run.events:,}"),
        ("subscriptions", f"{len(index):,}"),
        ("pairs that match", f"{pairs:,}"),
        ("pairs that do not", f"{run.events * len(index) - pairs:,}"),
        ("matches per event", f"{pairs / run.events:.1f}"),
        ("subscriptions never matched", f"{len(index) - len(run.by_subscription):,}"),
        ("events per second", f"{run.events / run.seconds:,.0f}"),
    ]
    print_table(rows, "Summary", console)
    top = Table(title="Most matched subscriptions", title_justify="left")
    top.add_column("subscription", no_wrap=True)
    top.add_column("events", no_wrap=True, justify="right")
    top.add_column("filter", no_wrap=True)
    width = max(20, console.width - 44)
    for id, count in run.by_subscription.most_common(8):
        filter = str(index[id].filter)
        top.add_row(str(id), f"{count:,}", filter if len(filter) <= width else f"{filter[: width - 3]}...")
    console.print(top)


def _explain(console: Console, index: Index, run: _Run) -> None:
    event = run.busiest
    console.print(f"The event that matched most, {run.busiest_count} subscriptions:")
    console.print(f"  {to_json(event)}", markup=False, soft_wrap=True)
    best = max(index.match(event), key=lambda id: len(index[id].filter.attributes))
    console.print(f"\nWhy it matches {best!r}:", markup=False)
    console.print(str(index.explain(best, event)), markup=False, soft_wrap=True)
    console.print("\nWhat it misses by a little:")
    misses = index.near_misses(event, limit=100)
    measured = (miss for miss in misses if any(one.distance is not None for one in miss.explanation.constraints))
    for miss in islice(measured, 3):
        console.print(str(miss), markup=False, soft_wrap=True)
    console.print()


def _go_on(console: Console) -> None:
    console.print("To go on:")
    console.print("  whimbrel demo --write sample")
    console.print("  whimbrel match --subscriptions sample/subscriptions.jsonl sample/events.jsonl")
    console.print("  whimbrel lint sample/subscriptions.jsonl")
    console.print("  whimbrel pipeline run --help")
