"""The Prometheus metrics of a broker. They are read when Prometheus asks; none is labelled by subscription."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from time import monotonic

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from whimbrel.broker.service.broker import Broker

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The metrics of one broker, in a registry of their own."""

    def __init__(self, broker: Broker) -> None:
        self._registry = CollectorRegistry()
        self.publish_seconds = Histogram(
            "whimbrel_publish_seconds",
            "From a request's body to its answer, everything on disk.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.delivered = Counter(
            "whimbrel_delivered_messages", "Messages sent to subscribers.", ["protocol"], registry=self._registry
        )
        self.gaps = Counter(
            "whimbrel_gaps",
            "Times that a subscriber was told that messages were deleted.",
            ["protocol"],
            registry=self._registry,
        )
        self._broker = broker
        self._registry.register(_BrokerCollector(broker))
        broker.delivered = self._delivered_in_all

    def _delivered_in_all(self) -> int:
        """The number of messages delivered, over all protocols."""
        samples = [one for family in self.delivered.collect() for one in family.samples]
        streamed = sum(one.value for one in samples if one.name.endswith("_total"))
        return int(streamed) + self._broker.webhooks.engine.delivered

    def add(self, collector: Collector) -> None:
        """Register the collector of another part."""
        self._registry.register(collector)

    def render(self) -> bytes:
        """All metrics as Prometheus reads them."""
        return generate_latest(self._registry)


