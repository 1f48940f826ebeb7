"""The second chapter of the demo: price alerts on a stream of quotes, matched by Spark while the alerts change.

Quotes are appended to a durable log; a streaming query reads it, matches each micro-batch against one version of the
index, and writes its lists exactly once. Half-way a subscription is added, and counts from the next micro-batch on.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whimbrel.cli.pipeline.errors import JobFailed, reason_of
from whimbrel.cli.pipeline.session import Cluster, running_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console

    from whimbrel.lab.workloads import Workload

ALERTS = 50_000
QUOTES = 20_000
SECONDS = 8.0
"""How long quotes keep coming."""
_CHUNK = 0.1
_AT_MOST = 60.0
_CHECKED = 1_000
_NEW = (ALERTS, "volume >= 1 AND close > 0")
_SETTINGS = {
    # A short life: the quick compiler and the simple collector start at once.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


@dataclass(slots=True)
class Chapter:
    """What came of it."""

    events: int = 0
    pairs: int = 0
    new_pairs: int = 0
    latencies: list[int] = field(default_factory=list)
    versions: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0
    checked: int = 0

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {
            "events": self.events,
            "subscriptions": ALERTS + 1,
            "pairs": self.pairs,
            "batches": len(self.latencies),
            "median_ms": statistics.median(self.latencies),
            "versions": sorted(set(self.versions.values())),
            "checked": self.checked,
            "seconds": round(self.seconds, 3),
        }


class SparkInBackground:
    """A session that starts while something else is shown."""

    def __init__(self) -> None:
        self._ready: Future[SparkSession] = Future()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with running_spark(Cluster("local[*]", _SETTINGS), "whimbrel demo", quiet=True) as spark:
                spark.range(2, numPartitions=2).mapInArrow(_loaded, "id long").count()
                self._ready.set_result(spark)
                self._done.wait()
        except BaseException as error:  # whatever it is, it is for the one who waits
            if not self._ready.done():
                self._ready.set_exception(error)

    def get(self) -> SparkSession:
        """The session, waited for."""
        return self._ready.result()

    def close(self) -> None:
        """Stop the session."""
        self._done.set()
        self._thread.join()


def _loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows as they are: the first job of a worker is the slow one, as it loads the engine."""

    return batches


