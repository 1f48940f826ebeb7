"""Schemas as documents and from elsewhere: TOML and JSON, differences, Arrow, Spark, JSON Schema, samples of events."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.schema import domain_semantics as direct
from whimbrel import Filter, Schema
from whimbrel.matchers import make
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.schema import InvalidSchema, SchemaError
from whimbrel.model.schema.documents import to_toml

DOCUMENT = {
    "version": 4,
    "type_attribute": "kind",
    "default_type": "sale",
    "domains": {
        "size": {"kind": "enumerated", "values": ["S", "M", "L"], "order": [["S", "M"], ["M", "L"]]},
        "thing": {"kind": "hierarchical", "children": {"any": ["a \"b\"", "c\n"]}},
        "money": {"kind": "decimal", "minimum": 0, "maximum": 10.5, "scale": 2},
    },
    "attributes": {"price": "money", "shop.size": "size", "name": "string", "ünïcode key": "thing"},
    "types": {"sale": {"price": "mandatory", "shop.size": "optional multiple"}, "empty": {}},
}  # fmt: skip


@pytest.mark.parametrize("name", ["schema.toml", "schema.json"])
def test_files_round_trip(tmp_path: Path, name: str) -> None:
    schema = Schema.from_document(DOCUMENT)
    schema.dump(tmp_path / name)
    again = Schema.load(tmp_path / name)
    assert again == schema
    assert again.to_document() == schema.to_document() == DOCUMENT


@given(direct.schemas())
def test_generated_schemas_round_trip(schema: Schema) -> None:
    assert Schema.from_document(tomllib.loads(to_toml(schema.to_document()))) == schema
    again = Schema.from_document(json.loads(json.dumps(schema.to_document())))
    assert again == schema
    assert again.diff(schema) == []


_plain = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text())
_tables = st.recursive(
    st.one_of(_plain, st.lists(_plain, max_size=3)), lambda inner: st.dictionaries(st.text(), inner, max_size=3)
)


@given(st.dictionaries(st.text(), _tables, max_size=4))
def test_toml_is_read_back(document: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(document)) == document


def test_every_problem_of_a_document_is_told_at_once() -> None:
    document = {
        "version": -1,
        "atributes": {},
        "default_type": "sail",
        "domains": {
            "a": {"kind": "enumeratd"},
            "b": {"kind": "integer", "minimum": 5, "maximum": 3},
            "c": {"kind": "string", "values": []},
            "d": 5,
            "e": {"kind": "enumerated", "values": ["x", "y"], "order": [["x", ["y"]]]},
        },
        "attributes": {"x": "nothing", "y": "integer", "z": {}},
        "types": {"sale": {"y": "always", "w": "optional"}, "t": []},
    }
    with pytest.raises(InvalidSchema) as caught:
        Schema.from_document(document)
    paths = {problem.path for problem in caught.value.problems}
    assert paths == {
        "version", "atributes", "default_type", "domains.a.kind", "domains.b.minimum", "domains.c.values", "domains.d",
        "domains.e.order", "attributes.x", "attributes.z", "types.sale.y", "types.sale.w", "types.t",
    }  # fmt: skip
    assert all(f"at {path}" in str(caught.value) for path in paths)
    assert "did you mean 'enumerated'" in str(caught.value)


def test_files_that_are_no_schema_are_refused(tmp_path: Path) -> None:
    for name, content, message in [
        ("a.toml", b"x = ", "Expected a schema in TOML"),
        ("a.json", b"{", "Expected a schema in JSON"),
        ("b.json", b"[]", "Expected an object, but got list"),
        ("c.json", b"[" * 100_000, "Expected a schema in JSON"),
        ("b.toml", b"\xff", "Expected a schema in TOML"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SchemaError, match=message):
            Schema.load(tmp_path / name)


def test_differences_tell_extensions_from_the_rest() -> None:
    old = Schema.from_document(DOCUMENT)
    new = Schema.from_document(DOCUMENT)
    new.create_attribute("colour", "string")
    new.extend_type("sale", "colour")
    new.create_type("gift", {"name": "mandatory"})
    changes = old.diff(new)
    assert [str(change) for change in changes] == [
        "+ attributes.colour: string",
        "+ types.sale.colour: optional",
        "+ types.gift: name mandatory",
    ]
    assert all(change.is_extension for change in changes)
    back = new.diff(old)
    assert [change.what for change in back] == ["removed"] * 3
    assert not any(change.is_extension for change in back)
    other = json.loads(json.dumps(DOCUMENT))
    other["domains"]["money"]["maximum"] = 20
    other["types"]["sale"]["name"] = "mandatory"
    other["types"]["sale"]["shop.size"] = "optional"
    other["default_type"] = "empty"
    changes = old.diff(Schema.from_document(other))
    assert {change.path for change in changes} == {
        "default_type", "domains.money", "types.sale.name", "types.sale.shop.size",
    }  # fmt: skip
    assert not any(change.is_extension for change in changes)


ARROW = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("at", pa.timestamp("us")),
        pa.field("tags", pa.list_(pa.dictionary(pa.int8(), pa.string())), nullable=False),
        pa.field(
            "shop", pa.struct([pa.field("city", pa.large_string(), nullable=False), pa.field("open", pa.bool_())]),
            nullable=False,
        ),
        pa.field("items", pa.list_(pa.struct([pa.field("n", pa.float32(), nullable=False)]))),
    ]
)  # fmt: skip

TYPES = {
    "id": "mandatory",
    "price": "optional",
    "at": "optional",
    "tags": "optional multiple",
    "shop.city": "mandatory",
    "shop.open": "optional",
    "items.n": "optional multiple",
}
DOMAINS = {
    "id": "integer",
    "price": "decimal (scale 2)",
    "at": "timestamp",
    "tags": "string",
    "shop.city": "string",
    "shop.open": "boolean",
    "items.n": "float",
}


def contents(schema: Schema) -> tuple[dict[str, str], dict[str, str]]:
    (uses,) = schema.types.values()
    return {k: str(use) for k, use in uses.items()}, {k: str(domain) for k, domain in schema.attributes.items()}


def test_from_arrow() -> None:
    schema = Schema.from_arrow(ARROW)
    assert contents(schema) == (TYPES, DOMAINS)
    rows = [{"id": 1, "tags": ["a", "b"], "shop": {"city": "Oslo", "open": None}, "items": [{"n": 1.5}, {"n": 2}]}]
    naive = make("naive")
    naive.add("a", Filter.parse("shop.city = 'Oslo' AND items.n > 1 AND tags CONTAINS 'b'", schema=schema))
    assert naive.match_batch(pa.Table.from_pylist(rows, ARROW)).num_rows == 1
    odd = pa.schema([("a", pa.binary()), ("m", pa.map_(pa.string(), pa.int8())), ("n", pa.int8())])
    with pytest.raises(InvalidSchema) as caught:
        Schema.from_arrow(odd)
    assert [problem.path for problem in caught.value.problems] == ["a", "m"]
    assert list(Schema.from_arrow(odd, "row", ignore=["a", "m"]).attributes) == ["n"]


SPARK = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": False, "metadata": {}},
        {"name": "price", "type": "decimal(10,2)", "nullable": True, "metadata": {}},
        {"name": "at", "type": "timestamp_ntz", "nullable": True, "metadata": {}},
        {"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": True}, "nullable": False},
        {
            "name": "shop",
            "nullable": False,
            "type": {
                "type": "struct",
                "fields": [
                    {"name": "city", "type": "varchar(20)", "nullable": False},
                    {"name": "open", "type": "boolean", "nullable": True},
                ],
            },
        },
        {
            "name": "items",
            "nullable": True,
            "type": {
                "type": "array",
                "elementType": {"type": "struct", "fields": [{"name": "n", "type": "double", "nullable": False}]},
            },
        },
    ],
}


def test_from_spark() -> None:
    for form in (SPARK, json.dumps(SPARK)):
        assert contents(Schema.from_spark(form)) == (TYPES, DOMAINS)
    odd = {"type": "struct", "fields": [{"name": "m", "type": {"type": "map"}}, {"name": "v", "type": "variant"}, 5]}
    with pytest.raises(InvalidSchema) as caught:
        Schema.from_spark(odd)
    assert [problem.path for problem in caught.value.problems] == ["m", "v", "$"]
    for wrong in ("{", {"type": "array"}, 5):
        with pytest.raises(SchemaError, match="StructType"):
            Schema.from_spark(wrong)


def test_a_struct_type_is_read_and_the_model_does_not_import_spark() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    assert contents(Schema.from_spark(types.StructType.fromJson({**SPARK, "fields": [SPARK["fields"][0]]}))) == (
        {"id": "mandatory"},
        {"id": "integer"},
    )
    program = 'import sys; from whimbrel import Schema; Schema.from_spark(\'{"type": "struct", "fields": []}\'); '
    program += "print('pyspark' in sys.modules, 'pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["False", "False"]


def test_from_json_schema() -> None:
    document = {
        "$defs": {"city": {"type": "string"}},
        "type": "object",
        "required": ["id", "shop", "tags", "status"],
        "properties": {
            "id": {"type": "integer", "minimum": 0.5, "exclusiveMaximum": 10},
            "price": {"type": ["number", "null"], "minimum": 0},
            "at": {"type": "string", "format": "date-time"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "status": {"enum": ["open", "closed"]},
            "sold": {"type": "boolean"},
            "shop": {"type": "object", "required": ["city"], "properties": {"city": {"$ref": "#/$defs/city"}}},
            "items": {"type": "array", "items": {"properties": {"n": {"type": "number"}}, "required": ["n"]}},
        },
    }
    uses, domains = contents(Schema.from_json_schema(document))
    assert uses == {
        "id": "mandatory", "price": "optional", "at": "optional", "tags": "optional multiple", "status": "mandatory",
        "sold": "optional", "shop.city": "mandatory", "items.n": "optional multiple",
    }  # fmt: skip
    assert domains == {
        "id": "integer (minimum 1, maximum 9)", "price": "float (minimum 0)", "at": "timestamp", "tags": "string",
        "status": "enumerated (values ['open', 'closed'])", "sold": "boolean", "shop.city": "string",
        "items.n": "float",
    }  # fmt: skip


def test_json_schemas_that_have_no_one_type_are_refused() -> None:
    document = {
        "properties": {
            "a": {"type": ["string", "number"]},
            "b": {"anyOf": [{"type": "string"}], "type": "string"},
            "c": {"enum": [1, 2]},
            "d": {"$ref": "other.json"},
            "e": {"$ref": "#/$defs/none"},
            "f": {"type": "object"},
            "g": True,
            "h": {"type": "integer", "minimum": 5, "maximum": 1},
        }
    }
    with pytest.raises(InvalidSchema) as caught:
        Schema.from_json_schema(document)
    assert {problem.path for problem in caught.value.problems} == set("abcdefgh")
    assert list(
        Schema.from_json_schema({"properties": {"a": True, "n": {"type": "number"}}}, ignore=["a"]).attributes
    ) == ["n"]
    for wrong in ({}, [], {"$ref": "#"}):
        with pytest.raises(SchemaError):
            Schema.from_json_schema(wrong)
    with pytest.raises(LimitExceeded):
        Schema.from_json_schema({"properties": {"a": {"$ref": "#"}}})


def test_inference() -> None:
    events = [
        {"event_type": "bid", "price": 3, "at": "2026-01-01", "who": "Ann", "tags": ["a", "b"]},
        {"event_type": ["bid", "sale"], "price": 2.5, "at": "2026-01-02T00:00Z", "who": "Bo", "sold": True, "n": None},
        {"price": 1, "who": "Ann", "d": {"x": 1}},
        {"who": "Bo"},
    ]
    schema = Schema.infer(events)
    assert {type: {k: str(use) for k, use in uses.items()} for type, uses in schema.types.items()} == {
        "bid": {
            "price": "mandatory",
            "at": "mandatory",
            "who": "mandatory",
            "tags": "optional multiple",
            "sold": "optional",
        },
        "sale": {"price": "mandatory", "at": "mandatory", "who": "mandatory", "sold": "mandatory"},
        "event": {"price": "optional", "who": "mandatory", "d.x": "optional"},
    }
    assert {name: str(domain) for name, domain in schema.attributes.items()} == {
        "price": "float", "at": "timestamp", "who": "string", "tags": "string", "sold": "boolean", "d.x": "integer",
    }  # fmt: skip
    assert str(Schema.infer(events, values=2).attributes["who"]) == "enumerated (values ['Ann', 'Bo'])"
    with pytest.raises(InvalidSchema, match="number and string - at a"):
        Schema.infer([{"a": 1}, {"a": "x"}])
    with pytest.raises(InvalidSchema, match="at least one event"):
        Schema.infer([])


@given(st.data(), st.integers(0, 4))
def test_a_sample_is_valid_in_what_is_inferred_from_it(data: st.DataObject, values: int) -> None:
    schema = data.draw(direct.schemas())
    events = [
        {name: value for name, value in event.items() if value is not None}
        for event in data.draw(st.lists(direct.valid_events(schema), min_size=1, max_size=6))
    ]
    inferred = Schema.infer(events, values=values)
    assert [event for event in events if inferred.violations(event)] == []


def test_a_json_schema_that_refers_to_itself_too_often_is_refused() -> None:
    """Each of 40 objects has two properties of the next one: 2^40 attributes."""
    objects = {
        f"o{number}": {"properties": {name: {"$ref": f"#/$defs/o{number + 1}"} for name in "ab"}}
        for number in range(40)
    }
    document = {"$ref": "#/$defs/o0", "$defs": {**objects, "o40": {"type": "integer"}}}
    with pytest.raises(LimitExceeded, match="at most 10,000 attributes"):
        Schema.from_json_schema(document)
