"""Conform with the integrated event schema: judged as `Schema.read` does, and nothing is lost."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession

from whimbrel import Schema
from whimbrel.model.schema import InvalidEvent
from whimbrel.pipeline.errors import BadOption, ColumnError
from whimbrel.pipeline.stages.conform.conform import ConformError, conform
from whimbrel.pipeline.stages.conform.schema_checks import ROWS_ONE_BY_ONE, SchemaCheck

DOCUMENT: dict[str, Any] = {
    "domains": {
        "period": {"kind": "enumerated", "values": ["XV", "XVI", "XVII"], "order": [["XV", "XVI", "XVII"]]},
        "furniture": {"kind": "hierarchical", "children": {"furniture": ["table", "chair"]}},
        "colour": {"kind": "enumerated", "values": ["red", "blue"]},
        "percent": {"kind": "integer", "minimum": 0, "maximum": 100},
    },
    "attributes": {
        "price": "float", "discount": "percent", "period": "period", "kind": "furniture", "colour": "colour",
        "at": "timestamp", "shop.city": "string",
    },
    "types": {
        "antiques": {"price": "mandatory", "period": "mandatory", "at": "optional"},
        "furniture": {
            "price": "optional multiple", "kind": "mandatory", "discount": "optional", "colour": "optional",
            "shop.city": "optional",
        },
    },
}  # fmt: skip
WITH_DEFAULT = {**DOCUMENT, "default_type": "antiques"}

NAN = float("nan")
CELLS: dict[str, list[Any]] = {
    "event_type": ["antiques", "furniture", "antique", None],
    "price": [1.5, 200.0, NAN, None],
    "discount": [0, 100, 101, None],
    "period": ["XV", "XVII", "XIV", None],
    "kind": ["table", "furniture", "tabel", None],
    "colour": ["red", "green", None],
    "at": [datetime(2026, 1, 31, tzinfo=UTC), None],
    "size": [None, None, 1],
}
ARROW = pa.schema(
    [
        ("event_type", pa.string()), ("price", pa.float64()), ("discount", pa.int64()), ("period", pa.string()),
        ("kind", pa.string()), ("colour", pa.string()), ("at", pa.timestamp("us", "UTC")), ("size", pa.int32()),
    ]
)  # fmt: skip
GOOD = [
    {"event_type": "antiques", "price": 1.5, "period": "XV"},
    {"event_type": "furniture", "kind": "table", "discount": 100},
]


def expected(schema: Schema, event: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What `read` says on the event; a null or NaN of a column is missing."""
    there = {name: value for name, value in event.items() if value is not None and value is not NAN}
    try:
        schema.read(there)
    except InvalidEvent as error:
        return sorted((one.path, one.rule, f"expected {one.expected}, but got {one.found}") for one in error.violations)
    return []


def judged(judge: SchemaCheck, batch: pa.RecordBatch) -> list[list[tuple[str, str, str]]]:
    (out,) = judge([batch])
    assert out.schema.names == [*batch.schema.names, "reasons"]
    for after, before in zip(out.columns, batch.columns, strict=False):
        assert after.to_string(window=500) == before.to_string(window=500)  # as text, in which NaN is NaN
    return [sorted(tuple(one.values()) for one in reasons) for reasons in out.column("reasons").to_pylist()]


rows = st.fixed_dictionaries({name: st.sampled_from(cells) for name, cells in CELLS.items()})


@settings(max_examples=60)
@given(st.data(), st.sampled_from([DOCUMENT, WITH_DEFAULT]), st.booleans())
def test_batches_are_judged_like_their_rows(data: st.DataObject, document: dict[str, Any], has_size: bool) -> None:
    schema = Schema.from_document(document)
    columns = ARROW if has_size else ARROW.remove(ARROW.get_field_index("size"))
    events: list[dict[str, Any]] = data.draw(st.lists(st.sampled_from(GOOD), max_size=20)) * 20
    for place, event in data.draw(st.dictionaries(st.integers(0, 400), rows, max_size=5)).items():
        events.insert(place, event)
    batch = pa.RecordBatch.from_pylist(events, columns)
    judge = SchemaCheck(schema, tuple(range(len(columns))), tuple(columns.names))
    there = [{name: value for name, value in event.items() if name in columns.names} for event in events]
    assert judged(judge, batch) == [expected(schema, event) for event in there]


