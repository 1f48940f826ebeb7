"""Streams: the same pairs as at rest, one version per micro-batch, replays that repeat it, and files that drift."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.publishing import publish
from whimbrel import Filter, Index
from whimbrel.log import LogWriter
from whimbrel.pipeline import IndexStore, match, match_stream
from whimbrel.pipeline.connectors.log_source import WhimbrelSource
from whimbrel.pipeline.errors import BadOption, MissingVersion
from whimbrel.pipeline.index.batches import gc, recorded

pytestmark = pytest.mark.spark

_SCHEMA = "id BIGINT, a INT, b STRING, d STRUCT<x: DOUBLE, tags: ARRAY<STRING>>"
_ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("a", pa.int32()),
        ("b", pa.string()),
        ("d", pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])),
    ]
)
Pairs = set[tuple[int, int]]


def _events(first: int, count: int) -> list[dict[str, Any]]:
    """Events with values and holes, foretold by their id."""
    events = []
    for id in range(first, first + count):
        draw = random.Random(id)
        d = {
            "x": draw.choice([None, 0.5, draw.random() * 10]),
            "tags": draw.choice([None, [], draw.sample("pqrs", 2)]),
        }
        events.append(
            {
                "id": id,
                "a": draw.choice([None, draw.randrange(10)]),
                "b": draw.choice([None, "u", "v", "vw", "é"]),
                "d": draw.choice([None, d, d]),
            }
        )
    return events


def _filters(seed: int, count: int) -> dict[int, str]:
    draw = random.Random(seed)
    kinds: list[Callable[[], str]] = [
        lambda: f"a {draw.choice(['=', '<', '>=', '!='])} {draw.randrange(10)}",
        lambda: f"b {draw.choice(['=', '!=', '<'])} '{draw.choice(['u', 'v', 'é'])}'",
        lambda: f"b LIKE '{draw.choice(['v%', '%w', '_'])}'",
        lambda: f"d.x {draw.choice(['<', '>'])} {draw.random() * 10:.3}",
        lambda: f"d.tags CONTAINS '{draw.choice('pqrs')}'",
        lambda: f"{draw.choice(['a', 'b', 'd.x', 'd.tags'])} IS {draw.choice(['', 'NOT '])}MISSING",
    ]
    joined = lambda: f" {draw.choice(['AND', 'OR'])} ".join(draw.choice(kinds)() for _ in range(draw.choice([1, 2, 3])))  # noqa: E731
    return {seed * 1_000 + number: joined() for number in range(count)}


def _expected(events: list[dict[str, Any]], filters: dict[int, str]) -> Pairs:
    """The judge: the reference evaluator, where a null column is a missing attribute."""
    parsed = {id: Filter.parse(text) for id, text in filters.items()}
    found = set()
    for event in events:
        d = event["d"] or {}
        flat = {"a": event["a"], "b": event["b"], "d.x": d.get("x"), "d.tags": d.get("tags")}
        values = {name: value for name, value in flat.items() if value is not None}
        found |= {(event["id"], id) for id, filter in parsed.items() if filter.matches(values)}
    return found


def _write(folder: Path, name: str, events: list[dict[str, Any]], schema: pa.Schema = _ARROW) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(events, schema), folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def _pairs(frame: DataFrame) -> Pairs:
    rows = frame.collect()
    found = {(row[0], row[1]) for row in rows}
    assert len(found) == len(rows)
    return found


class Pipeline:
    """A stream of Parquet files through `match_stream` into Parquet files."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.index, self.input = folder / "index", folder / "in"
        self.input.mkdir()

    def events(self, schema: str = _SCHEMA) -> DataFrame:
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.input))

    def start(self, frame: DataFrame) -> Any:
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.folder / "checkpoint"))
        return writer.option("path", str(self.folder / "out")).start()

    def run(self, frame: DataFrame | None = None) -> Pairs:
        """All that is there, to its end; the pairs in the sink."""
        query = self.start(match_stream(self.events(), self.index) if frame is None else frame)
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return self.found()

    def found(self) -> Pairs:
        return _pairs(self.spark.read.schema("id BIGINT, subscription BIGINT").parquet(str(self.folder / "out")))


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, tmp_path)


