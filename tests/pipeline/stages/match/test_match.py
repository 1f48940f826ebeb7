from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.pipeline.shop import SCHEMA, as_object, expected_pairs, make_events, make_filters
from whimbrel import Index
from whimbrel.pipeline import IndexStore, MatchOptions, compile_index, explain, match
from whimbrel.pipeline.errors import (
    BadOption,
    ColumnError,
    KeyMissing,
    MissingVersion,
    RejectedSubscriptions,
    RemotePath,
)
from whimbrel.storage.errors import CorruptIndex, MissingIndex

pytestmark = pytest.mark.spark

ROWS = make_events(120, seed=1)
TEXTS = dict(enumerate(make_filters(150, seed=2)))
EXPECTED = expected_pairs(ROWS, TEXTS)


@pytest.fixture(scope="module")
def events(spark: Any) -> Any:
    return spark.createDataFrame(ROWS, SCHEMA).repartition(3)


@pytest.fixture(scope="module")
def subscriptions(spark: Any) -> Any:
    return spark.createDataFrame(list(TEXTS.items()), "id bigint, filter string")


@pytest.fixture(scope="module")
def store(subscriptions: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    compile_index(subscriptions, path, shards=3)
    return path


def pairs(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def unrolled(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((*row[:-1], id) for row in frame.collect() for id in row[-1])


def test_pairs_and_lists_are_what_the_reference_evaluator_and_the_library_find(events: Any, store: Path) -> None:
    found = match(events, store)
    assert found.columns == ["event_id", "subscription"]
    assert dict(found.dtypes) == {"event_id": "bigint", "subscription": "bigint"}
    assert pairs(found) == EXPECTED
    assert len(EXPECTED) > 500
    index = Index()
    index.add_many(TEXTS.items())
    table = index.match_batch([as_object(row) for row in ROWS])
    numbers = [ROWS[row][0] for row in table["event"].to_pylist()]
    assert sorted(zip(numbers, table["subscription"].to_pylist(), strict=True)) == EXPECTED


@pytest.mark.parametrize(
    ("shards", "partitions", "plan"), [(1, 1, "shard"), (2, 7, "shard"), (5, 2, "replicate"), (5, 2, "shard")]
)
def test_lists_have_one_row_for_each_event_whatever_the_shards_partitions_and_plan(
    events: Any, subscriptions: Any, tmp_path: Path, plan: str, shards: int, partitions: int
) -> None:
    compile_index(subscriptions, tmp_path, shards=shards)
    found = match(events.repartition(partitions), tmp_path, form="lists", plan=plan).collect()
    assert sorted(row.event_id for row in found) == [row[0] for row in ROWS]
    assert sorted((row.event_id, id) for row in found for id in row.subscriptions) == EXPECTED


def test_text_ids_come_out_as_text(spark: Any, events: Any, tmp_path: Path) -> None:
    texts = {f"näme-{number}": text for number, text in TEXTS.items()}
    frame = spark.createDataFrame(list(texts.items()), "id string, filter string")
    compile_index(frame, tmp_path, shards=3)
    assert pairs(match(events, tmp_path)) == expected_pairs(ROWS, texts)


def test_a_table_of_subscriptions_is_compiled_first(events: Any, subscriptions: Any) -> None:
    assert pairs(match(events, subscriptions)) == EXPECTED


def test_a_table_with_bad_subscriptions_is_refused(spark: Any, events: Any) -> None:
    bad = spark.createDataFrame([(1, "a = 1"), (2, "a = ")], "id int, filter string")
    with pytest.raises(RejectedSubscriptions, match=r"(?s)1 were rejected .* subscription 2: Expected .*\^") as raised:
        match(events, bad)
    assert (raised.value.rejected, raised.value.id) == (1, 2)


def test_rows_with_equal_keys_are_separate_events(spark: Any, store: Path) -> None:
    same = [(7, *row[1:]) for row in ROWS]
    found = match(spark.createDataFrame(same, SCHEMA), store)
    assert pairs(found) == sorted((7, id) for _, id in EXPECTED)
    listed = match(spark.createDataFrame(same, SCHEMA), store, form="lists", plan="shard")
    assert listed.count() == len(ROWS) and unrolled(listed) == pairs(found)


def test_keys_of_any_type_pass_through(spark: Any, tmp_path: Path) -> None:
    rows = [(b"\x00k", None, (1, "x"), 1), (None, "é", None, 2)]
    frame = spark.createDataFrame(rows, "k binary, l string, s struct<n: int, t: string>, a int")
    compile_index(spark.createDataFrame([(1, "a > 0")], "id int, filter string"), tmp_path)
    found = match(frame, tmp_path, key=["s", "l", "k"])
    assert found.columns == ["s", "l", "k", "subscription"]
    assert {tuple(row) for row in found.collect()} == {((1, "x"), None, b"\x00k", 1), (None, "é", None, 1)}


def test_the_key_is_event_id_or_id_or_named(spark: Any, store: Path) -> None:
    row = spark.createDataFrame([(1, 2, 3)], "id int, event_id int, a int")
    assert match(row, store).columns[0] == "event_id"
    assert match(row.drop("event_id"), store).columns[0] == "id"
    assert match(row, store, key="a").columns[0] == "a"
    with pytest.raises(KeyMissing, match="event_id or id, but the columns are a;") as raised:
        match(row.select("a"), store)
    assert raised.value.columns == ("a",)
    with pytest.raises(KeyMissing, match="key column nope"):
        match(row, store, key="nope")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"form": "rows"}, "one of pairs, lists, but got 'rows' - at form"),
        ({"plan": "fast"}, "one of auto, replicate, shard, but got 'fast' - at plan"),
        ({"key": []}, "the name of a column, or several"),
        ({"key": 1}, "the name of a column, or several, but got 1 - at key"),
        ({"key": ["a", 1]}, "the name of a column, or several"),
        ({"budget": 0}, "above 0"),
        ({"budget": "10"}, "above 0, but got '10'"),
        ({"budget": float("nan")}, "above 0"),
        ({"version": "1"}, "an integer of at least 1, but got '1' - at version"),
        ({"version": 0}, "an integer of at least 1"),
    ],
)
def test_bad_options_are_refused(events: Any, store: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadOption, match=problem):
        match(events, store, **options)


