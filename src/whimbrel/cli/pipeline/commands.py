"""`whimbrel pipeline`: match on Apache Spark, at rest and as a stream, on one machine or a cluster."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.pipeline.config import load_config
from whimbrel.cli.pipeline.inputs import InputFormat
from whimbrel.cli.pipeline.outputs import OutputFormat
from whimbrel.cli.terminal.options import Json, Timestamps, names_of

if TYPE_CHECKING:
    from whimbrel.cli.pipeline.run import RunJob

pipeline = typer.Typer(
    help="Match on Apache Spark: batches and streams, one machine or a cluster.", no_args_is_help=True
)


class Form(StrEnum):
    """What the output has a row for."""

    PAIRS = "pairs"
    LISTS = "lists"


class PlanChoice(StrEnum):
    """How events and subscriptions are spread over tasks."""

    AUTO = "auto"
    REPLICATE = "replicate"
    SHARD = "shard"


Events = Annotated[
    str,
    typer.Option("--events", "-e", metavar="PATH", help="Parquet, JSON lines, CSV or ORC, or the directory of a log."),
]
Subscriptions = Annotated[
    str,
    typer.Option(
        "--subscriptions", "-s", metavar="PATH", help="Files of id and filter, or the directory of a compiled index."
    ),
]
Index = Annotated[str, typer.Option("--index", metavar="DIR", help="The directory of the compiled index.")]
Rejects = Annotated[
    str | None,
    typer.Option("--rejects", metavar="PATH", help="Write refused subscriptions there: id, text, message."),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="Where Spark runs: local[4], spark://host:7077, sc://host (default: here)."
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--settings", metavar="NAME=VALUE", help="A setting of Spark; may be repeated.")
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=load_config,
        help="TOML file with the names of these options; the command line wins.",
    ),
]
EventsFrom = Annotated[
    InputFormat | None, typer.Option("--from", help="Format of events whose name does not tell (default: json).")
]
SubscriptionsFrom = Annotated[
    InputFormat | None, typer.Option("--subscriptions-from", help="Format of subscriptions whose name does not tell.")
]
Key = Annotated[str, typer.Option("--key", metavar="A,B", help="What tells events apart (default: event_id, else id).")]
Schema = Annotated[
    str | None,
    typer.Option("--schema", metavar="DDL", help="What events must be, as 'id BIGINT, price DOUBLE', or a file of it."),
]


@pipeline.command()
def run(
    events: Events,
    subscriptions: Subscriptions,
    output: Annotated[str, typer.Option("--output", "-o", metavar="PATH", help="The directory that the pairs go to.")],
    config: Config = None,
    index: Annotated[
        str | None, typer.Option("--index", metavar="DIR", help="Where the index is compiled to, to be used again.")
    ] = None,
    key: Key = "",
    form: Annotated[Form, typer.Option("--form", help="A row for each pair, or for each event.")] = Form.PAIRS,
    plan: Annotated[
        PlanChoice, typer.Option("--plan", help="How work is spread (default: by the index's size).")
    ] = PlanChoice.AUTO,
    schema: Schema = None,
    timestamps: Timestamps = "",
    from_: EventsFrom = None,
    subscriptions_from: SubscriptionsFrom = None,
    format: Annotated[
        OutputFormat | None, typer.Option("--format", "-f", help="Format of the output (default: by name, or parquet).")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace output that is there.")] = False,
    rejects: Rejects = None,
    dead_letters: Annotated[
        str | None,
        typer.Option("--dead-letters", metavar="PATH", help="Write refused events there, with every reason."),
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Go on with what comes, until stopped.")] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="DIR", help="Where a stream notes how far it is (default: by OUTPUT)."),
    ] = None,
    every: Annotated[
        float | None, typer.Option("--every", metavar="SECONDS", min=0, help="Of a stream: time between micro-batches.")
    ] = None,
    files_at_once: Annotated[
        int, typer.Option("--files-at-once", metavar="N", min=1, help="Of a stream: files read by one micro-batch.")
    ] = 100,
    once: Annotated[bool, typer.Option("--once", help="Of a stream: stop when all there is now is matched.")] = False,
    master: Master = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Match events against subscriptions and write the pairs.

    Output appears when it is complete. Exit status: 0 all good, 1 some input was refused or the run failed, 2 wrong
    usage.
    """
    from whimbrel.cli.pipeline.events import EventSource
    from whimbrel.cli.pipeline.inputs import recognise
    from whimbrel.cli.pipeline.run import RunJob, is_index, run_batch
    from whimbrel.cli.pipeline.session import Cluster, running_spark, settings_of
    from whimbrel.cli.pipeline.stream import StreamOptions, run_stream
    from whimbrel.cli.pipeline.summary import finish

    cluster = Cluster(master, settings_of(settings))
    if not is_index(subscriptions):
        recognise(subscriptions, subscriptions_from)
    source = EventSource(
        events,
        recognise(events, from_, waiting=stream),
        list(names_of(key)) or None,
        schema,
        files_at_once if stream else None,
    )
    job = RunJob(
        source=source,
        subscriptions=subscriptions,
        subscriptions_from=subscriptions_from,
        output=output,
        index=index,
        form=form.value,
        plan=plan.value,
        format=format,
        timestamps=names_of(timestamps),
        rejects=rejects,
        dead_letters=dead_letters,
        overwrite=overwrite,
        quiet=json,
    )
    notes = checkpoint or f"{output}.checkpoint"
    _check_outputs(job, notes if stream else None)
    with running_spark(cluster, "whimbrel pipeline run", json) as spark:
        account = run_stream(spark, job, StreamOptions(notes, every, once)) if stream else run_batch(spark, job)
    finish(account, json)