def test_batch_and_stream_and_library_give_the_same_pairs(pipeline: Pipeline) -> None:
    filters = _filters(1, 40)
    publish(pipeline.index, filters)
    events = _events(0, 300)
    for part in range(3):
        _write(pipeline.input, f"part{part}", events[part * 100 : part * 100 + 100])
    expected = _expected(events, filters)
    assert len(expected) > 1_000
    assert pipeline.run() == expected
    table = pq.read_table(pipeline.input)
    at_rest = match(pipeline.spark.read.schema(_SCHEMA).parquet(str(pipeline.input)), pipeline.index)
    assert _pairs(at_rest) == expected
    index = Index()
    index.add_many(filters.items())
    pairs = index.match_batch(table.drop_columns(["id"]))
    ids = table["id"].to_pylist()
    assert {(ids[row], id) for row, id in zip(*(column.to_pylist() for column in pairs), strict=True)} == expected


def test_events_of_the_log_are_matched_as_json(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.spark.dataSource.register(WhimbrelSource)
    filters = _filters(2, 30)
    publish(pipeline.index, filters)
    events = [{key: value for key, value in event.items() if value is not None} for event in _events(0, 120)]
    with LogWriter(tmp_path / "log") as writer:
        writer.append_many((json.dumps(event).encode(), None) for event in events).result()
    reader = pipeline.spark.readStream.format("whimbrel").option("path", str(tmp_path / "log"))
    stream = reader.option("maxEventsPerTrigger", "50").option("eventsPerPartition", "20").load()
    matched = match_stream(stream, pipeline.index, key="offset", json="event", form="lists")
    query = matched.writeStream.format("memory").queryName("lists").start()
    query.processAllAvailable()
    query.stop()
    rows = pipeline.spark.table("lists").collect()
    assert sorted(row.offset for row in rows) == list(range(120))
    index = Index()
    index.add_many(filters.items())
    for row in rows:
        assert sorted(row.subscriptions) == sorted(index.match(events[row.offset]))


def test_new_versions_count_from_the_next_micro_batch_on_without_a_restart(pipeline: Pipeline) -> None:
    """The second version drops and adds subscriptions and mentions an attribute that the first did not."""
    versions = [{1: "a < 5", 2: "a >= 5"}, {2: "a >= 4", 3: "b = 'v' AND d.x > 1"}, {4: "d.tags CONTAINS 'p'"}]
    publish(pipeline.index, versions[0])
    query = pipeline.start(match_stream(pipeline.events(), pipeline.index))
    expected: Pairs = set()
    try:
        for number, filters in enumerate(versions):
            if number:
                publish(pipeline.index, filters)
            for part in range(2):
                events = _events(number * 200 + part * 100, 100)
                _write(pipeline.input, f"part{number}{part}", events)
                expected |= _expected(events, filters)
                query.processAllAvailable()
            assert pipeline.found() == expected
    finally:
        query.stop()
    ((_, records),) = recorded(IndexStore(pipeline.index)).items()
    assert records == [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3)]


def test_a_replay_repeats_the_version_that_the_batch_was_given(pipeline: Pipeline, tmp_path: Path) -> None:
    first, second = {1: "a < 5", 2: "b = 'u'"}, {3: "a >= 5"}
    publish(pipeline.index, first)
    _write(pipeline.input, "part0", _events(0, 100))
    seen: list[tuple[int, Pairs]] = []

    def keep(frame: DataFrame, batch: int) -> None:
        seen.append((batch, _pairs(frame)))

    def run() -> None:
        writer = match_stream(pipeline.events(), pipeline.index).writeStream.foreachBatch(keep)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.processAllAvailable()
        query.stop()

    run()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()  # as if the driver had died before the commit
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    publish(pipeline.index, second)
    publish(pipeline.index, second)
    assert gc(pipeline.index).deleted == (2,)
    _write(pipeline.input, "part1", _events(100, 100))
    run()
    batch0, batch1 = _expected(_events(0, 100), first), _expected(_events(100, 100), second)
    assert seen == [(0, batch0), (0, batch0), (1, batch1)]


def test_a_checkpoint_of_another_pipeline_is_refused_and_nothing_is_written(pipeline: Pipeline) -> None:
    publish(pipeline.index, {1: "a < 5"})
    _write(pipeline.input, "part0", _events(0, 20))
    before = pipeline.run()
    _write(pipeline.input, "part1", _events(20, 20))
    other = pipeline.folder / "other"
    publish(other, {1: "a < 5"})
    with pytest.raises(PySparkException, match=r"Expected a checkpoint of this index, but query .* is at batch 1"):
        pipeline.run(match_stream(pipeline.events(), other))
    assert pipeline.found() == before
    adopted = pipeline.run(match_stream(pipeline.events(), other, adopt=True))
    assert adopted == _expected(_events(0, 40), {1: "a < 5"})