def test_names_differ_in_case_and_come_twice(spark: Any, tmp_path: Path) -> None:
    texts = {1: "a = 1", 2: "A = 1", 3: "t CONTAINS ALL (1, 2)"}
    compile_index(spark.createDataFrame(list(texts.items()), "id int, filter string"), tmp_path)
    frame = spark.createDataFrame([(1, 1, 2, 1, 2), (2, 2, 1, 2, 1)], "id int, x int, y int, z int, w int")
    renamed = frame.toDF("id", "a", "A", "t", "t")
    assert pairs(match(renamed, tmp_path)) == [(1, 1), (1, 3), (2, 2), (2, 3)]


@pytest.mark.parametrize(("form", "key"), [("pairs", "Subscription"), ("lists", "SUBSCRIPTIONS")])
def test_a_key_is_not_named_like_the_output_column(spark: Any, store: Path, form: str, key: str) -> None:
    frame = spark.createDataFrame([(1,)], f"{key} int")
    with pytest.raises(BadOption, match=f"another name than that of the output column, but got '{key}' - at key"):
        match(frame, store, key=key, form=form)


def test_fields_whose_names_differ_in_case_only(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.types import IntegerType, StructField, StructType

    compile_index(spark.createDataFrame([(1, "d.x = 1"), (2, "d.X = 1")], "id int, filter string"), tmp_path)
    inner = StructType([StructField("x", IntegerType()), StructField("X", IntegerType())])
    schema = StructType([StructField("id", IntegerType()), StructField("d", inner)])
    frame = spark.createDataFrame([(1, (1, 2)), (2, (2, 1)), (3, None)], schema)
    assert pairs(match(frame, tmp_path)) == [(1, 1), (2, 2)]


def test_json_texts_are_events(spark: Any, tmp_path: Path) -> None:
    objects = [
        {"a": 2**70, "tags": ["x", None]},
        {"a": None, "d": {"x": 1.5}},
        {"items": [{"sku": "A", "n": 1}, {"sku": "B", "n": 2}]},
        {"a": 9007199254740993},
    ]
    texts = {
        1: f"a = {2**70}",
        2: "a IS MISSING",
        3: "a IS NULL",
        4: "d.x > 1",
        5: "items.sku = 'A' AND items.n = 2",
        6: "items.sku = 'B' AND items.n = 2",
        7: "a = 9007199254740992",
        8: "tags CONTAINS NULL",
    }
    compile_index(spark.createDataFrame(list(texts.items()), "id int, filter string"), tmp_path, shards=2)
    rows = [(number, jsonlib.dumps(one), 0) for number, one in enumerate(objects)]
    frame = spark.createDataFrame([*rows, (9, None, 0)], "id int, body string, a int")
    index = Index()
    index.add_many(texts.items())
    expected = [(number, id) for number, one in enumerate([*objects, {}]) for id in index.match(one)]
    expected = sorted((9 if number == 4 else number, id) for number, id in expected)
    assert pairs(match(frame, tmp_path, json="body")) == expected


@pytest.mark.parametrize("text", ["[1]", ""])
def test_bad_json_is_an_error_that_names_the_row(spark: Any, store: Path, text: str) -> None:
    frame = spark.createDataFrame([("k7", text)], "id string, body string")
    with pytest.raises(Exception, match=r"Expected (JSON|a JSON object), but got .* - at column body of event k7"):
        match(frame, store, json="body").collect()


def test_the_json_column_must_be_text(spark: Any, store: Path) -> None:
    frame = spark.createDataFrame([(1, 2)], "id int, body int")
    with pytest.raises(ColumnError, match="text, as it is to be read as JSON, but got int - at column body"):
        match(frame, store, json="body")
    with pytest.raises(ColumnError, match="the columns id, body - at column nope"):
        match(frame, store, json="nope")


def test_text_is_read_as_timestamps_where_told(spark: Any, tmp_path: Path) -> None:
    later = spark.createDataFrame([(1, "at > TIMESTAMP '2026-01-31T12:00:00Z'")], "id int, filter string")
    compile_index(later, tmp_path)
    frame = spark.createDataFrame(
        [(1, "2026-01-31T13:30:00+01:00"), (2, "2026-02-01"), (3, "2026-01-31T12:59:00+01:00")], "id int, at string"
    )
    assert pairs(match(frame, tmp_path)) == []
    assert pairs(match(frame, tmp_path, timestamps=["at"])) == [(1, 1), (2, 1)]


def test_columns_that_filters_cannot_read_are_refused_only_if_mentioned(spark: Any, tmp_path: Path) -> None:
    compile_index(spark.createDataFrame([(1, "a = 1"), (2, "d.raw IS MISSING")], "id int, filter string"), tmp_path)
    good = spark.createDataFrame([(1, 1, b"x")], "id int, a int, raw binary")
    assert pairs(match(good, tmp_path)) == [(1, 1), (1, 2)]
    bad = spark.createDataFrame([(1, 1, (b"x",))], "id int, a int, d struct<raw: binary>")
    with pytest.raises(ColumnError, match=r"as a filter mentions it, but got binary - at column d\.raw") as raised:
        match(bad, tmp_path)
    assert (raised.value.column, raised.value.found) == ("d.raw", "binary")


def test_only_mentioned_columns_are_handed_over(events: Any, spark: Any, tmp_path: Path) -> None:
    texts = [(1, "d.deep.y = 'red'"), (2, "m.p = 1 AND a = 2")]
    compile_index(spark.createDataFrame(texts, "id int, filter string"), tmp_path)
    text = explain(events, tmp_path)
    assert "columns  a, d.deep.y, m\n" in text


def test_explain_says_which_plan_and_why(events: Any, store: Path) -> None:
    size = IndexStore(store).manifest().bytes
    assert "plan     replicate: every task matches its events against all shards; within the budget" in explain(
        events, store
    )
    assert (
        "plan     shard: every (events, group) is a task: 3 groups of shards; above the budget of 1 bytes"
        in explain(events, store, MatchOptions(budget=1))
    )
    assert "2 groups" in explain(events, store, MatchOptions(budget=size - 1))
    assert "plan     shard (forced): " in explain(events, store, MatchOptions(plan="shard"))
    assert "version 1: 150 subscriptions, 3 shards" in explain(events, store)


def test_an_index_above_the_budget_is_matched_group_by_group(events: Any, store: Path) -> None:
    assert pairs(match(events, store, budget=IndexStore(store).manifest().bytes - 1)) == EXPECTED


def test_empty_events_and_empty_indexes(spark: Any, events: Any, store: Path, tmp_path: Path) -> None:
    assert match(events.limit(0), store).count() == 0
    assert match(events.limit(0), store, form="lists", plan="shard").count() == 0
    compile_index(spark.createDataFrame([], "id string, filter string"), tmp_path)
    for plan in ("replicate", "shard"):
        listed = match(events, tmp_path, form="lists", plan=plan)
        assert dict(listed.dtypes)["subscriptions"] == "array<string>"
        assert [row.subscriptions for row in listed.collect()] == [[]] * len(ROWS)


# A task costs Spark some 50 ms, whatever it does.
@pytest.mark.parametrize("partitions", [16, pytest.param(2_000, marks=pytest.mark.soak)])
def test_many_partitions_of_mostly_nothing(spark: Any, store: Path, partitions: int) -> None:
    frame = spark.createDataFrame(ROWS[:20], SCHEMA).repartition(partitions)
    assert frame.rdd.getNumPartitions() == partitions
    assert pairs(match(frame, store)) == [pair for pair in EXPECTED if pair[0] < 20]


def test_events_without_a_mentioned_column_still_match(spark: Any, tmp_path: Path) -> None:
    compile_index(
        spark.createDataFrame([(1, "TRUE"), (2, "a IS MISSING"), (3, "a = 1")], "id int, filter string"), tmp_path
    )
    assert pairs(match(spark.range(3), tmp_path)) == [(row, id) for row in range(3) for id in (1, 2)]


def test_events_that_match_everything_come_in_bounded_batches(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whimbrel.pipeline.stages.match import task

    monkeypatch.setattr(task, "BATCH_BYTES", 1 << 10)
    shards = [Index(), Index()]
    for number, shard in enumerate(shards):
        shard.add_many([(number * 100 + id, f"a != {id}") for id in range(60)])
    table = pa.table({"a": [1] * 50})
    runs = list(task.match_lists(shards, table, 50, "int64"))
    assert sum(count for count, _ in runs) == 50
    assert max(len(found.values) * 8 for _, found in runs) <= 2 * (1 << 10)
    expected = [id for id in [*range(60), *range(100, 160)] if id not in (1, 101)]
    assert all(sorted(one) == expected for _, found in runs for one in found.to_pylist())


def test_versions_are_chosen_by_number(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, 1)], "id int, a int")
    compile_index(spark.createDataFrame([(1, "a = 1")], "id int, filter string"), tmp_path)
    compile_index(spark.createDataFrame([(2, "a = 1")], "id int, filter string"), tmp_path)
    assert pairs(match(frame, tmp_path)) == [(1, 2)]
    assert pairs(match(frame, tmp_path, version=1)) == [(1, 1)]
    assert pairs(match(frame, f"file://{tmp_path}", version=1)) == [(1, 1)]
    with pytest.raises(MissingVersion, match="version 7 of a compiled index, but there are 1, 2 - at"):
        match(frame, tmp_path, version=7)
    with pytest.raises(MissingVersion, match="a compiled index, but there is none"):
        match(frame, tmp_path / "nowhere")
    for remote in ("hdfs://host/x", "hdfs:/x"):
        with pytest.raises(RemotePath, match=remote):
            match(frame, remote)