def _check_outputs(job: RunJob, checkpoint: str | None) -> None:
    """Refuse places that are taken before Spark is started."""
    from whimbrel.cli.pipeline.outputs import Outputs, format_of

    outputs = Outputs(job.overwrite)
    places = {"--rejects": job.rejects}
    if checkpoint is None:
        places |= {"--output": job.output, "--dead-letters": job.dead_letters}
    elif not Path(checkpoint).exists():  # a stream goes on with the output that it has, and with no other
        outputs = Outputs(overwrite=False)
        places |= {"--output": job.output, "--dead-letters": job.dead_letters}
    for option, path in places.items():
        if path is not None:
            outputs.check(path, option)
    if job.form == "lists" and format_of(job.output, job.format) is OutputFormat.CSV:
        raise typer.BadParameter("Expected another format than csv, which has no lists", param_hint="--format")


@pipeline.command("compile")
def compile_(
    subscriptions: Subscriptions,
    index: Index,
    config: Config = None,
    events: Annotated[
        str | None, typer.Option("--events", "-e", metavar="PATH", help="A sample of events to plan the index by.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option("--shards", metavar="N", min=1, help="Parts of a new index (default: by its size).")
    ] = None,
    from_: EventsFrom = None,
    subscriptions_from: SubscriptionsFrom = None,
    rejects: Rejects = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace rejects that are there.")] = False,
    master: Master = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Compile subscriptions into a new version of an index.

    The version holds exactly these subscriptions; only what has changed is compiled. A stream that runs takes it up at
    its next micro-batch.
    """
    from whimbrel.cli.pipeline.compile import CompileJob, compile_version
    from whimbrel.cli.pipeline.inputs import recognise
    from whimbrel.cli.pipeline.outputs import Outputs
    from whimbrel.cli.pipeline.session import Cluster, running_spark, settings_of

    cluster = Cluster(master, settings_of(settings))
    recognise(subscriptions, subscriptions_from)
    if rejects is not None:
        Outputs(overwrite).check(rejects, "--rejects")
    sample = None if events is None else (events, recognise(events, from_))
    work = CompileJob(subscriptions, subscriptions_from, index, sample, shards, rejects, overwrite, json)
    with running_spark(cluster, "whimbrel pipeline compile", json) as spark:
        compiled = compile_version(spark, work)
    compiled.finish(json)


@pipeline.command()
def explain(
    events: Events,
    subscriptions: Annotated[
        str, typer.Option("--index", "--subscriptions", "-s", metavar="DIR", help="The directory of a compiled index.")
    ],
    config: Config = None,
    key: Key = "",
    form: Annotated[Form, typer.Option("--form", help="A row for each pair, or for each event.")] = Form.PAIRS,
    plan: Annotated[
        PlanChoice, typer.Option("--plan", help="How work is spread (default: by the index's size).")
    ] = PlanChoice.AUTO,
    schema: Schema = None,
    from_: EventsFrom = None,
    master: Master = None,
    settings: Settings = None,
) -> None:
    """Show how `run` would match: the index version, the plan and why, and the columns that are read."""
    from whimbrel.cli.pipeline.events import EventSource, read_events
    from whimbrel.cli.pipeline.inputs import recognise
    from whimbrel.cli.pipeline.session import Cluster, running_spark, settings_of

    source = EventSource(events, recognise(events, from_), list(names_of(key)) or None, schema)
    with running_spark(Cluster(master, settings_of(settings)), "whimbrel pipeline explain") as spark:
        from whimbrel.pipeline import explain as explain_match

        read = read_events(spark, source)
        text = explain_match(read.valid, subscriptions, key=read.key, form=form.value, plan=plan.value, json=read.json)
    typer.echo(text)


@pipeline.command()
def gc(
    index: Index,
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
    from whimbrel.cli.terminal.console import to_json
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