def play(console: Console, background: SparkInBackground) -> Chapter:
    """Show the chapter."""
    from whimbrel.lab.workloads import make

    console.rule("The same on Spark: a stream of events, while subscriptions change")
    workload = make("stocks", n=ALERTS, events=QUOTES, real=False)
    console.print(f"\n{ALERTS:,} alerts on stock quotes, such as")
    for row in workload.subscriptions.slice(1, 4).to_pylist():
        console.print(f"  {row['id']:<6}  {row['filter']}", markup=False)
    console.print()
    with tempfile.TemporaryDirectory(prefix="whimbrel-demo-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        workload.write(home)
        with console.status("Starting Spark"):
            spark = background.get()
        _compile(console, spark, home)
        chapter = _stream(console, spark, home, workload)
        with console.status(f"Matching {_CHECKED:,} of the events again, in this process"):
            chapter.checked = _check(workload, home, chapter)
    _summarise(console, chapter)
    return chapter


def _subscriptions(spark: SparkSession, home: Path) -> DataFrame:
    return spark.read.parquet(str(home / "subscriptions.parquet"))


def _compile(console: Console, spark: SparkSession, home: Path) -> None:
    from whimbrel.pipeline import compile_index

    started = time.perf_counter()
    with console.status("Compiling the alerts"):
        compiled = compile_index(_subscriptions(spark, home), home / "index")
    took = time.perf_counter() - started
    console.print(
        f"Compiled {compiled.count:,} subscriptions to version {compiled.version} of the index in {took:.1f} s"
    )


def _stream(console: Console, spark: SparkSession, home: Path, workload: Workload) -> Chapter:
    from whimbrel.pipeline import compile_index

    chapter = Chapter()
    with _Quotes(home / "log", workload) as quotes:
        query = _start(spark, home)
        try:
            follow = _Follower(console, query, home, chapter)
            follow.until(lambda: chapter.events > 0, "Starting the stream")
            started = time.perf_counter()
            quotes.start()
            follow.until(lambda: chapter.events >= QUOTES // 3, "Quotes are coming")
            id, filter = _NEW
            more = spark.createDataFrame([(id, filter)], "id bigint, filter string")
            compiled = compile_index(_subscriptions(spark, home).union(more), home / "index")
            follow.show()
            console.print(f"          version {compiled.version}: subscription {id} added: {filter}", style="bold")
            quotes.changed.set()
            follow.until(lambda: chapter.events >= QUOTES, "Quotes are coming")
        finally:
            query.stop()
    chapter.seconds = time.perf_counter() - started
    return chapter


class _Quotes:
    """A log that a thread appends quotes to, a few every moment.

    The first few are there at once; the last third waits until the subscriptions have `changed`, however busy the
    machine is.
    """

    def __init__(self, log: Path, workload: Workload) -> None:
        from whimbrel.log import LogWriter

        self._lines = [json.dumps(row, default=str).encode() for row in workload.events.to_pylist()]
        self._at_once = max(1, round(len(self._lines) * _CHUNK / SECONDS))
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
            if self._stop.wait(_CHUNK):
                return

    def __enter__(self) -> _Quotes:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._stop.set()
        self.changed.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._writer.close()


def _start(spark: SparkSession, home: Path) -> StreamingQuery:
    from pyspark.sql import functions as sf

    from whimbrel.pipeline import match_stream
    from whimbrel.pipeline.connectors.log_source import WhimbrelSource

    spark.dataSource.register(WhimbrelSource)
    quotes = spark.readStream.format("whimbrel").load(str(home / "log")).select("offset", "event")
    lists = match_stream(quotes, home / "index", key="offset", form="lists", json="event")
    counted = lists.observe(
        "matched",
        sf.sum(sf.size("subscriptions")).alias("pairs"),
        sf.count_if(sf.array_contains("subscriptions", _NEW[0])).alias("new"),
    )
    writer = counted.writeStream.format("parquet").option("checkpointLocation", str(home / "checkpoint"))
    return writer.start(str(home / "pairs"))


class _Follower:
    """Prints a line for each micro-batch that has ended, and adds it to the account."""

    def __init__(self, console: Console, query: StreamingQuery, home: Path, chapter: Chapter) -> None:
        self.console, self.query, self.home, self.chapter = console, query, home, chapter
        self.seen = -1
        self.deadline = time.monotonic() + _AT_MOST
        console.print("\n  batch   events     pairs      took   waiting   index   of the new one", style="dim")

    def until(self, done: Callable[[], bool], doing: str) -> None:
        """Print micro-batches until something is so, or time is up."""
        with self.console.status(doing):
            while not done() and time.monotonic() < self.deadline:
                self.show()
                error = self.query.exception()
                if error is not None:
                    raise JobFailed(reason_of(str(error)))
                time.sleep(0.05)
            self.show()

    def show(self) -> None:
        """Print the micro-batches that have ended since."""
        for progress in self.query.recentProgress:
            if progress["batchId"] > self.seen and progress["numInputRows"]:
                self.seen = progress["batchId"]
                self._line(progress)

    def _line(self, progress: Any) -> None:
        from whimbrel.cli.pipeline.inputs import InputFormat
        from whimbrel.cli.pipeline.lag import lag_of
        from whimbrel.pipeline import IndexStore
        from whimbrel.pipeline.index.batches import recorded

        chapter, batch, events = self.chapter, progress["batchId"], progress["numInputRows"]
        matched = progress["observedMetrics"]["matched"]
        took = progress["durationMs"]["triggerExecution"]
        lag = lag_of(progress, str(self.home / "log"), InputFormat.LOG, self.home / "checkpoint")
        chapter.versions.update(recorded(IndexStore(self.home / "index"))[str(self.query.id)])
        chapter.events += events
        chapter.pairs += matched["pairs"] or 0
        chapter.new_pairs += matched["new"]
        chapter.latencies.append(took)
        self.console.print(
            f"  {batch:>5}   {events:>6,}   {matched['pairs'] or 0:>7,}   {took:>5,} ms   {lag[0] if lag else 0:>6,}"
            f"   {chapter.versions[batch]:>5}   {matched['new']:>12,}"
        )


def _check(workload: Workload, home: Path, chapter: Chapter) -> int:
    """Match some events with the library, each against the subscriptions that its micro-batch knew; how many agree."""
    import pyarrow.parquet as pq

    from whimbrel.engine.index import Index

    table = pq.read_table(home / "pairs").sort_by("offset")
    if table["offset"].to_pylist() != list(range(chapter.events)):
        raise JobFailed(
            f"Expected each of {chapter.events:,} events once in the output, but got {table.num_rows:,} rows"
        )
    index = Index()
    index.add_many(workload.subscriptions)
    step = max(1, chapter.events // _CHECKED)
    agreed = 0
    for row in table.take(list(range(0, chapter.events, step))).to_pylist():
        event = workload.events.slice(row["offset"], 1).to_pylist()[0]
        event.pop("date")
        found = set(row["subscriptions"])
        agreed += found - {_NEW[0]} == set(index.match(event))
    return agreed


def _summarise(console: Console, chapter: Chapter) -> None:
    from rich.table import Table

    table = Table(title="Summary", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rows = [
        ("events", f"{chapter.events:,}"),
        ("subscriptions", f"{ALERTS:,}, then {ALERTS + 1:,}"),
        ("pairs that match", f"{chapter.pairs:,}"),
        ("of the new subscription", f"{chapter.new_pairs:,}"),
        ("micro-batches", f"{len(chapter.latencies)}"),
        ("median time of a micro-batch", f"{statistics.median(chapter.latencies):,.0f} ms"),
        ("events matched again by the library", f"{chapter.checked:,} the same"),
    ]
    for name, value in rows:
        table.add_row(name, value)
    console.print()
    console.print(table)
