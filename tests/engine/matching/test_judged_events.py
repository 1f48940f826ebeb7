"""Events that a schema judges: valid or refused alike, as single events, objects, JSON texts and tables."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.engine.matching.furniture import furniture, pairs
from whimbrel import Index, Schema
from whimbrel.model.errors import RowError, WhimbrelError
from whimbrel.model.event_tables import read_events
from whimbrel.model.json_text import JsonError
from whimbrel.model.matcher import Errors
from whimbrel.model.schema import InvalidEvent


def test_invalid_events_are_refused_with_every_reason_and_the_row() -> None:
    index = Index(schema=furniture())
    index.add("a", "kind <= 'dining'")
    with pytest.raises(InvalidEvent) as caught:
        index.match({"kind": "tabel", "share": 1.5, "colour": "red"})
    assert [(v.rule, v.path) for v in caught.value.violations] == [("R2", "kind"), ("R2", "share"), ("R3", "colour")]
    events = [{"kind": "table"}, {"kind": "bedroom"}, {"share": 3}]
    for shape in (events, pa.Table.from_pylist([{"kind": None, "share": None, **event} for event in events])):
        with pytest.raises(InvalidEvent, match="Expected a valid event 2") as caught:
            index.match_batch(shape)
        assert caught.value.row == 2
    assert index.match({"kind": "dining"}) == ["a"]


TABLES = [
    {"kind": ["table", "any"], "share": [1, None]},
    {"kind": ["table", "any"], "share": [1.0, float("nan")]},
    {"kind": ["table", "any"], "share": [1.5, 2.0]},
    {"kind": ["table", "any"], "share": [1, 101]},
    {"kind": ["table", "desk"]},
    {"kind": ["table", None]},
    {"kind": [["table"], ["any"]]},
    {"kind": ["table", "any"], "tags": [["a", "b"], None]},
    {"kind": ["table", "any"], "when": ["2026-01-01", None]},
    {"kind": ["table", "any"], "when": [1, 2]},
    {"kind": ["table", "any"], "colour": ["red", None]},
    {"kind": ["table", "any"], "colour": [None, None]},
    {"event_type": ["sale", "rent"], "kind": ["table", None], "price": [None, 1.25]},
    {"event_type": ["sale", "rent"], "kind": ["table", None], "price": [1.25, 1.25]},
    {"event_type": ["sale", "rent"], "kind": ["table", None], "price": [None, 1.255]},
    {"event_type": ["sale", "lend"], "kind": ["table", "any"]},
    {"event_type": ["sale", None], "kind": ["table", "any"]},
    {"event_type": [["sale"], ["sale", "rent"]], "kind": ["table", "any"], "price": [None, 3]},
]


@pytest.mark.parametrize("columns", TABLES, ids=str)
def test_tables_are_judged_as_their_rows_are(columns: dict[str, list[Any]]) -> None:
    schema, table = furniture(), pa.table(columns)
    index = Index(schema=schema)
    texts = ["kind < 'any'", "share = 1", "tags CONTAINS 'b'", "event_type = 'rent'", "when > '2025-01-01'"]
    index.add_many([(text, text) for text in texts])
    rows = list(read_events(table, table.column_names))
    invalid = [row for row, event in enumerate(rows) if schema.violations(event)]
    if invalid:
        with pytest.raises(InvalidEvent) as caught:
            index.match_batch(table)
        assert caught.value.row == invalid[0]
    else:
        assert pairs(index.match_batch(table)) == sorted(
            (row, id) for row, event in enumerate(rows) for id in index.match(event)
        )


OBJECTS: list[dict[str, Any]] = [
    {"kind": "table", "share": 1}, {"kind": "any", "share": 1.0, "event_type": "sale"},
    {"kind": "dining", "share": 100},
    {"kind": "table", "when": "2026-01-01"}, {"kind": "table", "when": "2026-01-01T00:00:00.5+01:00"},
    {"event_type": "rent", "price": 1.25}, {"event_type": "rent", "price": 3, "kind": "bedroom"},
    {"kind": "table", "tags": "b"}, {"kind": "table", "tags": "\xe9\n"},
]  # fmt: skip
"""Valid objects that become rows of a table."""
ODD: list[dict[str, Any]] = [
    {}, {"kind": None}, {"kind": "table", "share": None}, {"kind": "table", "tags": ["a", "b"]}, {"kind": ["table"]},
    {"kind": "table", "share": True}, {"kind": "table", "share": 2**70}, {"kind": "table", "share": 1.5},
    {"kind": "desk"}, {"kind": "table", "share": 101}, {"kind": "table", "colour": 1},
    {"kind": "table", "when": "soon"},
    {"kind": "table", "when": 5}, {"kind": 3}, {"event_type": "rent", "price": 1.255}, {"event_type": "lend"},
    {"event_type": ["sale", "rent"], "kind": "table", "price": 1}, {"kind": "table", "tags": {"x": 1}},
    {"kind": "table", "when": "+12026-01-01"}, {"event_type": "rent"}, {"kind": "table", "tags": "\ud800"},
    {"event_type": "rent", "price": 1e300}, {"event_type": None, "kind": "table"}, {"event_type": 1, "kind": "table"},
]  # fmt: skip
"""Objects that are invalid, or valid and read by the rules themselves."""


@settings(deadline=None)
@given(st.lists(st.one_of(st.sampled_from(OBJECTS), st.sampled_from(OBJECTS + ODD)), max_size=12), st.booleans())
@example(OBJECTS + ODD, False)
@example(OBJECTS, True)
def test_objects_and_texts_are_judged_as_single_events(events: list[dict[str, Any]], in_two: bool) -> None:
    index = Index(schema=furniture())
    texts = [
        "kind < 'any'",
        "share = 1",
        "tags CONTAINS 'b'",
        "event_type = 'rent'",
        "when > '2025-01-01'",
        "price > 1",
    ]
    texts += ["tags LIKE '%b%'", "share IS NULL", "share IS MISSING", "price >= 1e300"]
    for part in (texts[:5], texts[5:]) if in_two else (texts,):
        index.add_many([(text, text) for text in part])
    found: list[tuple[int, str]] = []
    errors: list[tuple[int, type, str]] = []
    for row, event in enumerate(events):
        try:
            found += [(row, str(id)) for id in index.match(event)]
        except WhimbrelError as error:
            errors.append((row, type(error), str(error.at_row(row) if isinstance(error, RowError) else error)))
    lines = [json.dumps(event).encode() for event in events]
    for row, id in found:
        assert id in index.match(lines[row])
    for shape in (events, lines, b"\n".join(lines), pa.array(lines, pa.binary())):
        refused: Errors = []
        assert pairs(index.match_batch(shape, errors=refused)) == sorted(found)
        assert [(row, type(error), str(error)) for row, error in refused] == errors


def test_a_key_that_comes_twice_is_refused_with_a_schema_too() -> None:
    index = Index(schema=furniture())
    index.add("a", "kind = 'table'")
    refused: Errors = []
    texts = [
        b'{"kind": "any", "kind": "table"}',
        b'{"kind": "table", "share": 1, "share": 1}',
        b'{"kind": "table"}',
        b"{",
    ]
    assert pairs(index.match_batch(texts, errors=refused)) == [(2, "a")]
    assert [(row, type(error)) for row, error in refused] == [(0, JsonError), (1, JsonError), (3, JsonError)]


@pytest.mark.parametrize("schema", [None, furniture()], ids=["no schema", "schema"])
def test_an_index_without_subscriptions_refuses_what_one_with_them_refuses(schema: Schema | None) -> None:
    empty, filled = Index(schema=schema), Index(schema=schema)
    filled.add("a", "kind = 'table'")
    filled.merge()
    lines = [b'{"kind": "table"}', b'{"kind": "desk"}', b'{"kind": ', b'{"kind": "any", "kind": "any"}', b"[]"]
    shapes: list[object] = [lines, b"\n".join(lines), pa.array(lines, pa.binary()), [{"kind": "table"}, {1: 2}, 5]]
    for shape in shapes:
        refused: list[list[tuple[int, str]]] = []
        for index in (empty, filled):
            errors: Errors = []
            events = sum(len(offsets) - 1 for offsets, _ in index.match_blocks(shape, errors=errors))
            refused.append([(row, str(error)) for row, error in errors])
            assert events == (5 if shape is not shapes[-1] else 3)
            with pytest.raises(RowError):
                list(index.match_blocks(shape))
        assert refused[0] == refused[1] != []
    table = pa.table({"kind": ["table", "desk"]})
    assert empty.match_batch(table.slice(0, 1)).num_rows == 0
    if schema is not None:
        with pytest.raises(InvalidEvent, match="event 1"):
            empty.match_batch(table)
