"""`whimbrel pipeline run` and `explain`: match events on Spark, as a batch or as a stream, or show how."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from whimbrel.cli.pipeline import options
from whimbrel.cli.pipeline.job_display import JobDisplay
from whimbrel.cli.pipeline.session import check_output, running_spark, settings_of
from whimbrel.cli.terminal.console import print_table, to_json
from whimbrel.cli.terminal.options import Json, Timestamps, names_of
from whimbrel.cli.terminal.outputs import check_outputs
from whimbrel.pipeline.connectors.files import recognise
from whimbrel.pipeline.connectors.staged_outputs import OutputFormat, format_of

if TYPE_CHECKING:
    from whimbrel.pipeline.jobs.batch_job import RunJob
    from whimbrel.pipeline.jobs.monitor import RunSummary


def run(
    events: options.Events,
    subscriptions: Annotated[
        str,
        typer.Option(
            "--subscriptions",
            "-s",
            metavar="PATH",
            help="Files of id and filter, or the directory of a compiled index.",
        ),
    ],
    output: Annotated[str, typer.Option("--output", "-o", metavar="PATH", help="The directory that the pairs go to.")],
    config: options.Config = None,
    index: Annotated[
        str | None, typer.Option("--index", metavar="DIR", help="Where the index is compiled to, to be used again.")
    ] = None,
    key: options.Key = "",
    form: options.Form = "pairs",
    plan: options.Plan = "auto",
    schema: options.Schema = None,
    timestamps: Timestamps = "",
    from_: options.EventsFrom = None,
    subscriptions_from: options.SubscriptionsFrom = None,
    format: Annotated[
        OutputFormat | None,
        typer.Option("--format", "-f", help="Format of the output (default: by name, or parquet)."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace output that is there.")] = False,
    rejects: options.Rejects = None,
    dead_letters: Annotated[
        str | None,
        typer.Option("--dead-letters", metavar="PATH", help="Write refused events there, with every reason."),
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Go on with what comes, until stopped.")] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", metavar="DIR", help="Where a stream notes how far it is (default: OUTPUT.checkpoint)."
        ),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            "--every", metavar="SECONDS", min=0, help="Of a stream: time between micro-batches (default: none)."
        ),
    ] = None,
    files_at_once: Annotated[
        int, typer.Option("--files-at-once", metavar="N", min=1, help="Of a stream: files read by one micro-batch.")
    ] = 100,
    once: Annotated[bool, typer.Option("--once", help="Of a stream: stop when all there is now is matched.")] = False,
    master: options.Master = None,
    settings: options.Settings = None,
    json: Json = False,
) -> None:
    """Match events against subscriptions and write the pairs.

    Output appears when it is complete. Exit status: 0 all good, 1 some input was refused or the run failed, 2 wrong
    usage.
    """
    from whimbrel.pipeline.connectors.sinks import StreamOptions
    from whimbrel.pipeline.jobs.batch_job import RunJob, is_index, run_batch
    from whimbrel.pipeline.jobs.event_source import EventInput
    from whimbrel.pipeline.jobs.stream_job import run_stream

    spark_settings = settings_of(settings)
    if not is_index(subscriptions):
        recognise(subscriptions, subscriptions_from)
    at_once = files_at_once if stream else None
    source = EventInput(events, recognise(events, from_, waiting=stream), list(names_of(key)) or None, schema, at_once)
    job = RunJob(
        source=source, subscriptions=subscriptions, subscriptions_from=subscriptions_from, output=output, index=index,
        form=form, plan=plan, format=format, timestamps=names_of(timestamps), rejects=rejects,
        dead_letters=dead_letters, overwrite=overwrite,
    )  # fmt: skip
    notes = checkpoint or f"{output}.checkpoint"
    _check_outputs(job, notes if stream else None)
    with running_spark(master, spark_settings, "whimbrel pipeline run", json) as spark:
        monitor = JobDisplay(spark, json)
        if stream:
            summary = run_stream(spark, job, StreamOptions(notes, None if once else every, once), monitor)
        else:
            summary = run_batch(spark, job, monitor)
    _finish(summary, json)


def explain(
    events: options.Events,
    subscriptions: Annotated[
        str, typer.Option("--index", "--subscriptions", "-s", metavar="DIR", help="The directory of a compiled index.")
    ],
    config: options.Config = None,
    key: options.Key = "",
    form: options.Form = "pairs",
    plan: options.Plan = "auto",
    schema: options.Schema = None,
    from_: options.EventsFrom = None,
    master: options.Master = None,
    settings: options.Settings = None,
) -> None:
    """Show how `run` would match.

    Shows the index version, the plan and why, and the columns that are read.
    """
    from whimbrel.pipeline.jobs.event_source import EventInput, read_events

    source = EventInput(events, recognise(events, from_), list(names_of(key)) or None, schema)
    with running_spark(master, settings_of(settings), "whimbrel pipeline explain") as spark:
        from whimbrel.pipeline import MatchOptions
        from whimbrel.pipeline import explain as explain_match

        read = read_events(spark, source)
        chosen = MatchOptions(key=read.key, form=form, plan=plan, json=read.json)
        text = explain_match(read.valid, subscriptions, chosen)
    typer.echo(text)


def _check_outputs(job: RunJob, checkpoint: str | None) -> None:
    """Refuse places that are taken before Spark is started."""
    overwrite = job.overwrite
    places = {"--rejects": job.rejects}
    if checkpoint is None or not Path(checkpoint).exists():
        places |= {"--output": job.output, "--dead-letters": job.dead_letters}
        overwrite &= checkpoint is None  # a stream goes on with the output that it has, and with no other
    check_outputs(places, [job.source.path, job.subscriptions])
    for option, path in places.items():
        if path is not None:
            check_output(path, option, overwrite)
    if job.form == "lists" and format_of(job.output, job.format) is OutputFormat.CSV:
        raise typer.BadParameter("Expected another format than csv, which has no lists", param_hint="--format")


def _finish(summary: RunSummary, json: bool) -> NoReturn:
    """Print the summary and end the program: 0 if all was good, 1 if something was refused."""
    if json:
        typer.echo(to_json(_fields(summary)))
    else:
        print_table(_rows(summary))
    raise typer.Exit(1 if summary.rejected or summary.dead_letters else 0)


def _fields(summary: RunSummary) -> dict[str, object]:
    fields: dict[str, object] = {
        "subscriptions": summary.subscriptions,
        "version": summary.version,
        "events": summary.events,
        "pairs": summary.pairs,
        "output": summary.output,
    }
    if summary.batches is not None:
        fields["batches"] = summary.batches
    refused = {"subscriptions": summary.rejected, "events": summary.dead_letters}
    return {
        **fields,
        "seconds": {"compile": round(summary.compile_seconds, 3), "match": round(summary.match_seconds, 3)},
        "rejected": {name: count for name, count in refused.items() if count},
    }


def _rows(summary: RunSummary) -> list[tuple[str, str]]:
    rows = [
        ("subscriptions", f"{summary.subscriptions:,}"),
        ("rejected subscriptions", f"{summary.rejected:,}"),
        ("index version", f"{summary.version}"),
        ("events", f"{summary.events:,}"),
        ("dead letters", f"{summary.dead_letters:,}"),
        ("pairs", f"{summary.pairs:,}"),
    ]
    if summary.batches is not None:
        rows.append(("micro-batches", f"{summary.batches:,}"))
    rows += [
        ("seconds to compile", f"{summary.compile_seconds:.1f}"),
        ("seconds to match", f"{summary.match_seconds:.1f}"),
    ]
    if summary.batches is None and summary.match_seconds:
        rows.append(("events per second", f"{summary.events / summary.match_seconds:,.0f}"))
    return [*rows, ("output", summary.output)]
