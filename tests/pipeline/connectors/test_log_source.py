"""The log as a Spark source: what was appended comes out, in batch and in streams, and nothing is lost silently."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from tests.broker.certificates import make_certificates
from tests.broker.processes import BrokerProcess
from whimbrel import WhimbrelError
from whimbrel.client import Client
from whimbrel.log import BelowFloor, LogWriter
from whimbrel.pipeline.connectors.log_source import WhimbrelSource
from whimbrel.pipeline.errors import OtherLog

pytestmark = pytest.mark.spark

_SHORT = "offset BIGINT, event STRING"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(WhimbrelSource)
    return spark


def _entries(start: int, stop: int) -> list[tuple[bytes, list[int] | None]]:
    return [
        (b'{"n": %d}' % number, None if number % 5 == 4 else [number * place for place in range(number % 3)])
        for number in range(start, stop)
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 100 events and two entries of another kind at offsets 50 and 51."""
    path = tmp_path / "log"
    with LogWriter(path) as writer:
        writer.append_many(_entries(0, 50)).result()
        writer.append_many([(b"a subscription changed", None)] * 2, kind=1).result()
        writer.append_many(_entries(52, 102)).result()
    return path


def _load(session: SparkSession, path: Path, schema: str = _SHORT, **options: object) -> DataFrame:
    return session.read.format("whimbrel").schema(schema).options(path=str(path), **_texts(options)).load()


def _source(path: Path, **options: object) -> WhimbrelSource:
    """The source as Spark makes it, for what a driver asks it."""
    return WhimbrelSource(CaseInsensitiveDict({"path": str(path), **_texts(options)}))


def _texts(options: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items()}


def _schema(source: WhimbrelSource) -> StructType:
    return StructType([field for field in source.schema() if field.name in ("offset", "event")])


def _offsets(source: WhimbrelSource) -> list[int]:
    """The offsets that the tasks of a batch read."""
    reader = source.reader(_schema(source))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


class Stream:
    """Runs a query on the log to the end of what is there, again and again with one checkpoint."""

    def __init__(self, session: SparkSession, folder: Path, log: Path) -> None:
        self.session, self.folder, self.log = session, folder, log

    def run(self, **options: object) -> list[int]:
        """The offsets that the sink holds after the run."""
        reader = self.session.readStream.format("whimbrel").schema(_SHORT)
        stream = reader.options(path=str(self.log), **_texts(options)).load()
        query = stream.writeStream.format("parquet").options(
            path=str(self.folder / "out"), checkpointLocation=str(self.folder / "checkpoint")
        )
        running = query.trigger(availableNow=True).start()
        try:
            running.awaitTermination()
        finally:
            self.batches = [progress["numInputRows"] for progress in running.recentProgress]
            running.stop()
        return self.found()

    def found(self) -> list[int]:
        """The offsets that the sink holds, in order of offsets."""
        rows = self.session.read.schema(_SHORT).parquet(str(self.folder / "out")).collect()
        assert all(row.event == f'{{"n": {row.offset}}}' for row in rows)
        return sorted(row.offset for row in rows)


@pytest.fixture
def stream(session: SparkSession, tmp_path: Path, log: Path) -> Stream:
    return Stream(session, tmp_path, log)


def test_a_batch_read_gives_every_event_with_all_columns(session: SparkSession, log: Path) -> None:
    frame = session.read.format("whimbrel").option("path", str(log)).load()
    assert frame.schema.simpleString() == "struct<offset:bigint,time:timestamp,event:string,matches:array<bigint>>"
    rows = frame.orderBy("offset").collect()
    expected = dict(enumerate(_entries(0, 102)))
    del expected[50], expected[51]
    assert [row.offset for row in rows] == list(expected)
    for row in rows:
        event, matches = expected[row.offset]
        assert row.event.encode() == event
        assert row.matches == (None if matches is None else sorted(set(matches)))
        assert abs((datetime.now(UTC) - row.time.astimezone(UTC)).total_seconds()) < 600


def test_the_source_needs_neither_the_client_of_brokers_nor_kernels() -> None:
    program = f"import sys; sys.modules |= dict.fromkeys(('httpx', 'numba')); import {WhimbrelSource.__module__}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_range_is_read_by_several_tasks_and_columns_can_be_chosen(session: SparkSession, log: Path) -> None:
    frame = _load(session, log, "event BINARY", eventsPerPartition=7, startingOffset=10, endingOffset=40)
    assert frame.rdd.getNumPartitions() == 5
    assert sorted(bytes(row.event) for row in frame.collect()) == sorted(event for event, _ in _entries(10, 40))


