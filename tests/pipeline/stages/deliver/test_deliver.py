"""Deliver: shapes, folders, functions; each micro-batch once, also when Spark repeats it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from whimbrel.pipeline.connectors.sinks import FolderSink, RecordedSink, StreamOptions
from whimbrel.pipeline.errors import BadOption, ColumnError, RemotePath
from whimbrel.pipeline.stages.deliver.deliver import DeliveredRows, deliver

pytestmark = pytest.mark.spark

PAIRS = [(1, "a"), (1, "b"), (2, "a"), (None, "b")]


@pytest.fixture
def pairs(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(PAIRS, "id int, subscription string")


@pytest.fixture
def lists(spark: SparkSession) -> DataFrame:
    rows = [(1, ["a", "b"]), (2, ["a"]), (None, ["b"]), (3, [])]
    return spark.createDataFrame(rows, "id int, subscriptions array<string>")


@pytest.fixture
def owners(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", "ann"), ("b", "bob"), ("c", "cy")], "id string, owner string")


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [(1, 0.5, "x"), (2, None, "y"), (None, 2.5, "z"), (9, 9.0, "-")], "id int, p double, `o.o` string"
    )


def rows(frame: DataFrame) -> list[Any]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def test_pairs_and_lists_give_the_same_groups(pairs: DataFrame, lists: DataFrame, owners: DataFrame) -> None:
    by_subscription = {
        row.subscription: sorted(str(one.id) for one in row.matches)
        for row in DeliveredRows("subscription")(pairs).collect()
    }
    assert by_subscription == {"a": ["1", "2"], "b": ["1", "None"]}
    assert (
        rows(DeliveredRows("event")(pairs))
        == rows(DeliveredRows("event")(lists))
        == [(1, ["a", "b"]), (2, ["a"]), (None, ["b"])]
    )
    owned = DeliveredRows("subscription", owners)(lists)
    assert {(row.subscription, row.owner, len(row.matches)) for row in owned.collect()} == {
        ("a", "ann", 2),
        ("b", "bob", 2),
    }
    by_event = DeliveredRows("event", owners)(lists)
    assert by_event.columns == ["id", "subscriptions", "owners"]
    assert (1, ["a", "b"], ["ann", "bob"]) in rows(by_event)
    assert rows(DeliveredRows()(pairs)) == sorted(PAIRS, key=str)


def test_columns_of_events_come_back_by_the_key(pairs: DataFrame, lists: DataFrame, events: DataFrame) -> None:
    joined = DeliveredRows(events=events)(pairs)
    assert joined.columns == ["id", "subscription", "p", "o.o"]
    expected = [(1, "a", 0.5, "x"), (1, "b", 0.5, "x"), (2, "a", None, "y"), (None, "b", 2.5, "z")]
    assert rows(joined) == sorted(expected, key=str)
    assert rows(DeliveredRows("event", events=events)(lists)) == [
        (1, ["a", "b"], 0.5, "x"), (2, ["a"], None, "y"), (None, ["b"], 2.5, "z"),
    ]  # fmt: skip
    (whole,) = DeliveredRows("subscription", events=events)(pairs).where("subscription = 'b'").collect()
    assert {(one.id, one.p, one["o.o"]) for one in whole.matches} == {(1, 0.5, "x"), (None, 2.5, "z")}
    with pytest.raises(PySparkException, match=r'Expected events with different keys, but several have \{"id":1\}'):
        DeliveredRows(events=events.union(events))(pairs.where("id = 1")).collect()
    with pytest.raises(ColumnError, match="the key of the matches among the events"):
        DeliveredRows(events=events.drop("id"))(pairs)
    with pytest.raises(ColumnError, match="a column subscription or subscriptions"):
        DeliveredRows()(events)


@pytest.mark.parametrize(
    ("columns", "group", "owned"),
    [
        ("id int, p int, subscription string", None, False),
        ("id int, p int, Subscription string", "subscription", False),
        ("id int, p int, ID string", None, False),
        ("id int, p int, P int", "event", False),
        ("id int, p int, subscriptions string", "event", False),
        ("id int, p int, Owner string", None, True),
        ("id int, p int, owners string", "event", True),
    ],
)
def test_columns_that_the_result_would_have_twice_are_refused(
    spark: SparkSession, pairs: DataFrame, owners: DataFrame, tmp_path: Path, columns: str, group: Any, owned: bool
) -> None:
    events = spark.createDataFrame([], columns)
    with pytest.raises(ColumnError, match="each name once, in any case") as raised:
        deliver(pairs, tmp_path / "to", group=group, events=events, owners=owners if owned else None)
    assert raised.value.column in events.columns


def test_an_owner_of_events_is_a_column_like_any_other(spark: SparkSession, pairs: DataFrame) -> None:
    events = spark.createDataFrame([(1, "x"), (2, "y"), (None, "x")], "id int, owner string")
    assert {
        row.subscription: len(row.matches) for row in DeliveredRows("subscription", None, events)(pairs).collect()
    } == {
        "a": 2,
        "b": 2,
    }
    assert rows(DeliveredRows("event", None, events)(pairs)) == [
        (1, ["a", "b"], "x"),
        (2, ["a"], "y"),
        (None, ["b"], "x"),
    ]


def test_at_rest(spark: SparkSession, pairs: DataFrame, owners: DataFrame, tmp_path: Path) -> None:
    deliver(pairs, tmp_path / "once", owners=owners, partition_by=["owner", "subscription"])
    assert (tmp_path / "once" / "owner=ann" / "subscription=a").is_dir()
    with pytest.raises(PySparkException, match="PATH_ALREADY_EXISTS"):
        deliver(pairs, tmp_path / "once")
    for _ in range(2):
        deliver(pairs, tmp_path / "named", format="json", run="31 January")
    written = spark.read.json(str(tmp_path / "named"))
    assert written.count() == len(PAIRS) and {row["query"] for row in written.collect()} == {"31 January"}
    called = list[Any]()
    deliver(pairs, lambda found, query, batch: called.append((found.count(), query, batch)), run="r")
    assert called == [(len(PAIRS), "r", 0)]


def test_options_that_do_not_go_together(spark: SparkSession, pairs: DataFrame, tmp_path: Path) -> None:
    stream = spark.readStream.schema(pairs.schema).json(str(tmp_path))
    with pytest.raises(BadOption, match="where the stream notes how far it is"):
        deliver(stream, tmp_path / "out")
    with pytest.raises(BadOption, match="either every or once"):
        deliver(stream, tmp_path / "out", stream=StreamOptions(tmp_path / "c", every=1, once=True))
    with pytest.raises(BadOption, match="whose checkpoint has an id"):
        deliver(stream, tmp_path / "out", stream=StreamOptions(tmp_path / "c"), run="r")
    with pytest.raises(BadOption, match="a streaming DataFrame"):
        deliver(pairs, tmp_path / "out", stream=StreamOptions(tmp_path / "c"))
    with pytest.raises(BadOption, match="none but with a directory"):
        deliver(pairs, print, partition_by="owner")
    with pytest.raises(RemotePath):
        deliver(pairs, "s3://bucket/x", run="r")
    with pytest.raises(BadOption, match="subscription or event"):
        deliver(pairs, tmp_path / "out", group="x")  # type: ignore[arg-type]


class Repeated:
    """A stream of two files of pairs, run to its end; `again` runs its last micro-batch once more, as after a crash."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self.spark, self.folder, self.options = spark, folder, options
        frame = spark.createDataFrame(PAIRS, "id int, subscription string").coalesce(1)
        for _ in range(2):
            frame.write.mode("append").parquet(str(folder / "in"))

    def run(self, to: Any) -> None:
        source = self.spark.readStream.schema("id int, subscription string").option("maxFilesPerTrigger", 1)
        stream = source.parquet(str(self.folder / "in"))
        query = deliver(stream, to, stream=StreamOptions(self.folder / "at", once=True), **self.options)
        assert query is not None
        query.awaitTermination()

    def again(self, to: Any) -> None:
        (self.folder / "at" / "commits" / "1").unlink()
        (self.folder / "at" / "commits" / ".1.crc").unlink()
        self.run(to)


