from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.shop import SCHEMA, expected_pairs, make_events, make_filters
from whimbrel import Index
from whimbrel.engine.loader import RowNumbers
from whimbrel.pipeline import IndexStore, compile_index, match
from whimbrel.pipeline.errors import BadManifest, BadOption, ColumnError
from whimbrel.pipeline.index.shards import compile_bucket
from whimbrel.pipeline.index.workers import open_version

pytestmark = pytest.mark.spark


def frame(spark: Any, texts: dict[Any, Any], schema: str = "id bigint, filter string") -> Any:
    return spark.createDataFrame(list(texts.items()), schema)


def held(path: Path, version: int | None = None) -> dict[Any, str]:
    """The subscriptions that a version holds."""
    number = IndexStore(path).manifest(version).version
    _, shards = open_version(path, number)
    return {row["id"]: row["filter"] for shard in shards for row in shard.subscriptions().to_pylist()}


def shard_names(path: Path, version: int) -> dict[int, str]:
    return {shard.bucket: shard.name for shard in IndexStore(path).manifest(version).shards}


def test_what_goes_in_is_added_or_rejected(spark: Any, tmp_path: Path) -> None:
    rows = [
        (1, "a = 1", None),
        (2, "a = ", "sql"),
        (3, "a = 1 AND", None),
        (None, "a = 1", None),
        (4, None, None),
        (5, "b = 2", "sql"),
        (6, "b = 2", "nope"),
        (7, "a = 1", None),
        (7, "a = 1", None),
        (7, "a = 1", None),
        (8, "a = 1", None),
        (8, "a = 2", None),
        (8, "a = 2", None),
        (9, "a LIKE '" + "%" * 65 + "'", None),
        (10, " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(12)), None),
        (11, "a = 1 AND a = 2", None),
    ]
    given = spark.createDataFrame(rows, "id int, filter string, dialect string")
    done = compile_index(given, tmp_path, shards=3)
    assert held(tmp_path) == {1: "a = 1", 5: "b = 2", 7: "a = 1", 11: "a = 1 AND a = 2"}
    assert (done.version, done.added, done.removed, done.replaced, done.unchanged) == (1, 4, 0, 0, 0)
    assert done.added + done.rejected == len(rows)
    assert done.rejects.columns == ["id", "text", "message"] and done.rejects.count() == done.rejected
    refused = {(row["id"], row["text"]): row["message"] for row in done.rejects.collect()}
    assert set(refused) == {(id, text) for id, text, _ in rows if id not in (1, 5, 11)}
    assert refused[2, "a = "].endswith("\n  a = \n      ^")
    assert "column 10\n" in refused[3, "a = 1 AND"]
    assert refused[None, "a = 1"] == "Expected an id, but got null"
    assert refused[4, None] == "Expected a filter, but got null"
    assert refused[6, "b = 2"].startswith("Expected a dialect of ") and refused[6, "b = 2"].endswith("got 'nope'")
    assert refused[7, "a = 1"] == "Expected one subscription of this id, but got 3 equal ones: one is taken"
    assert refused[8, "a = 2"] == "Expected one subscription of this id, but got 3 different ones: none is taken"
    assert "limit: LIKE wildcards" in refused[9, "a LIKE '" + "%" * 65 + "'"]
    assert "limit: filter conjunctions" in refused[10, rows[14][1]]


def test_the_rejects_of_a_version_stay_with_it(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "of [1] {x}"  # signs that Spark takes for patterns of names
    first = compile_index(frame(spark, {1: "a =", 2: "b = 1"}), path)
    second = compile_index(frame(spark, {1: "a = 1", 2: "b = 1"}), path)
    assert (first.rejects.count(), second.rejects.count()) == (1, 0)
    assert (second.added, second.unchanged, second.count) == (1, 1, 2)
    assert second.rejects.columns == ["id", "text", "message"]


def test_the_manifest_says_what_a_version_holds(spark: Any, tmp_path: Path) -> None:
    compile_index(frame(spark, {1: "a = 1", 2: "d.x > 3 OR tags CONTAINS 'y'", 3: "x ="}), tmp_path, shards=2)
    manifest = IndexStore(tmp_path).manifest()
    assert (manifest.version, manifest.parent, manifest.kind, manifest.buckets) == (1, None, "int64", 2)
    assert manifest.attributes == ("a", "d.x", "tags")
    assert (manifest.count, manifest.added, manifest.rejected) == (2, 2, 1)
    assert sum(shard.count for shard in manifest.shards) == 2
    folders = [IndexStore(tmp_path).shard_path(shard.name) for shard in manifest.shards]
    assert manifest.bytes == sum(
        file.stat().st_size for folder in folders for file in folder.iterdir() if file.name != "MANIFEST"
    )


def test_only_buckets_that_change_are_compiled(spark: Any, tmp_path: Path) -> None:
    texts = {id: f"a = {id}" for id in range(400)}
    compile_index(frame(spark, texts), tmp_path, shards=8)
    same = compile_index(frame(spark, texts).repartition(5), tmp_path)
    assert (same.added, same.removed, same.replaced, same.unchanged) == (0, 0, 0, 400)
    assert shard_names(tmp_path, 2) == shard_names(tmp_path, 1)
    changed = {**texts, 7: "b = 7"}
    done = compile_index(frame(spark, changed), tmp_path)
    assert (done.added, done.removed, done.replaced, done.unchanged) == (0, 0, 1, 399)
    before, after = shard_names(tmp_path, 2), shard_names(tmp_path, 3)
    assert len(before.items() - after.items()) == 1
    assert held(tmp_path) == changed and held(tmp_path, 1) == texts


def test_a_changed_shard_gets_the_difference_only(spark: Any, tmp_path: Path) -> None:
    texts = {id: f"a = {id}" for id in range(300)}
    compile_index(frame(spark, texts), tmp_path, shards=1)
    (old,) = shard_names(tmp_path, 1).values()
    del texts[5]
    texts |= {6: "b = 6", 1_000: "c = 1"}
    done = compile_index(frame(spark, texts), tmp_path)
    assert (done.added, done.removed, done.replaced, done.unchanged) == (1, 1, 1, 298)
    (new,) = shard_names(tmp_path, 2).values()
    folders = [tmp_path / "shards" / name for name in (old, new)]
    shared = {file.name for file in folders[0].iterdir()} & {file.name for file in folders[1].iterdir()} - {"MANIFEST"}
    assert any(name.startswith("segment_0-") for name in shared)
    assert all(os.path.samefile(folders[0] / name, folders[1] / name) for name in shared)
    _, (index,) = open_version(tmp_path, 2)
    assert index.segments == 2 and len(RowNumbers(index)) == 302
    index._check()
    assert held(tmp_path) == texts


def test_garbage_is_compiled_away_and_segments_stay_few(spark: Any, tmp_path: Path) -> None:
    texts = {id: f"a = {id}" for id in range(200)}
    compile_index(frame(spark, texts), tmp_path, shards=1)
    for step in range(5):
        texts[step] = f"b = {step}"
        compile_index(frame(spark, texts), tmp_path)
        _, (index,) = open_version(tmp_path, step + 2)
        assert index.segments <= 5
    for id in range(100):
        texts[id] = f"c = {id}"
    compile_index(frame(spark, texts), tmp_path)
    _, (index,) = open_version(tmp_path, 7)
    assert (index.segments, len(RowNumbers(index)), len(index)) == (1, 200, 200)
    assert held(tmp_path) == texts


def test_any_history_gives_the_same_matches(spark: Any, tmp_path: Path) -> None:
    rows = make_events(60, seed=5)
    events = spark.createDataFrame(rows, SCHEMA)
    texts = dict(enumerate(make_filters(120, seed=6)))
    steps = [
        {id: text for id, text in texts.items() if id < 60},
        {id: text for id, text in texts.items() if id % 3},
        {},
        {id: texts[(id * 7) % 120] for id in texts},
        texts,
    ]
    for number, step in enumerate(steps, 1):
        done = compile_index(frame(spark, step), tmp_path, shards=3)
        before = steps[number - 2] if number > 1 else {}
        assert (done.added, done.removed) == (len(step.keys() - before.keys()), len(before.keys() - step.keys()))
        assert done.replaced == sum(before[id] != step[id] for id in step.keys() & before.keys())
        assert done.count == len(step) and held(tmp_path) == step
    found = sorted(tuple(row) for row in match(events, tmp_path).collect())
    assert found == expected_pairs(rows, texts)
    second = sorted(tuple(row) for row in match(events, tmp_path, version=2).collect())
    assert second == expected_pairs(rows, steps[1])


def test_a_filter_that_turns_bad_takes_its_subscription_away(spark: Any, tmp_path: Path) -> None:
    compile_index(frame(spark, {1: "a = 1", 2: "b = 1"}), tmp_path, shards=1)
    done = compile_index(frame(spark, {1: "a =", 2: "b = 1"}), tmp_path)
    assert (done.added, done.removed, done.replaced, done.unchanged, done.rejected) == (0, 1, 0, 1, 1)
    assert held(tmp_path) == {2: "b = 1"}
    again = compile_index(frame(spark, {1: "a =", 2: "b = 1"}), tmp_path)
    assert (again.removed, again.unchanged, again.rejected) == (0, 1, 1)
    assert shard_names(tmp_path, 3) == shard_names(tmp_path, 2)


def test_a_damaged_shard_is_compiled_anew(spark: Any, tmp_path: Path) -> None:
    texts = {id: f"a = {id}" for id in range(20)}
    compile_index(frame(spark, texts), tmp_path, shards=1)
    (old,) = shard_names(tmp_path, 1).values()
    file = next((tmp_path / "shards" / old).glob("ids-*"))
    file.write_bytes(file.read_bytes()[:-1])
    done = compile_index(frame(spark, texts), tmp_path)
    assert done.added == 20 and held(tmp_path) == texts


def test_ids_are_integers_or_text_for_ever(spark: Any, tmp_path: Path) -> None:
    compile_index(frame(spark, {"x": "a = 1"}, "id string, filter string"), tmp_path)
    with pytest.raises(ColumnError, match="ids of kind string, as in version 1, but got int64 - at column id"):
        compile_index(frame(spark, {1: "a = 1"}), tmp_path)
    assert IndexStore(tmp_path).versions() == [1]


@pytest.mark.parametrize(
    ("schema", "row", "problem"),
    [
        ("id double, filter string", (1.0, "a = 1"), "integers of at most 64 bits, or text, but got double .* id"),
        ("id int, filter int", (1, 2), "text, but got int - at column filter"),
        ("id int, filter string, dialect int", (1, "a = 1", 3), "text, but got int - at column dialect"),
        ("id int, text string", (1, "a = 1"), "columns id and filter, but got id, text - at column filter"),
        ("id int, filter string, ID int", (1, "a = 1", 2), "one column of this name, in any case, .* at column id"),
    ],
)
def test_columns_of_another_type_are_refused_by_name(
    spark: Any, tmp_path: Path, schema: str, row: tuple[Any, ...], problem: str
) -> None:
    with pytest.raises(ColumnError, match=problem):
        compile_index(spark.createDataFrame([row], schema), tmp_path / "store")
    assert IndexStore(tmp_path / "store").versions() == []


def test_the_number_of_shards_is_fixed_by_the_first_version(spark: Any, tmp_path: Path) -> None:
    given = frame(spark, {1: "a = 1"})
    wrong: Any
    for wrong in (0, 2_000, True, 2.5, "2"):
        with pytest.raises(BadOption, match="an integer from 1 to 1,024"):
            compile_index(given, tmp_path, shards=wrong)
    compile_index(given, tmp_path, shards=4)
    with pytest.raises(BadOption, match="Expected 4, as in version 1, but got 3 - at shards"):
        compile_index(given, tmp_path, shards=3)
    assert compile_index(given, tmp_path, shards=4).version == 2


def test_an_empty_table_gives_an_empty_version(spark: Any, tmp_path: Path) -> None:
    done = compile_index(frame(spark, {}), tmp_path)
    assert (done.version, done.count, done.rejected, done.rejects.count()) == (1, 0, 0, 0)
    assert IndexStore(tmp_path).manifest().shards == ()


def test_a_compile_that_fails_publishes_nothing(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    compile_index(frame(spark, {1: "a = 1"}), tmp_path)
    failing = spark.range(10).select(
        "id", f.when(f.col("id") == 7, f.raise_error(f.lit("no such text"))).otherwise(f.lit("a = 1")).alias("filter")
    )
    with pytest.raises(Exception, match="no such text"):
        compile_index(failing, tmp_path)
    assert IndexStore(tmp_path).versions() == [1]
    assert held(tmp_path) == {1: "a = 1"}


def test_a_damaged_parent_is_named(spark: Any, tmp_path: Path) -> None:
    compile_index(frame(spark, {1: "a = 1"}), tmp_path)
    path = IndexStore(tmp_path).version_path(1)
    path.write_text("{}")
    with pytest.raises(BadManifest, match=str(path)):
        compile_index(frame(spark, {1: "a = 1"}), tmp_path)


def test_many_filters_in_many_partitions_and_one_bucket_of_many(spark: Any, tmp_path: Path) -> None:
    texts = {f"id-{number}": text for number, text in enumerate(make_filters(300, seed=9))}
    given = frame(spark, texts, "id string, filter string").repartition(40)
    done = compile_index(given, tmp_path, shards=16)
    assert done.added == 300 and held(tmp_path) == texts
    assert len(IndexStore(tmp_path).manifest().shards) == 16


def test_a_sample_of_events_plans_and_is_described(spark: Any, tmp_path: Path) -> None:
    events = spark.createDataFrame(make_events(80, seed=3), SCHEMA)
    texts = dict(enumerate(make_filters(50, seed=4)))
    compile_index(frame(spark, texts), tmp_path, events=events)
    facts = {str(entry["attribute"]): entry for entry in IndexStore(tmp_path).manifest().statistics}
    assert facts["a"]["events"] == 80 and facts["d.deep.y"]["type"] == "string"
    assert list(tmp_path.glob(".sample-*")) == []
    assert sorted(tuple(row) for row in match(events, tmp_path).collect()) == expected_pairs(
        make_events(80, seed=3), texts
    )
    compile_index(frame(spark, texts), tmp_path)
    assert len(IndexStore(tmp_path).manifest().statistics) == len(facts)
    compile_index(frame(spark, texts), tmp_path / "empty", events=events.limit(0))
    assert held(tmp_path / "empty") == texts


def test_a_sample_may_have_lists_of_nothing_that_spark_knows(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.types import StructType

    kind = StructType.fromDDL("a int, items array<struct<u: struct<v: void, w: int>>>")
    events = spark.createDataFrame([(1, [(None,), ((None, 2),)]), (2, [((None, 1),)] * 3)], kind)
    assert compile_index(frame(spark, {1: "a = 1 AND items.u.w = 2"}), tmp_path, events=events).added == 1


def test_a_sample_changes_the_plan(tmp_path: Path) -> None:
    import pyarrow as pa

    store = IndexStore(tmp_path)
    filters = [f"a = {n} AND b > {n}" for n in range(500)]
    rows = pa.table({"id": range(500), "filter": filters, "dialect": pa.nulls(500, pa.string())})
    sample = pa.table({"a": [3] * 500, "b": [1] * 500})  # all have this a, hardly one such a b
    attributes = []
    for one in (None, sample):
        outcome = compile_bucket(store, 0, rows, None, "int64", one)
        assert outcome.shard is not None
        index = Index.open(store.shard_path(outcome.shard.name))
        (conjunction,) = index.plan(3)["conjunctions"]  # type: ignore[misc]
        attributes.append(conjunction["attributes"])
        assert index.match({"a": 3, "b": 4}) == [3]
    assert attributes == [["a"], ["b"]]


def test_text_that_is_not_utf8_rejects_its_row_alone(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    store = IndexStore(tmp_path)
    for name, kind in (("id", pa.string()), ("filter", pa.string()), ("dialect", pa.large_string())):
        cells = {"id": [b"one", b"two", b"three"], "filter": [b"a = 1"] * 3, "dialect": [b"sql", b"sql", None]}
        cells[name][1] = b"t\xff"
        types = {"id": pa.string(), "filter": pa.string(), "dialect": pa.string(), name: kind}
        binary = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
        rows = pa.table({key: pa.array(cells[key], binary[types[key]]).view(types[key]) for key in cells})
        outcome = compile_bucket(store, 0, rows, None, "string", None)
        assert (outcome.added, outcome.rejected) == (2, 1) and outcome.rejects is not None
        (refused,) = pq.read_table(store.rejects_path(outcome.rejects)).to_pylist()
        assert refused["message"] == "Expected text in UTF-8, but got other bytes"
        shown = {"id": refused["id"], "filter": refused["text"]}
        assert name == "dialect" or shown[name] == "t\ufffd"