def test_a_text_that_is_none_condemns_its_row_alone() -> None:
    schema = Schema.from_document(
        {"default_type": "e", "attributes": {"s": "string"}, "types": {"e": {"s": "optional"}}}
    )
    texts = pa.array([b"fine"] * ROWS_ONE_BY_ONE * 3 + [b"\xff"] + [b"fine"]).view(pa.string())
    found = judged(SchemaCheck(schema, (0,), ("s",)), pa.RecordBatch.from_arrays([texts], ["c0"]))
    ((place, (reason,)),) = [(row, reasons) for row, reasons in enumerate(found) if reasons]
    assert place == ROWS_ONE_BY_ONE * 3 and reason == ("s", "event", "expected text in UTF-8, but got b'\\xff'")


SPARK_TYPE = (
    "id int, event_type array<string>, price array<double>, discount bigint, period string, kind string, "
    "colour string, at string, shop struct<city: string>, size int"
)


def generated(count: int) -> list[dict[str, Any]]:
    """Rows with several types and prices, times as text and a struct; about half of them are valid."""
    rng = random.Random(7)
    found: list[dict[str, Any]] = []
    for number in range(count):
        row: dict[str, Any] = {"id": number}
        if rng.random() < 0.5:
            row |= {"event_type": ["furniture"], "kind": "table", "price": [1.0, 2.0], "shop": {"city": "Oslo"}}
        else:
            row |= {"event_type": ["antiques"], "price": [3.0], "period": "XVI", "at": "2026-01-31T12:00:00Z"}
        for _ in range(rng.choice([0, 0, 1, 2, 3])):
            name = rng.choice(["event_type", "price", "discount", "period", "kind", "colour", "at", "shop", "size"])
            if name == "event_type":
                row[name] = rng.choice([["antiques", "furniture"], [], ["antique"], None])
            elif name == "price":
                row[name] = rng.choice([[1.0, 2.0], [], [None], None])
            elif name == "at":
                row[name] = rng.choice(["yesterday", "2026-01-31", None])
            elif name == "shop":
                row[name] = rng.choice([{"city": None}, {"city": "Bergen"}, None])
            else:
                row[name] = rng.choice(CELLS[name])
        found.append(row)
    return found


ROWS = generated(200)


def frame(spark: SparkSession) -> DataFrame:
    names = [part.split()[0] for part in SPARK_TYPE.replace("<city: string>", "").split(", ")]
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in ROWS], SPARK_TYPE)


def reasons_by_id(letters: list[Row]) -> dict[int, list[tuple[str, str, str]]]:
    return {json.loads(row.event)["id"]: sorted(tuple(one) for one in row.reasons) for row in letters}


def wanted(schema: Schema, known: bool = True) -> dict[int, list[tuple[str, str, str]]]:
    """The reasons of the invalid rows; their id is no attribute, and a null field of a struct is missing."""
    out = {}
    for row in ROWS:
        event = {name: value for name, value in row.items() if name != "id" and (known or name != "size")}
        if event.get("shop") == {"city": None}:
            del event["shop"]
        if reasons := expected(schema, event):
            out[row["id"]] = reasons
    return out


@pytest.mark.spark
def test_rows_are_judged_like_events_and_nothing_is_lost(spark: SparkSession) -> None:
    schema = Schema.from_document(WITH_DEFAULT)
    events = frame(spark)
    found = conform(events, schema, unknown="keep")
    before = wanted(schema, known=False)
    schema.extend({"types": {"antique": {}}})  # too late
    assert reasons_by_id(found.dead_letters.collect()) == before
    assert 20 < len(before) < 180
    valid = found.valid
    assert valid.schema.simpleString() == events.schema.simpleString()
    assert sorted(valid.collect()) == sorted(row for row in events.collect() if row.id not in before)