def test_an_empty_log_and_an_empty_range_give_no_rows(session: SparkSession, log: Path, tmp_path: Path) -> None:
    LogWriter(tmp_path / "empty").close()
    assert _load(session, tmp_path / "empty").collect() == []
    assert _offsets(_source(log, startingOffset=102)) == []


def test_bytes_that_are_not_text_can_be_read_as_binary_only(session: SparkSession, tmp_path: Path) -> None:
    with LogWriter(tmp_path) as writer:
        writer.append_many([(b"{}", None), (b"\xff\xfe", None)]).result()
    rows = _load(session, tmp_path, "event BINARY").collect()
    assert [bytes(row.event) for row in rows] == [b"{}", b"\xff\xfe"]
    with pytest.raises(PySparkException, match=r"Expected UTF-8 .* - at offset 1 of the log"):
        _load(session, tmp_path).collect()


def test_a_stream_reads_each_event_once_in_bounded_batches_over_restarts(stream: Stream) -> None:
    events = [*range(50), *range(52, 102)]
    assert stream.run(maxEventsPerTrigger=30, eventsPerPartition=8) == events
    assert [rows for rows in stream.batches if rows] == [30, 28, 30, 12]
    assert stream.run() == events
    with LogWriter(stream.log) as writer:
        writer.append_many(_entries(102, 150)).result()
    assert stream.run(maxEventsPerTrigger=0) == [*events, *range(102, 150)]
    assert [rows for rows in stream.batches if rows] == [48]


@pytest.mark.parametrize(("starting", "expected"), [("earliest", 0), ("latest", 102), ("90", 90)])
def test_a_stream_starts_where_it_is_told(log: Path, starting: str, expected: int) -> None:
    source = _source(log, startingOffset=starting)
    assert source.streamReader(_schema(source)).initialOffset()["offset"] == expected


def test_a_cursor_below_the_floor_fails_unless_loss_is_allowed(stream: Stream) -> None:
    stream.run(maxEventsPerTrigger=1_000)
    with LogWriter(stream.log) as writer:
        writer.append_many(_entries(102, 200)).result()
        writer.truncate(130).result()
    before = stream.found()
    with pytest.raises(PySparkException, match="Expected an offset of at least 130, the floor of the log, but got 102"):
        stream.run()
    assert stream.found() == before
    assert stream.run(failOnDataLoss="false") == [*before, *range(130, 200)]


def test_a_start_below_the_floor_fails_unless_loss_is_allowed(log: Path) -> None:
    with LogWriter(log) as writer:
        writer.truncate(60).result()
    source = _source(log, startingOffset=5)
    stream = source.streamReader(_schema(source))
    for start in (source.reader(_schema(source)).partitions, stream.initialOffset):
        with pytest.raises(BelowFloor, match="at least 60, the floor of the log, but got 5"):
            start()
    lossy = _source(log, startingOffset=5, failOnDataLoss="false")
    assert _offsets(lossy) == list(range(60, 102))
    assert lossy.streamReader(_schema(lossy)).initialOffset()["offset"] == 60


def test_another_log_is_an_error_whatever_the_options(log: Path, tmp_path: Path) -> None:
    source = _source(log)
    cursor = source.streamReader(_schema(source)).initialOffset()
    with LogWriter(tmp_path / "other") as writer:
        writer.append_many(_entries(0, 500)).result()
    other = _source(tmp_path / "other", failOnDataLoss="false")
    stream = other.streamReader(_schema(other))
    for ask in (lambda: stream.latestOffset(cursor, ReadAllAvailable()), lambda: stream.partitions(cursor, cursor)):
        with pytest.raises(OtherLog, match=r"Expected the log [0-9a-f]{32} that the checkpoint has read from"):
            ask()