def test_what_cannot_be_streamed_is_refused_at_once(pipeline: Pipeline, tmp_path: Path) -> None:
    with pytest.raises(MissingVersion, match="there is none"):
        match_stream(pipeline.events(), tmp_path / "nowhere")
    publish(pipeline.index, {1: "a < 5"})
    with pytest.raises(BadOption, match="a streaming DataFrame"):
        match_stream(pipeline.spark.range(3), pipeline.index)


def test_ids_of_another_kind_stop_the_stream(pipeline: Pipeline) -> None:
    publish(pipeline.index, {1: "a < 5"})
    stream = match_stream(pipeline.events(), pipeline.index)
    publish(pipeline.index, {"one": "a < 5"})
    _write(pipeline.input, "part0", _events(0, 20))
    with pytest.raises(PySparkException, match="Expected ids of kind int64, but got string in version 2"):
        pipeline.run(stream)


def test_a_version_that_was_deleted_by_hand_is_named(pipeline: Pipeline) -> None:
    publish(pipeline.index, {1: "a < 5"})
    stream = match_stream(pipeline.events(), pipeline.index)
    shutil.rmtree(pipeline.index / "shards")
    _write(pipeline.input, "part0", _events(0, 20))
    with pytest.raises(PySparkException, match=str(pipeline.index / "shards")):
        pipeline.run(stream)


def test_files_that_gain_and_lose_columns(pipeline: Pipeline) -> None:
    """The stream's schema counts: a new column is passed over until it has it, and a lost one is missing."""
    filters = {1: "a < 5", 2: "a IS MISSING", 3: "extra = 1", 4: "extra IS MISSING", 5: "b = 'v'"}
    publish(pipeline.index, filters)
    _write(pipeline.input, "part0", [{"id": 0, "a": 1, "b": "v"}])
    wider = pa.schema([*_ARROW, ("extra", pa.int32())])
    _write(pipeline.input, "part1", [{"id": 1, "a": 1, "extra": 1}], wider)
    _write(pipeline.input, "part2", [{"id": 2, "b": "v"}], pa.schema([("id", pa.int64()), ("b", pa.string())]))
    expected = {(0, 1), (0, 4), (0, 5), (1, 1), (1, 4), (2, 2), (2, 4), (2, 5)}
    assert pipeline.run() == expected
    _write(pipeline.input, "part3", [{"id": 3, "a": 9, "extra": 1}], wider)
    stream = match_stream(pipeline.events(f"{_SCHEMA}, extra INT"), pipeline.index)
    assert pipeline.run(stream) == expected | {(3, 3)}


def test_a_column_that_changes_its_type_stops_the_stream_and_nothing_of_the_batch_is_written(
    pipeline: Pipeline,
) -> None:
    publish(pipeline.index, {1: "a < 5", 2: "a = '1'"})
    _write(pipeline.input, "part0", [{"id": 0, "a": 1}])
    assert pipeline.run() == {(0, 1)}
    drifted = _ARROW.set(1, pa.field("a", pa.string()))
    _write(pipeline.input, "part1", [{"id": 1, "a": "1"}], drifted)
    with pytest.raises(PySparkException, match=r"part1\.parquet"):
        pipeline.run()
    assert pipeline.found() == {(0, 1)}
    _write(pipeline.input, "part1", [{"id": 1, "a": 2}])  # put right, the stream goes on where it stopped
    assert pipeline.run() == {(0, 1), (1, 1)}


def test_json_lines_that_change_types_can_be_matched_as_what_they_are(pipeline: Pipeline) -> None:
    """Read as text, every line keeps its own types: no schema, no drift."""
    publish(pipeline.index, {1: "a < 5", 2: "a = '1'", 3: "extra = TRUE", 4: "a IS MISSING"})
    (pipeline.input / "part0.jsonl").write_text('{"a": 1}\n{"a": "1"}\n{"extra": true}\n')
    lines = pipeline.spark.readStream.text(str(pipeline.input)).selectExpr("length(value) AS id", "value")
    assert pipeline.run(
        match_stream(lines.selectExpr("CAST(id AS BIGINT) id", "value"), pipeline.index, json="value")
    ) == {
        (8, 1),
        (10, 2),
        (15, 3),
        (15, 4),
    }