@pytest.mark.spark
def test_unknown_columns_are_reported_unless_told_otherwise(spark: SparkSession) -> None:
    schema = Schema.from_document({**DOCUMENT, "attributes": {**DOCUMENT["attributes"], "id": "integer"}})
    for name in schema.types:
        schema.extend_type(name, "id")
    found = conform(frame(spark), schema)
    assert reasons_by_id(found.dead_letters.collect()) == wanted(schema)
    assert any(kind == "R3" and path == "size" for reasons in wanted(schema).values() for path, kind, _ in reasons)
    dropped = conform(frame(spark), schema, unknown="drop").valid
    assert dropped.columns == [name for name in frame(spark).columns if name != "size"]


TEXTS: list[tuple[str | None, list[str]]] = [
    ('{"event_type": "antiques", "price": 5, "period": "XV"}', []),
    ('{"event_type": ["antiques", "furniture"], "price": [1, 2], "period": "XV", "kind": "chair"}', []),
    ('{"event_type": "furniture", "kind": "table", "shop": {"city": "Oslo"}, "colour": null}', []),
    ('{"price": null, "discount": 101, "size": 1}', ["R1 event_type", "R2 discount", "R3 size"]),
    ('{"event_type": "antiques", "price": null, "period": "XV"}', ["R2 price"]),
    ('{"event_type": "antiques", "price": 5, "period": "XV", "at": "soon"}', ["R2 at"]),
    ('{"event_type": "antiques", "price": 5, "price": 6, "period": "XV"}', ["json text"]),
    ('{"event_type": "antiques", "price": "\\ud800", "period": "XV"}', ["json text"]),
    ("[" * 5_000, ["json text"]),
    ('{"a": ' * 200 + "1" + "}" * 200, ["event " + ".".join("a" * 65)]),
    ("[]", ["json text"]),
    (None, ["json text"]),
]


@pytest.mark.spark
def test_json_in_a_stream_as_in_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    schema = Schema.from_document(DOCUMENT)
    texts = [(number, text) for number, (text, _) in enumerate(TEXTS)]
    events = spark.createDataFrame(texts, "number int, text string")
    events.coalesce(2).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema("number int, text string").parquet(str(tmp_path / "in"))
    streamed = conform(source, schema, json="text").judged
    query = streamed.writeStream.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True)
    query.start(str(tmp_path / "out")).awaitTermination()
    written = spark.read.parquet(str(tmp_path / "out")).sort("conformed.number").collect()
    assert [tuple(row.conformed) for row in written] == texts
    kinds = [[f"{one.kind} {one.attribute}" for one in row.reasons] for row in written]
    assert kinds == [reasons for _, reasons in TEXTS]
    kept = conform(events, schema, json="text", unknown="keep")
    assert sorted(map(str, kept.valid.collect())) == sorted(str(row.conformed) for row in written if not row.reasons)


@pytest.mark.spark
def test_what_cannot_be_judged_is_an_error(spark: SparkSession) -> None:
    schema = Schema.from_document(DOCUMENT)
    events = spark.createDataFrame([(1, b"", "{}")], "price int, raw binary, text string")
    with pytest.raises(ColumnError, match="but got binary - at column raw"):
        conform(events, schema)
    with pytest.raises(ConformError, match="attributes of the schema, but got raw, text"):
        conform(events.drop("price"), schema, unknown="keep")
    with pytest.raises(ColumnError, match="string column with JSON"):
        conform(events, schema, json="raw")
    with pytest.raises(BadOption, match="keep or report where events are JSON"):
        conform(events, schema, json="text", unknown="drop")
    with pytest.raises(BadOption, match="one of keep, drop, report, but got 'x'"):
        conform(events, schema, unknown="x")  # type: ignore[arg-type]
