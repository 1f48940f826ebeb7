"""The second chapter of the demo: price alerts on a stream of quotes, matched by Spark while the alerts change."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.cli.pipeline.session import running_spark
from whimbrel.cli.terminal.console import print_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console

    from whimbrel.lab.quote_stream import QuoteStream, StreamSizes, StreamTotals

_AT_MOST = 60.0  # seconds
_SETTINGS = {
    # A short life: the quick compiler and the simple collector start at once.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


class SparkInBackground:
    """Starts a Spark session in a thread while the terminal shows something else."""

    def __init__(self) -> None:
        self._ready: Future[SparkSession] = Future()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with running_spark("local[*]", _SETTINGS, "whimbrel demo", quiet=True) as spark:
                spark.range(2, numPartitions=2).mapInArrow(_loaded, "id long").count()
                self._ready.set_result(spark)
                self._done.wait()
        except BaseException as error:  # whatever it is, it is for the one who waits
            if not self._ready.done():
                self._ready.set_exception(error)

    def get(self) -> SparkSession:
        """Wait for the session and return it."""
        return self._ready.result()

    def close(self) -> None:
        self._done.set()
        self._thread.join()


def _loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows unchanged. Run once so that workers load the engine before anything is timed."""
    import whimbrel.pipeline.index.shards
    import whimbrel.pipeline.stages.match.task  # noqa: F401

    return batches


def play(console: Console, background: SparkInBackground, sizes: StreamSizes | None = None) -> StreamTotals:
    """Show the chapter on the console, and return its counts."""
    from whimbrel.lab.quote_stream import QuoteStream, StreamSizes

    sizes = sizes or StreamSizes()
    console.rule("The same on Spark: a stream of events, while subscriptions change")
    with tempfile.TemporaryDirectory(prefix="whimbrel-demo-", ignore_cleanup_errors=True) as folder:
        stream = QuoteStream(Path(folder), sizes)
        console.print(f"\n{sizes.alerts:,} alerts on stock quotes, such as")
        for row in stream.workload.subscriptions.slice(1, 4).to_pylist():
            console.print(f"  {row['id']:<6}  {row['filter']}", markup=False)
        console.print()
        with console.status("Starting Spark"):
            spark = background.get()
        _compile(console, stream, spark)
        _stream(console, stream, spark)
        with console.status(f"Matching {sizes.checked:,} of the events again, in this process"):
            stream.totals.checked = stream.check()
    _summarise(console, stream)
    return stream.totals


def _compile(console: Console, stream: QuoteStream, spark: SparkSession) -> None:
    started = time.perf_counter()
    with console.status("Compiling the alerts"):
        compiled = stream.compile(spark)
    took = time.perf_counter() - started
    console.print(
        f"Compiled {compiled.count:,} subscriptions to version {compiled.version} of the index in {took:.1f} s"
    )


def _stream(console: Console, stream: QuoteStream, spark: SparkSession) -> None:
    totals, quotes = stream.totals, stream.sizes.quotes
    with stream.feed() as feed:
        query = stream.start(spark)
        try:
            follow = _Follower(console, query, stream)
            follow.until(lambda: totals.events > 0, "Starting the stream")
            started = time.perf_counter()
            feed.start()
            follow.until(lambda: totals.events >= quotes // 3, "Quotes are coming")
            compiled = stream.compile(spark, added=True)
            follow.show()
            id, filter = stream.added
            console.print(f"          version {compiled.version}: subscription {id} added: {filter}", style="bold")
            feed.changed.set()
            follow.until(lambda: totals.events >= quotes, "Quotes are coming")
        finally:
            query.stop()
    totals.seconds = time.perf_counter() - started


class _Follower:
    """Prints a line for each micro-batch that has ended."""

    def __init__(self, console: Console, query: StreamingQuery, stream: QuoteStream) -> None:
        self.console, self.query, self.stream = console, query, stream
        self.deadline = time.monotonic() + _AT_MOST
        console.print("\n  batch   events     pairs      took   waiting   index   of the new one", style="dim")

    def until(self, done: Callable[[], bool], doing: str) -> None:
        """Print micro-batches until `done()` holds or time is up."""
        from whimbrel.pipeline.spark.failures import JobFailed, reason_of

        with self.console.status(doing):
            while not done() and time.monotonic() < self.deadline:
                self.show()
                error = self.query.exception()
                if error is not None:
                    raise JobFailed(reason_of(str(error)))
                time.sleep(0.05)
            self.show()

    def show(self) -> None:
        """Print the micro-batches that have ended since the last call."""
        for batch in self.stream.ended_batches(self.query):
            self.console.print(
                f"  {batch.number:>5}   {batch.events:>6,}   {batch.pairs:>7,}   {batch.milliseconds:>5,} ms"
                f"   {batch.waiting:>6,}   {batch.version:>5}   {batch.new_pairs:>12,}"
            )


def _summarise(console: Console, stream: QuoteStream) -> None:
    totals, alerts = stream.totals, stream.sizes.alerts
    rows = [
        ("events", f"{totals.events:,}"),
        ("subscriptions", f"{alerts:,}, then {alerts + 1:,}"),
        ("pairs that match", f"{totals.pairs:,}"),
        ("of the new subscription", f"{totals.new_pairs:,}"),
        ("micro-batches", f"{len(totals.latencies)}"),
        ("median time of a micro-batch", f"{statistics.median(totals.latencies):,.0f} ms"),
        ("events matched again by the library", f"{totals.checked:,} the same"),
    ]
    console.print()
    print_table(rows, "Summary", console)
