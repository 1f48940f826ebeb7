"""Compiling subscriptions on Spark, for `whimbrel pipeline compile` and for `run`: what is refused is said and kept."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import typer

from whimbrel.cli.pipeline.inputs import InputFormat, read
from whimbrel.cli.pipeline.outputs import Outputs, format_of
from whimbrel.cli.pipeline.progress import stage_bars
from whimbrel.cli.pipeline.subscriptions import read_subscriptions
from whimbrel.cli.terminal.console import say, say_json, to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class CompileJob:
    """What is to be compiled, to where, and what is to become of the rest."""

    subscriptions: str
    format: InputFormat | None
    index: str
    sample: tuple[str, InputFormat] | None
    shards: int | None
    rejects: str | None
    overwrite: bool
    quiet: bool


@dataclass(frozen=True, slots=True)
class CompileSummary:
    """What came of it."""

    index: str
    version: int
    subscriptions: int
    added: int
    replaced: int
    removed: int
    rejected: int
    seconds: float

    def finish(self, json: bool) -> NoReturn:
        """Print the summary and end the program: 0 if all was good, 1 if something was refused."""
        fields = {name: getattr(self, name) for name in ("version", "subscriptions", "added", "replaced", "removed")}
        if json:
            rejected = {"subscriptions": self.rejected} if self.rejected else {}
            seconds = {"compile": round(self.seconds, 3)}
            typer.echo(to_json({**fields, "index": self.index, "seconds": seconds, "rejected": rejected}))
        else:
            from whimbrel.cli.pipeline.summary import print_table

            rows = [(name, f"{value:,}") for name, value in {**fields, "rejected": self.rejected}.items()]
            print_table([*rows, ("seconds", f"{self.seconds:.1f}"), ("index", self.index)])
        raise typer.Exit(1 if self.rejected else 0)


def compile_version(spark: SparkSession, work: CompileJob) -> CompileSummary:
    """Publish a version of the index; rejects appear when they are complete."""
    outputs = Outputs(work.overwrite)
    try:
        outcome = compile_to(spark, work, outputs)
        outputs.commit()
    finally:
        outputs.discard()
    return outcome


def compile_to(spark: SparkSession, work: CompileJob, outputs: Outputs) -> CompileSummary:
    """Publish a version of the index, and write rejects beside their place."""
    from whimbrel.pipeline import compile_index

    started = time.perf_counter()
    given = read_subscriptions(spark, work.subscriptions, work.format)
    with stage_bars(spark, "Compiling", work.quiet):
        sample = None if work.sample is None else read(spark, *work.sample)
        compiled = compile_index(given.rows, work.index, events=sample, shards=work.shards)
        rejects = compiled.rejects.selectExpr("cast(id as string) as id", "text", "message").union(given.refused)
        rejected = compiled.rejected + given.refused.count()
        if work.rejects is not None:
            outputs.write(rejects, work.rejects, format_of(work.rejects, None))
    if rejected:
        _say(rejects, rejected, work)
    return CompileSummary(
        index=work.index,
        version=compiled.version,
        subscriptions=compiled.count,
        added=compiled.added,
        replaced=compiled.replaced,
        removed=compiled.removed,
        rejected=rejected,
        seconds=time.perf_counter() - started,
    )


def _say(rejects: DataFrame, count: int, work: CompileJob) -> None:
    for row in rejects.orderBy("id").limit(_SHOWN).collect():
        if work.quiet:
            line = {"rejected": "subscription", "file": work.subscriptions, "id": row["id"], "message": row["message"]}
            say_json(line)
        else:
            say(f"whimbrel: {work.subscriptions}: subscription {row['id']}: {row['message']}")
    if count > _SHOWN and not work.quiet:
        say("whimbrel: further errors are only counted; --rejects PATH writes all of them")
