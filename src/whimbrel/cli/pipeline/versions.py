"""`whimbrel pipeline compile` and `gc`: a new version of an index, and the end of those that nothing needs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from whimbrel.cli.pipeline import options
from whimbrel.cli.terminal.console import print_table, to_json
from whimbrel.cli.terminal.options import Json, names_of
from whimbrel.cli.terminal.outputs import check_outputs

if TYPE_CHECKING:
    from whimbrel.pipeline import Compiled


def compile_(
    subscriptions: Annotated[
        str, typer.Option("--subscriptions", "-s", metavar="PATH", help="Files of id and filter.")
    ],
    index: options.IndexFolder,
    config: options.Config = None,
    events: Annotated[
        str | None, typer.Option("--events", "-e", metavar="PATH", help="A sample of events to plan the index by.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option("--shards", metavar="N", min=1, help="Parts of a new index (default: by its size).")
    ] = None,
    from_: options.EventsFrom = None,
    subscriptions_from: options.SubscriptionsFrom = None,
    rejects: options.Rejects = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace rejects that are there.")] = False,
    master: options.Master = None,
    settings: options.Settings = None,
    json: Json = False,
) -> None:
    """Compile subscriptions into a new version of an index.

    The version holds exactly these subscriptions; only what has changed is compiled. A stream that runs takes it up at
    its next micro-batch.
    """
    from whimbrel.cli.pipeline.job_display import JobDisplay
    from whimbrel.cli.pipeline.session import check_output, running_spark, settings_of
    from whimbrel.pipeline.connectors.files import recognise
    from whimbrel.pipeline.jobs.batch_job import CompileJob, run_compile

    spark_settings = settings_of(settings)
    recognise(subscriptions, subscriptions_from)
    if rejects is not None:
        check_outputs({"--rejects": rejects}, [subscriptions, events, index])
        check_output(rejects, "--rejects", overwrite)
    sample = None if events is None else (events, recognise(events, from_))
    job = CompileJob(subscriptions, subscriptions_from, index, sample, shards, rejects, overwrite)
    with running_spark(master, spark_settings, "whimbrel pipeline compile", json) as spark:
        started = time.perf_counter()
        compiled = run_compile(spark, job, JobDisplay(spark, json))
        seconds = time.perf_counter() - started
    _finish(compiled, index, seconds, json)


def _finish(done: Compiled, index: str, seconds: float, json: bool) -> NoReturn:
    """Print the outcome and end the program: 0 if all was good, 1 if something was refused."""
    fields = {"version": done.version, "subscriptions": done.count}
    fields |= {name: getattr(done, name) for name in ("added", "replaced", "removed")}
    if json:
        rejected = {"subscriptions": done.rejected} if done.rejected else {}
        spent = {"compile": round(seconds, 3)}
        typer.echo(to_json({**fields, "index": index, "seconds": spent, "rejected": rejected}))
    else:
        rows = [(name, f"{value:,}") for name, value in {**fields, "rejected": done.rejected}.items()]
        print_table([*rows, ("seconds", f"{seconds:.1f}"), ("index", index)])
    raise typer.Exit(1 if done.rejected else 0)


def gc(
    index: options.IndexFolder,
    config: options.Config = None,
    keep: Annotated[int, typer.Option("--keep", metavar="N", min=1, help="Newest versions to keep.")] = 1,
    batches: Annotated[
        int,
        typer.Option("--batches", metavar="N", min=1, help="Newest micro-batches of each stream to be able to redo."),
    ] = 2,
    forget: Annotated[str, typer.Option("--forget", metavar="A,B", help="Ids of streams that are gone for good.")] = "",
    json: Json = False,
) -> None:
    """Delete versions of an index that nothing needs.

    Streams may run meanwhile. A version that an uncommitted micro-batch names is never deleted.
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