class _BrokerCollector(Collector):
    """Reads the counts of a broker when Prometheus asks."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterable[Metric]:
        """Read the present counts."""
        broker = self._broker
        for name, (text, count) in _counters(broker).items():
            yield CounterMetricFamily(name, text, value=count)
        for name, (text, value) in {**_gauges(broker), **_state_gauges(broker)}.items():
            yield GaugeMetricFamily(name, text, value=value)
        yield from _labelled(broker)


def _counters(broker: Broker) -> dict[str, tuple[str, float]]:
    """The counters by name, each with its help text: what happened since the start."""
    counts, sent, topics = broker.hub.counts(), broker.webhooks.engine.counts(), broker.publications.topics
    return {
        "whimbrel_published_events": ("Events that are on disk since the start.", broker.published),
        "whimbrel_updated_publications": (
            "Updates of publications since the start.",
            topics.publications.updated + topics.spaces.updated,
        ),
        "whimbrel_publication_notifications": (
            "Enters, leaves and deletes told of these updates.",
            topics.publications.notified + topics.spaces.notified,
        ),
        "whimbrel_refused_events": ("Events that were refused since the start.", broker.refused),
        "whimbrel_dropped_messages": ("Messages that slow ephemeral consumers lost.", counts["dropped"]),
        "whimbrel_no_space": ("Requests refused because the disk is nearly full.", broker.disk.refused),
        "whimbrel_webhook_requests": ("Requests to receivers of webhooks.", sent["requests"]),
        "whimbrel_webhook_messages": ("Messages that receivers of webhooks took.", sent["delivered"]),
        "whimbrel_webhook_failures": ("Requests to receivers that failed.", sent["failed"]),
        "whimbrel_webhook_given_up": ("Messages that became dead letters of webhooks.", sent["given_up"]),
        "whimbrel_webhook_troubles": ("Times that webhooks try again what the store refused.", sent["troubles"]),
        "whimbrel_webhook_gaps": ("Times that messages were deleted before a webhook got them.", sent["gaps"]),
        "whimbrel_spills": ("Times that a slow durable consumer went back to the log.", counts["spills"]),
        "whimbrel_match_commits": ("Commits of match lists since the start.", broker.matches.commits),
        "whimbrel_engine_restarts": (
            "Times that the job on Spark was started again.",
            0 if broker.spark is None else broker.spark.restarts,
        ),
        "whimbrel_truncated_entries": ("Entries of the log deleted since the start.", broker.retention.truncated),
    }


def _gauges(broker: Broker) -> dict[str, tuple[str, float]]:
    """The gauges of log, engine, disk and queues: how things stand now."""
    counts, sent = broker.hub.counts(), broker.webhooks.engine.counts()
    waiting_events, waiting_bytes = broker.sequencer.waiting
    lists, ids, in_memory = broker.list_sizes
    used, free = broker.log.sizes
    batch_seconds = 0.0 if broker.spark is None else broker.spark.batch_seconds
    return {
        "whimbrel_webhooks_in_flight": ("Requests to receivers at this moment.", sent["in_flight"]),
        "whimbrel_webhooks_queued": ("Webhooks that wait for their turn.", sent["queued"]),
        "whimbrel_webhooks_timed": ("Webhooks that wait for a retry, a digest or their rate.", sent["timed"]),
        "whimbrel_log_end_offset": ("The offset behind the last entry.", broker.end),
        "whimbrel_matched_offset": ("The watermark: every event below is matched.", broker.matches.watermark),
        "whimbrel_matched_lag_entries": ("Entries up to the last event that waits.", broker.matches.lag),
        "whimbrel_engine_running": ("Whether events are matched.", broker.engine_state == "running"),
        "whimbrel_engine_batch_seconds": ("What the last range took the job on Spark.", batch_seconds),
        "whimbrel_log_floor_offset": ("The lowest offset that can be read.", broker.log.floor),
        "whimbrel_log_bytes": ("Bytes of the log in use.", used),
        "whimbrel_log_free_bytes": ("Bytes that deleted entries left in the file of the log.", free),
        "whimbrel_schema_extensions": ("Extensions of the schema in the log.", broker.schemas.extended),
        "whimbrel_disk_free_bytes": ("Bytes that are free on the disk.", broker.disk.free),
        "whimbrel_disk_reserve_bytes": ("Bytes below which events are refused.", broker.disk.reserve),
        "whimbrel_subscriptions": ("Subscriptions in the index, ephemeral ones included.", len(broker.index)),
        "whimbrel_index_segments": ("Segments that a match searches.", broker.index.segments),
        "whimbrel_queue_events": ("Events that wait for the sequencer.", waiting_events),
        "whimbrel_queue_bytes": ("Bytes of events that wait for the sequencer.", waiting_bytes),
        "whimbrel_groups_in_flight": ("Groups between matching and the answer.", broker.sequencer.in_flight),
        "whimbrel_reads_waiting": ("Reads of messages that wait for a thread.", broker.runtime.waiting),
        "whimbrel_list_runs": ("Runs that a read of messages searches.", lists),
        "whimbrel_id_runs": ("Runs that a look-up of an event's id searches.", ids),
        "whimbrel_ids_in_memory": ("Ids of events that are not in runs yet.", in_memory),
        "whimbrel_streams": ("Open streams.", counts["streams"]),
        "whimbrel_outbox_messages": ("Messages that wait for consumers.", counts["waiting_messages"]),
        "whimbrel_outbox_bytes": ("Bytes of messages that wait for consumers.", counts["waiting_bytes"]),
        "whimbrel_uptime_seconds": ("Seconds since the start.", monotonic() - broker.started),
    }


def _state_gauges(broker: Broker) -> dict[str, tuple[str, float]]:
    """The gauges of publications and subject spaces."""
    topics = broker.publications.topics
    publications, publication_bytes, on_publications = topics.publications.counts
    spaces, in_spaces, on_spaces = topics.spaces.counts
    return {
        "whimbrel_publications": ("Publications with a key.", publications),
        "whimbrel_publication_bytes": ("Bytes of their states.", publication_bytes),
        "whimbrel_publication_subscriptions": ("Subscriptions on publications.", on_publications),
        "whimbrel_spaces": ("Subject spaces.", spaces),
        "whimbrel_space_publications": ("Publications in spaces.", in_spaces),
        "whimbrel_space_subscriptions": ("Subscriptions on spaces.", on_spaces),
    }


def _labelled(broker: Broker) -> Iterable[Metric]:
    """The metrics with a label: times by stage, offsets by fold, CPU time by thread."""
    stages = HistogramMetricFamily(
        "whimbrel_stage_seconds", "What a group of requests spends in each stage.", labels=["stage"]
    )
    for stage, buckets, total in broker.sequencer.stages.histograms():
        stages.add_metric([stage], buckets, total)
    yield stages
    stamps = GaugeMetricFamily("whimbrel_fold_offset", "The offset up to which a fold is on disk.", labels=["fold"])
    for name, offset in broker.retention.stamps.offsets().items():
        stamps.add_metric([name], offset)
    yield stamps
    cpu = CounterMetricFamily("whimbrel_thread_cpu_seconds", "CPU time by thread or pool.", labels=["thread"])
    for name, seconds in _thread_seconds().items():
        cpu.add_metric([name], seconds)
    yield cpu


def _thread_seconds() -> dict[str, float]:
    """The CPU seconds of living threads, by name without a number; none where the system does not tell (not Linux)."""
    sums: dict[str, float] = defaultdict(float)
    for thread in threading.enumerate():
        try:
            told = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text()
        except OSError:  # it has ended, or there is no such file
            continue
        name = thread.name.removeprefix("whimbrel-").partition("_")[0]
        name = "loop" if thread is threading.main_thread() else name if thread.name[:9] == "whimbrel-" else "other"
        sums[name] += int(told.split()[0]) / 1e9
    return sums
