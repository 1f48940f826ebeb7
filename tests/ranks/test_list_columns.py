"""Lists, arrays of objects and maps through the encoder, against the plain reader of events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ranks.reference import entries, make, same
from whimbrel.model.errors import EventError
from whimbrel.model.event_tables import read_events


@given(st.data())
def test_nested_columns_are_read_like_events(data: st.DataObject) -> None:
    number, text = st.one_of(st.none(), st.integers(0, 3)), st.sampled_from(["a", "b", None])
    point = st.fixed_dictionaries({}, optional={"x": number, "z": text})
    element = st.fixed_dictionaries(
        {}, optional={"x": number, "y": text, "p": point, "l": st.lists(number, max_size=2)}
    )
    fields = [("x", pa.int64()), ("y", pa.string()), ("p", pa.struct([("x", pa.float64()), ("z", pa.string())]))]
    deep = pa.struct([*fields, ("l", pa.list_(pa.int64()))])
    key = st.sampled_from(["k", "l", "k.k", ""])
    rows = data.draw(st.integers(0, 6))

    def column(cell: st.SearchStrategy[Any], kind: pa.DataType) -> pa.Array:
        cells = data.draw(st.lists(st.one_of(st.none(), cell), min_size=rows + 1, max_size=rows + 1))
        return pa.array(cells, kind).slice(1)

    elements = st.lists(st.one_of(st.none(), element), max_size=3)
    pairs = st.lists(st.tuples(key, number), max_size=3)
    table = pa.table(
        {
            "d": column(elements, pa.list_(pa.struct(fields))),
            "e": column(elements, pa.large_list(deep)),
            "s": column(
                st.fixed_dictionaries({}, optional={"d": elements, "y": text}),
                pa.struct([("d", pa.list_(deep)), ("y", pa.string())]),
            ),
            "m": column(pairs, pa.map_(pa.string(), pa.int64())),
            "o": column(
                st.lists(st.tuples(key, elements), max_size=2), pa.map_(pa.string(), pa.list_(pa.struct(fields)))
            ),
            "n": column(
                st.lists(st.one_of(st.none(), st.lists(number, max_size=2)), max_size=2), pa.list_(pa.list_(pa.int64()))
            ),
            "d.x": column(number, pa.int64()),
        }
    )
    own = {"numbers": [1, 2], "strings": ["a"]}
    pool = [
        "n",
        "d.x",
        "d.y",
        "d.p.x",
        "d.p.z",
        "m.k",
        "m.k.k",
        "m.",
        "m",
        "d",
        "e.x",
        "e.l",
        "s.d.x",
        "s.d.p.z",
        "s.y",
        "o.k.x",
    ]
    names = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=8, unique=True))
    encoder = make(dict.fromkeys(names, own))
    assert same(encoder.encode_table(table), encoder.encode_events(list(read_events(table, names))))


def test_of_a_key_that_comes_twice_the_last_value_counts() -> None:
    cells = [[("k", 1), ("l", 7), ("k", 2)], None, [("k", None)], [("k", 2), ("k", None)], []]
    table = pa.table({"m": pa.array(cells, pa.map_(pa.string(), pa.int64()))})
    encoder = make({"m.k": {"numbers": [1, 2]}})
    assert entries(encoder.encode_table(table)) == [{0: {9}}, {}, {0: {0}}, {0: {0}}, {}]
    assert entries(encoder.encode_table(table.slice(2))) == [{0: {0}}, {0: {0}}, {}]


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), pa.large_string()])
def test_maps_may_have_views_of_text(kind: pa.DataType) -> None:
    pairs = pa.array([[("k", "x"), ("l", "y")], [], [("k", None)]], pa.map_(pa.string(), pa.string()))
    maps = pa.MapArray.from_arrays(pairs.offsets, pairs.keys.cast(kind), pairs.items.cast(kind))
    encoded = make({"m.k": {"strings": ["x"]}}).encode_table(pa.table({"m": maps}))
    assert entries(encoded) == entries(make({"m.k": {"strings": ["x"]}}).encode_table(pa.table({"m": pairs})))


def test_keys_that_are_no_text_are_refused_where_an_attribute_lies() -> None:
    table = pa.table({"m": pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64()))})
    with pytest.raises(EventError, match="a text as key"):
        make({"m.k": {}}).encode_table(table)
    assert entries(make({"m": {}}).encode_table(table.slice(1))) == []


def test_rows_are_coupled_only_where_an_object_has_a_value() -> None:
    kind = pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64())]))
    table = pa.table({"d": pa.array([[{"x": 1}], [{"x": None, "y": 1}], [None], [], None, [{}, {"x": 2}]], kind)})
    encoded = make({"d.x": {}, "d": {}}).encode_table(table)
    assert encoded.coupled.tolist() == [1, 0, 0, 0, 0, 1]
    assert entries(encoded) == [{0: {6}}, {}, {1: {0}}, {}, {}, {0: {6}}]


def test_members_outside_of_every_row_do_not_count() -> None:
    texts = pa.array(["2026-01-31", "no time", "2026-01-31"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), texts, mask=pa.array([False, True, False]))
    encoded = make({"t": {"times": [0]}}).encode_table(pa.table({"t": lists}), ["t"])
    assert np.diff(encoded.offsets).tolist() == [1, 0, 1]