def test_folders_of_a_stream_are_written_once(spark: SparkSession, tmp_path: Path) -> None:
    stream = Repeated(spark, tmp_path, group="subscription")
    out = tmp_path / "out"
    stream.run(out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    stream.again(out)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")} == before
    found = spark.read.parquet(str(out)).collect()
    assert sorted((row.batch, row.subscription, len(row.matches)) for row in found) == [
        (0, "a", 2), (0, "b", 2), (1, "a", 2), (1, "b", 2),
    ]  # fmt: skip
    assert not list((out / "_staging").iterdir())


def test_files_of_a_stream_as_they_come(spark: SparkSession, owners: DataFrame, tmp_path: Path) -> None:
    stream = Repeated(spark, tmp_path, owners=owners, partition_by="owner")
    stream.run(tmp_path / "out")
    stream.again(tmp_path / "out")
    counted = spark.read.parquet(str(tmp_path / "out")).groupBy("owner").count()
    assert rows(counted) == [("ann", 4), ("bob", 4)]


def test_a_function_is_called_again_only_if_it_did_not_come_back(spark: SparkSession, tmp_path: Path) -> None:
    stream = Repeated(spark, tmp_path)
    called = list[tuple[str, int, int]]()

    def take(found: DataFrame, query: str, batch: int) -> None:
        called.append((query, batch, found.count()))
        if len(called) == 2:
            raise RuntimeError("the power went off")

    with pytest.raises(PySparkException, match="the power went off"):
        stream.run(take)
    stream.run(take)
    stream.again(take)
    assert [batch for _, batch, _ in called] == [0, 1, 1] and len({query for query, _, _ in called}) == 1
    assert {count for *_, count in called} == {len(PAIRS)}


def test_what_has_its_place_is_not_written(pairs: DataFrame, tmp_path: Path) -> None:
    taken = list[object]()
    for _ in range(2):
        RecordedSink(tmp_path / "r", lambda *what: taken.append(what)).write(pairs, "q/1", 3)
    assert len(taken) == 1
    (tmp_path / "f" / "query=q%2F1" / "batch=3").mkdir(parents=True)
    FolderSink(tmp_path / "f").write(pairs, "q/1", 3)
    assert not list((tmp_path / "f").rglob("*.parquet"))
