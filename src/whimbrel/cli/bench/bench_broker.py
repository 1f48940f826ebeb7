"""`whimbrel bench broker`: how fast a broker takes and delivers events over loopback."""

from __future__ import annotations

from whimbrel.cli.bench.output import PartOutput, PartScale, show_benchmark
from whimbrel.cli.terminal.options import Json
from whimbrel.lab.measure.benchmark_results import Result, ResultTable


def broker(scale: PartScale = "small", output: PartOutput = None, json: Json = False) -> None:
    """Events per second of a broker over loopback.

    Durable publishes, publish to stream, fan-out, webhooks, publications, pulls from a long log, a start with many
    subscriptions. Rivals (NATS JetStream, Redis Streams) are in a checkout: python -m benchmarks broker.
    """
    from whimbrel.lab.measure import broker_bench

    show_benchmark("broker", broker_bench, _tables, scale, output, json)


def _tables(result: Result) -> list[ResultTable]:
    rows = [
        (
            f"publish, {row['workload']} {row['subscriptions']:,}",
            f"{row['events_per_second']:,} events/s",
            f"CPU us/event: broker {row['broker_us_per_event']} ({_threads(row)}), client {row['client_us_per_event']}",
        )
        for row in result["publish"]
    ]
    changes, alone, pulled, started = (result[name] for name in ("changes", "single_publishes", "pull", "start"))
    rows.append(("publish while 100 subscriptions/s change", f"{changes['events_per_second']:,} events/s", ""))
    rows.append(("single publish at 500/s", f"p50 {alone['p50_ms']} ms, p99 {alone['p99_ms']} ms", ""))
    for name, what in (("end_to_end", "publish to stream"), ("fan_out", "fan-out")):
        row = result[name]
        rows.append(
            (
                f"{what}, {row['streams']:,} streams, {row['events_per_second']:,} events/s",
                f"{row['deliveries_per_second']:,} deliveries/s, p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms",
                f"{row['messages_per_read']} per read; CPU: broker {row['broker_cpu']}, client {row['client_cpu']}",
            )
        )
    rows += [
        (
            f"webhooks of {row['subscriptions']:,}, up to {row['batch']:,} events per request",
            f"{row['deliveries_per_second']:,} deliveries/s",
            f"{row['events_per_request']} per request; CPU us/delivery: broker {row['broker_us_per_delivery']},"
            f" receiver {row['receiver_us_per_delivery']}",
        )
        for row in result["webhooks"]
    ]
    kept = result["publications"]
    rows.append(
        (
            f"updates of {kept['publications']:,} publications, {kept['subscriptions']:,} filters",
            f"{kept['updates_per_second']:,} updates/s",
            f"{kept['notifications_per_update']} notifications each; CPU us/update: broker"
            f" {kept['broker_us_per_update']}, client {kept['client_us_per_update']}",
        )
    )
    rows += [row for rival in result["rivals"] for row in _rival_rows(rival)]
    rows.append(
        (
            f"pull of 10 among {pulled['entries']:,}",
            f"p50 {pulled['p50_ms']} ms",
            f"rebuilt in {pulled['rebuild_seconds']} s",
        )
    )
    rows.append(
        (
            f"start with {started['subscriptions']:,}",
            f"{started['start_seconds']} s",
            f"imported in {started['import_seconds']} s",
        )
    )
    return [ResultTable("A broker over loopback", ("what", "measured", "beside"), tuple(rows))]


def _threads(row: Result) -> str:
    """The threads that took at least a tenth of a microsecond per event."""
    spent = sorted(row["thread_us_per_event"].items(), key=lambda one: -one[1])
    return ", ".join(f"{name} {seconds}" for name, seconds in spent if seconds >= 0.1)


def _rival_rows(rival: Result) -> list[tuple[str, str, str]]:
    """The figures of another server, which does not match, as rows of the table."""
    name = rival["name"]
    if "skipped" in rival:
        return [(f"{name}", "left out", rival["skipped"])]
    publish, delivered = rival["publish"], rival["fan_out"]
    return [
        (
            f"{name}: publish, nothing matched",
            f"{publish['events_per_second']:,} events/s",
            f"CPU us/event: server {publish['server_us_per_event']}, client {publish['client_us_per_event']}",
        ),
        (
            f"{name}: fan-out, {delivered['streams']:,} listeners",
            f"{delivered['deliveries_per_second']:,} deliveries/s, p50 {delivered['p50_ms']} ms,"
            f" p99 {delivered['p99_ms']} ms",
            f"CPU: server {delivered['server_cpu']}, client {delivered['client_cpu']}",
        ),
    ]
