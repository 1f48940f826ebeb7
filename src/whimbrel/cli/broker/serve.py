"""`whimbrel serve`: run a broker."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whimbrel.cli.terminal.console import say, say_json
from whimbrel.cli.terminal.options import Json, names_of

if TYPE_CHECKING:
    from whimbrel.broker.requests.settings import Settings


def serve(
    data: Annotated[
        str | None, typer.Option("--data", metavar="DIR", help="Where everything is stored (default: whimbrel-data).")
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="The address to listen on (default: 127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="PORT", help="The port to listen on (default: 8080); 0 picks a free one."),
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML.")] = None,
    tls_certificate: Annotated[
        str | None, typer.Option("--tls-certificate", metavar="FILE", help="The certificate for TLS, in PEM.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its key, in PEM.")] = None,
    timestamps: Annotated[
        str | None, typer.Option("--timestamps", metavar="A,B", help="Attributes whose strings are timestamps.")
    ] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="FILE", help="A schema that filters and events must fit.")
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", metavar="URL", help="Link with the broker at this address; may be repeated."),
    ] = None,
    peer_token: Annotated[
        list[str] | None,
        typer.Option(
            "--peer-token",
            metavar="TOKEN",
            help="The token for each --peer, or one for all; better in WHIMBREL_PEER_TOKENS.",
        ),
    ] = None,
    peer_ca: Annotated[
        str | None,
        typer.Option("--peer-ca", metavar="FILE", help="Trust these certificates (PEM), for peers with https."),
    ] = None,
    optimizer: Annotated[
        bool | None, typer.Option("--optimizer", help="Keep the routing tree of all linked brokers; one should.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="What peers call this broker.")] = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="inline|spark", help="Who matches: the broker (default), or a job on Spark."),
    ] = None,
    spark_master: Annotated[
        str | None, typer.Option("--spark-master", metavar="URL", help="Where the job runs (default: on this machine).")
    ] = None,
    log: Annotated[
        str | None, typer.Option("--log", metavar="text|json", help="The form of what is logged (default: text).")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option("--log-level", metavar="LEVEL", help="debug, info (default), warning or error.")
    ] = None,
    access_log: Annotated[
        bool | None, typer.Option("--access-log/--no-access-log", help="Whether every request is logged.")
    ] = None,
    retention_seconds: Annotated[
        float | None,
        typer.Option(
            "--retention-seconds", metavar="SECONDS", help="How long events are kept (default: a week); 0 for ever."
        ),
    ] = None,
    retention_bytes: Annotated[
        int | None,
        typer.Option(
            "--retention-bytes", metavar="BYTES", help="How large the log may become (default: 10 GB); 0 for no limit."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any setting; lists with commas. May be repeated. See --show-settings."
        ),
    ] = None,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print all settings with their values, as --config takes them.")
    ] = False,
    sample: Annotated[
        bool, typer.Option("--sample", help="Import subscriptions of a web shop, and publish a few events a second.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a broker: publish and subscribe over HTTP, durable.

    Every setting can also stand in the file of --config or in an environment variable, such as WHIMBREL_PORT. Off
    loopback a broker needs tokens: see `whimbrel token`. SIGTERM stops it when everything it took is on disk.

    Brokers that are linked with --peer work as one: a subscription at any of them gets what is published at any. A peer
    shows a token with the scope `peer`, on loopback too. Links must form a tree.
    """
    from whimbrel.broker.requests.settings import load_settings, to_toml, with_set

    flags: dict[str, object] = {
        "data": data, "host": host, "port": port, "schema": schema, "engine": engine, "spark_master": spark_master,
        "tls_certificate": tls_certificate, "tls_key": tls_key, "peers": peer or None,
        "peer_tokens": peer_token or None, "peer_ca": peer_ca, "optimizer": optimizer, "name": name, "log": log,
        "log_level": log_level, "access_log": access_log, "retention_seconds": retention_seconds,
        "retention_bytes": retention_bytes,
        "timestamps": None if timestamps is None else list(names_of(timestamps)),
    }  # fmt: skip
    if sample:
        from whimbrel.lab.shop_broker import BROKER_TIMESTAMPS

        flags["timestamps"] = flags["timestamps"] or BROKER_TIMESTAMPS
    settings = load_settings(flags, with_set(set_ or ()), config)
    if show_settings:
        typer.echo(to_toml(settings), nl=False)
        return
    raise typer.Exit(_run(settings, sample, json))


def _run(settings: Settings, sample: bool, json: bool) -> int:
    """Serve until a signal comes, and return the exit status. With `sample`, publish events of a web shop meanwhile."""
    from whimbrel.broker.server import serve as run

    stop = threading.Event()

    def started(address: str) -> None:
        if json:
            say_json({"address": address, "data": settings.data})
        else:
            say(f"whimbrel: serving {settings.data} at {address} (open it in a browser; {address}/docs has the API)")
        if sample:
            from whimbrel.lab.shop_broker import trickle

            if not json:
                say(f"watch: curl -N '{address}/stream?filter=data.price<20'")
            threading.Thread(target=trickle, args=(address, None, stop), daemon=True).start()

    try:
        return run(settings, started)
    finally:
        stop.set()