def test_a_corrupt_shard_is_named_on_the_driver(spark: Any, events: Any, subscriptions: Any, tmp_path: Path) -> None:
    compile_index(subscriptions, tmp_path, shards=1)
    store = IndexStore(tmp_path)
    folder = store.shard_path(store.manifest().shards[0].name)
    assert match(events, tmp_path).count() == len(EXPECTED)
    planned = match(events, tmp_path)
    file = max(folder.glob("segment_0-*"), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptIndex, match=file.name):
        match(events, tmp_path)
    with pytest.raises(Exception, match=f"CorruptIndex: .*{file.name}"):
        planned.collect()
    file.unlink()
    with pytest.raises(CorruptIndex, match=f"missing - at .*{file.name}"):
        match(events, tmp_path)
    for left in folder.iterdir():
        left.unlink()
    folder.rmdir()
    with pytest.raises(MissingIndex, match=folder.name):
        match(events, tmp_path)


def test_a_stream_is_matched_by_every_task_against_all_shards(spark: Any, store: Path) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "CAST(value AS int) AS a")
    assert match(stream, store, budget=1).isStreaming
    with pytest.raises(BadOption, match="replicate or auto for a stream"):
        match(stream, store, plan="shard")


def test_workers_that_have_matched_do_not_search_the_libraries_for_garbage(
    spark: Any, events: Any, store: Path
) -> None:
    def frozen(batches: Any) -> Any:
        import gc

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()] * batch.num_rows})

    match(events, store).count()
    counts = spark.range(0, 8, numPartitions=8).mapInArrow(frozen, "frozen bigint").collect()
    assert max(row.frozen for row in counts) > 50_000
