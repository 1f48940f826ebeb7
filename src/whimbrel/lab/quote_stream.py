"""Price alerts on a stream of stock quotes, matched by Spark while the alerts change: what the demo runs.

Quotes are appended to a durable log. A streaming query reads it, matches each micro-batch against one version of the
index, and writes its lists exactly once. Half-way a subscription is added; it counts from the next micro-batch on.
"""

from __future__ import annotations

import json
import statistics
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whimbrel.lab.workloads import Workload, make
from whimbrel.model.errors import WhimbrelError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from whimbrel.pipeline import Compiled

_INTERVAL = 0.1  # seconds between two appends to the log


class LostEvents(WhimbrelError):
    """The output does not have every event exactly once."""


@dataclass(frozen=True, slots=True)
class StreamSizes:
    """How many alerts and quotes there are, for how many seconds quotes come, and how many are checked at the end."""

    alerts: int = 50_000
    quotes: int = 20_000
    seconds: float = 8.0
    checked: int = 1_000


@dataclass(slots=True)
class StreamTotals:
    """The counts of all micro-batches so far. `versions` has the index version of each."""

    subscriptions: int
    events: int = 0
    pairs: int = 0
    new_pairs: int = 0
    latencies: list[int] = field(default_factory=list)
    versions: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0
    checked: int = 0

    def to_dict(self) -> dict[str, object]:
        return {
            "events": self.events,
            "subscriptions": self.subscriptions,
            "pairs": self.pairs,
            "batches": len(self.latencies),
            "median_ms": statistics.median(self.latencies),
            "versions": sorted(set(self.versions.values())),
            "checked": self.checked,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class QuoteBatch:
    """One micro-batch: its number, its counts, its milliseconds, the events that wait, and its index version."""

    number: int
    events: int
    pairs: int
    new_pairs: int
    milliseconds: int
    waiting: int
    version: int


class QuoteStream:
    """The alerts, the index, the log and the streaming query, all in one folder."""

    def __init__(self, home: Path, sizes: StreamSizes) -> None:
        self.home, self.sizes = home, sizes
        self.workload = make("stocks", n=sizes.alerts, events=sizes.quotes, real=False)
        self.added = (sizes.alerts, "volume >= 1 AND close > 0")
        self.totals = StreamTotals(sizes.alerts + 1)
        self.workload.write(home)
        self._seen = -1

    def compile(self, spark: SparkSession, added: bool = False) -> Compiled:
        """Compile the alerts to a version of the index; with `added` there is one more, which most quotes match."""
        from whimbrel.pipeline import compile_index

        alerts = spark.read.parquet(str(self.home / "subscriptions.parquet"))
        more = spark.createDataFrame([self.added] if added else [], "id bigint, filter string")
        return compile_index(alerts.union(more), self.home / "index")

    def feed(self) -> QuoteFeed:
        """A thread that appends the quotes to the log."""
        return QuoteFeed(self.home / "log", self.workload, self.sizes.seconds)

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start the query that matches the quotes of the log and writes lists of alerts."""
        from pyspark.sql import functions as sf

        from whimbrel.pipeline import match_stream
        from whimbrel.pipeline.connectors.log_source import WhimbrelSource

        spark.dataSource.register(WhimbrelSource)
        quotes = spark.readStream.format("whimbrel").load(str(self.home / "log")).select("offset", "event")
        lists = match_stream(quotes, self.home / "index", key="offset", form="lists", json="event")
        counted = lists.observe(
            "matched",
            sf.sum(sf.size("subscriptions")).alias("pairs"),
            sf.count_if(sf.array_contains("subscriptions", self.added[0])).alias("new"),
        )
        writer = counted.writeStream.format("parquet").option("checkpointLocation", str(self.home / "checkpoint"))
        return writer.start(str(self.home / "pairs"))

    def ended_batches(self, query: StreamingQuery) -> list[QuoteBatch]:
        """The micro-batches that have ended since the last call; they are added to the totals."""
        found = []
        for progress in query.recentProgress:
            if progress["batchId"] > self._seen and progress["numInputRows"]:
                self._seen = progress["batchId"]
                found.append(self._count(progress, str(query.id)))
        return found

    def _count(self, progress: Any, query: str) -> QuoteBatch:
        from whimbrel.pipeline import IndexStore
        from whimbrel.pipeline.connectors.files import InputFormat
        from whimbrel.pipeline.index.batches import recorded
        from whimbrel.pipeline.jobs.checkpoint import lag_of

        totals, matched = self.totals, progress["observedMetrics"]["matched"]
        lag = lag_of(progress, str(self.home / "log"), InputFormat.LOG, self.home / "checkpoint")
        totals.versions.update(recorded(IndexStore(self.home / "index"))[query])
        batch = QuoteBatch(
            number=progress["batchId"],
            events=progress["numInputRows"],
            pairs=matched["pairs"] or 0,
            new_pairs=matched["new"],
            milliseconds=progress["durationMs"]["triggerExecution"],
            waiting=lag[0] if lag else 0,
            version=totals.versions[progress["batchId"]],
        )
        totals.events += batch.events
        totals.pairs += batch.pairs
        totals.new_pairs += batch.new_pairs
        totals.latencies.append(batch.milliseconds)
        return batch

    def check(self) -> int:
        """Match some events with the library, without the added alert. Return how many have the same alerts.

        Raises `LostEvents` unless the output has each event once.
        """
        import pyarrow.parquet as pq

        from whimbrel.engine.index import Index

        events = self.totals.events
        table = pq.read_table(self.home / "pairs").sort_by("offset")
        if table["offset"].to_pylist() != list(range(events)):
            raise LostEvents(f"Expected each of {events:,} events once in the output, but got {table.num_rows:,} rows")
        index = Index()
        index.add_many(self.workload.subscriptions)
        agreed = 0
        for row in table.take(list(range(0, events, max(1, events // self.sizes.checked)))).to_pylist():
            event = self.workload.events.slice(row["offset"], 1).to_pylist()[0]
            event.pop("date")
            agreed += set(row["subscriptions"]) - {self.added[0]} == set(index.match(event))
        return agreed


class QuoteFeed:
    """A log that a thread appends quotes to, a few at a time.

    The first few are there at once. The last third waits until `changed` is set, however busy the machine is.
    """

    def __init__(self, log: Path, workload: Workload, seconds: float) -> None:
        from whimbrel.log import LogWriter

        self._lines = [json.dumps(row, default=str).encode() for row in workload.events.to_pylist()]
        self._at_once = max(1, round(len(self._lines) * _INTERVAL / seconds))
        self.changed = threading.Event()
        self._stop = threading.Event()
        self._writer = LogWriter(log)
        self._append(0).result()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.start = self._thread.start

    def _append(self, first: int) -> Future[range]:
        return self._writer.append_many([(line, None) for line in self._lines[first : first + self._at_once]])

    def _run(self) -> None:
        for first in range(self._at_once, len(self._lines), self._at_once):
            if 3 * first > 2 * len(self._lines):
                self.changed.wait()
            self._append(first)
            if self._stop.wait(_INTERVAL):
                return

    def __enter__(self) -> QuoteFeed:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._stop.set()
        self.changed.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._writer.close()
