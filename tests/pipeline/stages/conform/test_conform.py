"""Conform: what is valid, what is not and why, and that nothing is lost, in batches and in streams."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from whimbrel.model.values import Timestamp
from whimbrel.pipeline.errors import BadOption, ColumnError
from whimbrel.pipeline.stages.conform.conform import Conformed, ConformError, conform

pytestmark = pytest.mark.spark

LINE = StructType([StructField("sku", StringType(), False), StructField("n", IntegerType())])
SCHEMA = StructType(
    [
        StructField("id", LongType(), False),
        StructField("price", DoubleType()),
        StructField("small", IntegerType()),
        StructField("open", BooleanType()),
        StructField("name", StringType(), False),
        StructField("tags", ArrayType(StringType(), False)),
        StructField("lines", ArrayType(LINE)),
        StructField("sizes", MapType(StringType(), LongType(), False)),
        StructField("at", TimestampType()),
    ]
)
GOOD: dict[str, Any] = {"id": 1, "name": "a"}
JSON_ROWS: list[tuple[object, list[str]]] = [
    (GOOD, []),
    ({**GOOD, "price": 5}, []),
    ({**GOOD, "price": 0.1, "small": 5.0, "open": True, "at": "2026-01-31T13:30:00.5+01:00"}, []),
    ({**GOOD, "tags": ["x"], "lines": [{"sku": "s", "n": 1}, None], "sizes": {"S": 3}}, []),
    ({**GOOD, "price": None, "tags": None, "lines": [], "sizes": {}}, []),
    ({}, ["missing id", "missing name"]),
    ({"id": None, "name": None}, ["null id", "null name"]),
    ({**GOOD, "price": "5"}, ["type price"]),
    ({**GOOD, "price": True, "open": 1, "name": 5}, ["type price", "type open", "type name"]),
    ({**GOOD, "small": 2**31}, ["value small"]),
    ({**GOOD, "small": 5.5}, ["value small"]),
    ({**GOOD, "small": 10**30, "id": 10**30}, ["value id", "value small"]),
    ({**GOOD, "price": 2**53 + 1}, ["value price"]),
    ({**GOOD, "tags": ["x", None, 7]}, ["null tags[1]", "type tags[2]"]),
    ({**GOOD, "tags": "x"}, ["type tags"]),
    ({**GOOD, "lines": [{"sku": "s"}, {"n": "x"}, 5]}, ["missing lines[1].sku", "type lines[1].n", "type lines[2]"]),
    ({**GOOD, "sizes": {"S": None, "M": 1, "L": "1"}}, ["type sizes[L]", "null sizes[S]"]),
    ({**GOOD, "at": "yesterday"}, ["value at"]),
    ({**GOOD, "at": 5}, ["type at"]),
    ("nope", ["json text"]),
    ([1], ["json text"]),
    ("null", ["json text"]),
    (None, ["json text"]),
    ('{"id": 1, "id": 2, "name": "twice"}', ["json text"]),
]


def texts() -> list[str | None]:
    return [row if row is None or isinstance(row, str) else json.dumps(row) for row, _ in JSON_ROWS]


def numbered(spark: SparkSession) -> DataFrame:
    rows = [(number, text) for number, text in enumerate(texts())]
    return spark.createDataFrame(rows, "number int, text string")


def kinds_of(rows: list[Row]) -> dict[str, list[str]]:
    return {row.event: [f"{one.kind} {one.attribute}" for one in row.reasons] for row in rows}


def kinds(found: Conformed) -> dict[str, list[str]]:
    """Reasons by the original row."""
    return kinds_of(found.dead_letters.collect())


def test_every_reason_of_every_row_and_nothing_is_lost(spark: SparkSession) -> None:
    found = conform(numbered(spark), SCHEMA, json="text")
    dead = found.dead_letters.collect()
    wrong = {json.loads(event)["number"]: reasons for event, reasons in kinds_of(dead).items()}
    assert wrong == {number: reasons for number, (_, reasons) in enumerate(JSON_ROWS) if reasons}
    valid = {row.number: row for row in found.valid.collect()}
    assert sorted([*valid, *wrong]) == list(range(len(JSON_ROWS)))
    assert valid[1].price == 5.0 and valid[2].small == 5 and valid[2].price == 0.1
    assert valid[2].at == datetime(2026, 1, 31, 12, 30, 0, 500_000)
    assert valid[3].lines == [("s", 1), None] and valid[3].sizes == {"S": 3} and valid[3].tags == ["x"]
    assert valid[4].price is None and valid[4].lines == []
    assert [field.dataType.simpleString() for field in found.valid.schema][: len(SCHEMA)] == [
        field.dataType.simpleString() for field in SCHEMA
    ]
    assert found.valid.columns == [*SCHEMA.names, "number", "text"]
    assert {
        'expected double, but got string "5"',
        "expected bigint, but got none",
        "expected int, but got bigint 2147483648, which it cannot hold",
        "expected a JSON object, but got 'nope'",
        "expected a JSON object, but got null",
    } <= {one.message for row in dead for one in row.reasons}


def test_a_stream_gives_what_the_batch_gives(spark: SparkSession, tmp_path: Path) -> None:
    numbered(spark).coalesce(2).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema("number int, text string").option("maxFilesPerTrigger", 1)
    declared = StructType(SCHEMA.fields[:5])
    streamed = conform(source.parquet(str(tmp_path / "in")), declared, json="text").judged
    query = streamed.writeStream.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True)
    query.start(str(tmp_path / "out")).awaitTermination()
    written = spark.read.parquet(str(tmp_path / "out")).collect()
    assert len(written) == len(JSON_ROWS)
    assert sorted(map(str, written)) == sorted(
        map(str, conform(numbered(spark), declared, json="text").judged.collect())
    )


def test_typed_columns(spark: SparkSession) -> None:
    declared = StructType(
        [
            StructField("n", IntegerType()),
            StructField("x", DoubleType(), False),
            StructField("s", VarcharType(3)),
            StructField("d", StructType([StructField("must", StringType(), False), StructField("may", StringType())])),
            StructField("absent", StringType()),
        ]
    )
    rows = [
        (1, 1.5, "abc", ("m",), "u"),
        (2**40, math.nan, "abcd", (None,), None),
        (None, None, None, None, None),
    ]
    events = spark.createDataFrame(rows, "n bigint, x double, s string, d struct<must: string>, `odd.name` string")
    found = conform(events, declared)
    (valid,) = found.valid.collect()
    assert found.valid.columns == ["n", "x", "s", "d", "absent", "odd.name"]
    assert (valid.n, valid.x, valid.s, valid.d, valid["odd.name"]) == (1, 1.5, "abc", ("m", None), "u")
    reasons = list(kinds(found).values())
    assert ["value n", "null x", "value s", "null d.must"] in reasons and ["null x"] in reasons
    assert list(kinds(conform(events.limit(1), declared, unknown="report")).values()) == [["unknown odd.name"]]
    assert conform(events, declared, unknown="drop").valid.columns == declared.names


def test_a_column_of_another_type_condemns_the_rows_that_have_a_value(spark: SparkSession) -> None:
    events = spark.createDataFrame([("5", ["1"]), (None, None)], "price string, list array<string>")
    declared = StructType(
        [
            StructField("price", DoubleType()),
            StructField("list", ArrayType(LongType())),
            StructField("k", LongType(), False),
        ]
    )
    found = conform(events, declared)
    by_event = {json.loads(event)["price"]: many for event, many in kinds(found).items()}
    assert by_event == {"5": ["type price", "missing k", "type list[0]"], None: ["missing k"]}
    assert found.valid.count() == 0


NUMBERS: list[tuple[str, list[object], Any, list[bool]]] = [
    ("bigint", [0, 2**31 - 1, 2**31, -(2**31) - 1], IntegerType(), [True, True, False, False]),
    ("bigint", [2**53, 2**53 + 1, 2**63 - 1, -(2**63)], DoubleType(), [True, False, False, True]),
    ("int", [2**24, 2**24 + 1, 2**31 - 1], FloatType(), [True, False, False]),
    ("double", [5.0, 5.5, 2.0**63, -(2.0**63), math.inf], LongType(), [True, False, False, True, False]),
    ("double", [0.5, 0.1, math.inf, 1e300], FloatType(), [True, False, True, False]),
    ("double", [0.5, 0.125, 1e10], DecimalType(4, 2), [True, False, False]),
    ("bigint", [99, 100], DecimalType(4, 2), [True, False]),
    ("decimal(10,2)", [Decimal("5.00"), Decimal("5.01")], LongType(), [True, False]),
    ("decimal(10,2)", [Decimal("5.01")], DoubleType(), [True]),
    ("decimal(10,2)", [Decimal("5.10"), Decimal("5.11")], DecimalType(5, 1), [True, False]),
]


def test_numbers_fit_where_they_are_held_exactly(spark: SparkSession) -> None:
    names = [f"v{number}" for number in range(len(NUMBERS))]
    schema = ", ".join(f"{name} {actual}" for name, (actual, *_) in zip(names, NUMBERS, strict=True))
    rows = list(zip_longest(*(values for _, values, _, _ in NUMBERS)))
    declared = StructType([StructField(name, kind) for name, (_, _, kind, _) in zip(names, NUMBERS, strict=True)])
    judged = conform(spark.createDataFrame(rows, schema).coalesce(1), declared).judged.collect()
    for name, (_, values, _, holds) in zip(names, NUMBERS, strict=True):
        wrong = [name in {one.attribute for one in row.reasons} for row in judged[: len(values)]]
        assert wrong == [not fits for fits in holds], name
        for row, value, fits in zip(judged, values, holds, strict=False):
            if fits:
                found = row.conformed[name]
                assert found == (float(value) if isinstance(found, float) else value)  # type: ignore[arg-type]


TIMES = [
    "2026-01-31", "2026-01-31T12:00", "2026-01-31 12:00:00.5", "2026-01-31T12:00:00Z", "2026-01-31t12:00:00+01:00",
    "2026-01-31T12:00:00-0130", "2026-01-31T12:00:00+23", "1969-12-31T23:59:59.999999", "2026-01-31T12:00:00,25 Z",
    "2026-02-30", "2026-01-31T25:00", "2026-01-31T12", "2026-01-31T12:00:00.1234567", "soon", "", "2026-01-31T12:00 +1",
]  # fmt: skip


def test_texts_are_times_as_everywhere_in_whimbrel(spark: SparkSession) -> None:
    events = spark.createDataFrame([(text,) for text in TIMES], "t string").coalesce(1)
    zones = ("UTC", "America/New_York")
    for zone in zones:
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            found = conform(events, StructType([StructField("t", TimestampType())])).judged
            got = [
                row[0]
                for row in found.select(sf.when(sf.size("reasons") == 0, sf.unix_micros("conformed.t"))).collect()
            ]
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")
        assert got == [expected_micros(text) for text in TIMES]


def expected_micros(text: str) -> int | None:
    try:
        nanoseconds = Timestamp.parse(text).nanoseconds
    except ValueError:
        return None
    return nanoseconds // 1_000 if nanoseconds % 1_000 == 0 else None


def test_dates_and_times_without_a_zone(spark: SparkSession) -> None:
    rows = [(date(2026, 1, 31), datetime(2026, 3, 29, 2, 30), "2026-01-31"), (None, None, "31.1.2026")]
    events = spark.createDataFrame(rows, "d date, n timestamp_ntz, s string").coalesce(1)
    declared = StructType(
        [StructField("d", TimestampType()), StructField("n", TimestampType()), StructField("s", DateType())]
    )
    good, bad = conform(events, declared).judged.collect()
    midnight = datetime(2026, 1, 31, tzinfo=UTC)
    assert good.conformed.d.replace(tzinfo=UTC) == midnight and good.conformed.s == date(2026, 1, 31)
    assert good.conformed.n.replace(tzinfo=UTC) == datetime(2026, 3, 29, 2, 30, tzinfo=UTC)
    assert [one.kind for one in bad.reasons] == ["value"]
    ntz = StructType([StructField("d", TimestampNTZType())])
    assert [one.kind for one in conform(events, ntz).judged.first().reasons] == ["type"]  # type: ignore[union-attr]


def test_unknown_fields_of_json(spark: SparkSession) -> None:
    rows = [('{"id": 1, "d": {"x": 1, "y": 2}, "z": 3}',), ('{"id": 1}',)]
    events = spark.createDataFrame(rows, "text string")
    inner = StructType([StructField("x", LongType())])
    declared = StructType([StructField("id", LongType()), StructField("d", inner)])
    found = conform(events, declared, json="text", unknown="report")
    assert [sorted(many) for many in kinds(found).values()] == [["unknown d.y", "unknown z"]]
    assert found.valid.columns == ["id", "d"]
    assert conform(events, declared, json="text", unknown="drop").valid.count() == 2


def test_columns_whose_names_differ_in_case_only(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1, 2)], "x int, y int").toDF("a", "A")
    declared = StructType([StructField("A", LongType()), StructField("a", LongType())])
    assert [tuple(row) for row in conform(events, declared).valid.collect()] == [(2, 1)]
    fields = spark.sql("SELECT struct(1 AS x, 2 AS X) d")
    with pytest.raises(ColumnError, match="another name for each field of the struct, but got x, X - at column x"):
        conform(fields, StructType.fromDDL("d struct<x: int>"))


def test_fields_of_json_with_any_name(spark: SparkSession) -> None:
    for key in ("it's", 'a"b', "'\"", "p.q", "x]y", ""):
        events = spark.createDataFrame([(json.dumps({key: 5}),)], "text string")
        found = conform(events, StructType([StructField(key, LongType())]), json="text", unknown="drop")
        assert [tuple(row) for row in found.valid.collect()] == [(5,)]


def test_what_cannot_be_compared_is_an_error(spark: SparkSession) -> None:
    events = spark.createDataFrame([("{}", 1)], "text string, id int")
    twice = events.select("id", "id")
    with pytest.raises(ConformError, match="each name once, but got id twice"):
        conform(twice, SCHEMA)
    with pytest.raises(
        ColumnError, match="string column with JSON, but got the columns text string, id int - at column id"
    ):
        conform(events, SCHEMA, json="id")
    with pytest.raises(ConformError, match="both have id"):
        conform(events, SCHEMA, json="text")
    with pytest.raises(BadOption, match="one of keep, drop, report, but got 'x'"):
        conform(events, SCHEMA, unknown="x")  # type: ignore[arg-type]
    with pytest.raises(ConformError, match="the schema to have columns"):
        conform(events, StructType([]))