@pytest.mark.parametrize(
    ("schema", "options", "problem"),
    [
        (_SHORT, {"startingOffset": "newest"}, "Expected earliest, latest or an offset, but got 'newest'"),
        (_SHORT, {"startingOffset": "latest"}, "earliest or a number in a batch query, but got 'latest'"),
        (_SHORT, {"endingOffset": "103"}, "at most 102, the end of the log, but got 103"),
        (_SHORT, {"eventsPerPartition": "0"}, "a number of at least 1, but got '0'"),
        (_SHORT, {"maxEventsPerTrigger": "-1"}, "a number of at least 0, but got '-1'"),
        (_SHORT, {"failOnDataLoss": "maybe"}, "true or false, but got 'maybe'"),
        (_SHORT, {"path": ""}, "the directory of a log, or the url of a broker, but got ''"),
        (_SHORT, {"url": "http://127.0.0.1:1"}, "either the directory of a log or the url of a broker, but got '/"),
        (_SHORT, {"ca": "ca.pem"}, "no file of certificates with the directory of a log, but got 'ca.pem' - at ca"),
        (_SHORT, {"path": "", "url": "https://localhost", "ca": "none"}, "Expected a file of certificates in PEM"),
        (_SHORT, {"path": "", "url": "localhost"}, "with http:// or https://, but got 'localhost' - at url"),
        (_SHORT, {"token": "t"}, "no token with the directory of a log, but got 'one' - at token"),
        (_SHORT, {"path": "/nowhere"}, "Expected a log, but there is none - at /nowhere"),
        ("event INT", {}, "Expected string or binary, but got int - at column event"),
        ("price INT", {}, "a column of offset, time, event, matches"),
    ],
)
def test_bad_options_and_columns_are_named(
    session: SparkSession, log: Path, schema: str, options: dict[str, str], problem: str
) -> None:
    source = _source(**{"path": log, **options})  # type: ignore[arg-type]
    with pytest.raises(WhimbrelError, match=problem):
        source.reader(StructType.fromDDL(schema)).partitions()


def test_a_bad_option_ends_the_query(session: SparkSession, log: Path) -> None:
    with pytest.raises(PySparkException, match="true or false, but got 'maybe'"):
        _load(session, log, failOnDataLoss="maybe").collect()


@pytest.mark.soak
def test_a_broker_is_read_over_https_as_its_directory_is(session: SparkSession, tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "certificates")
    process = BrokerProcess(tmp_path, **files.settings)
    with process, httpx.Client(base_url=process.url, verify=files.trusting, timeout=60, trust_env=False) as http:
        tokens: dict[str, str] = {}
        for name, scopes in (("root", ["admin"]), ("user", ["publish", "subscribe"]), ("spark", ["match"])):
            headers = {"authorization": f"Bearer {tokens['root']}"} if tokens else {}
            asked = {"name": name, "scopes": scopes}
            tokens[name] = http.post("/tokens", json=asked, headers=headers).json()["token"]
        with Client(process.url, tokens["user"], ca=files.authority) as client:
            client.create("data.n < 20")
            offsets = [result.offset for result in client.publish([{"n": n} for n in range(30)])]
            client.create("data.n < 10")  # an entry between events
            offsets += [result.offset for result in client.publish([{"n": n} for n in range(30)])]
        over_http = {"url": process.url, "token": tokens["spark"], "eventsPerPartition": "25"}
        over_http |= {"ca": str(files.authority)}
        rows = session.read.format("whimbrel").options(**over_http).load().orderBy("offset").collect()
        in_directory = session.read.format("whimbrel").load(str(tmp_path / "log")).orderBy("offset").collect()
        assert rows == in_directory and [row.offset for row in rows] == offsets
        assert [len(row.matches) for row in rows] == [1] * 20 + [0] * 10 + [2] * 10 + [1] * 10 + [0] * 10

        chosen = {"maxEventsPerTrigger": "40", "startingOffset": str(offsets[10])}
        stream = session.readStream.format("whimbrel").schema(_SHORT).options(**over_http, **chosen).load()
        query = stream.writeStream.format("memory").queryName("over_http").trigger(availableNow=True).start()
        query.awaitTermination()
        assert sorted(row.offset for row in session.table("over_http").collect()) == offsets[10:]

        for options, problem in (
            ({"token": tokens["user"]}, "Expected a token with the scope match"),
            ({"token": "wrong"}, "401"),
            ({"ca": ""}, "certificate verify failed"),
            ({"endingOffset": "10000"}, f"the end of the log, but got 10000 - at {process.url}"),
        ):
            with pytest.raises(PySparkException, match=problem):
                session.read.format("whimbrel").options(**over_http | options).load().collect()
