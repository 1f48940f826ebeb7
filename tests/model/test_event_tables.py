"""Events in every shape: a column is read as the events of the equivalent objects are, whole, sliced and in chunks."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import STRINGS
from whimbrel import Filter
from whimbrel.matchers import make
from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.model.event import Event
from whimbrel.model.event_tables import needed_columns, read_events
from whimbrel.model.values import Timestamp

NAN, INF = math.nan, math.inf
SECOND, DAY = 10**9, 86_400 * 10**9
T = Timestamp


def read(events: object, *attributes: str, timestamps: tuple[str, ...] = ()) -> list[dict[str, tuple[Any, ...]]]:
    found = read_events(events, attributes, timestamps)
    return [{name: event.values(name) for name in event.attributes} for event in found]


def bool8(values: list[int | None]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.bool8(), pa.array(values, pa.int8()))


def values_of(kind: pa.DataType, *values: Any) -> pa.Array:
    return pa.array(values, kind)


UNITS = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}
# Columns of scalars, and what each cell is: None for missing.
SCALARS: list[tuple[pa.Array, list[Any]]] = [
    *((values_of(kind, 0, None, 127, -128), [0, None, 127, -128]) for kind in (pa.int8(), pa.int16(), pa.int32())),
    (values_of(pa.int64(), 2**53 + 1, None, -(2**63)), [2**53 + 1, None, -(2.0**63)]),
    *((values_of(kind, 0, None, 255), [0, None, 255]) for kind in (pa.uint8(), pa.uint16(), pa.uint32())),
    (values_of(pa.uint64(), 2**64 - 1, None), [2**64 - 1, None]),
    (values_of(pa.float16(), 1.5, None, NAN, -INF), [1.5, None, None, -INF]),
    (values_of(pa.float32(), 0.5, None, NAN, INF, 2.0), [0.5, None, None, INF, 2]),
    (values_of(pa.float64(), 0.1, None, NAN, -0.0, 1e300, 2.0**60), [0.1, None, None, 0, 1e300, 2**60]),
    (values_of(pa.decimal32(5, 2), Decimal("1.10"), None), [1.1, None]),
    (values_of(pa.decimal64(12, 2), Decimal("-2.00"), None), [-2, None]),
    (values_of(pa.decimal128(20, 1), Decimal("0.1"), None, Decimal(2**53 + 1)), [0.1, None, 2**53]),
    (values_of(pa.decimal256(60, 0), Decimal(10**50), None), [1e50, None]),
    (values_of(pa.bool_(), True, None, False), [True, None, False]),
    (bool8([1, None, 0, 2]), [True, None, False, True]),
    *(
        (values_of(kind, *STRINGS, None), [*STRINGS, None])
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    ),
    (values_of(pa.string(), "a", None, "a").dictionary_encode(), ["a", None, "a"]),
    (pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["a", "b"], pa.string_view())), ["b", "a"]),
    (pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), pa.array([None, 5.5])), [5.5, None, None]),
    (pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.uint16()), pa.array([1, 2], pa.timestamp("ns"))), [T(1), T(2)]),
    *(
        (values_of(pa.timestamp(unit, zone), 0, None, -1, 2**40), [T(0), None, T(-factor), T(2**40 * factor)])
        for unit, factor in UNITS.items()
        for zone in (None, "UTC", "Europe/Oslo", "+05:30")
    ),
    (values_of(pa.timestamp("s"), 2**63 - 1), [T((2**63 - 1) * SECOND)]),
    (values_of(pa.date32(), date(1970, 1, 2), None, date(1969, 12, 31)), [T(DAY), None, T(-DAY)]),
    (values_of(pa.date64(), date(1970, 1, 2), None, date(1969, 12, 31)), [T(DAY), None, T(-DAY)]),
    (values_of(pa.date64(), DAY // 10**6 + 1, -1), [T(DAY), T(-DAY)]),
    (values_of(pa.null(), None, None), [None, None]),
    (pc.run_end_encode(pa.array([1, 1, None, None, 2])), [1, 1, None, None, 2]),
    (pc.run_end_encode(pa.array(["a", "a", "b"])), ["a", "a", "b"]),
    (pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None])), ["{}", None]),
]
INTS = pa.int32()
PAIR = pa.struct([("x", INTS), ("y", pa.string())])
MISSING = object()
# Columns of lists: what the cell's set of values is; MISSING for a missing one.
LISTS: list[tuple[pa.Array, list[Any]]] = [
    *(
        (values_of(kind, [1, 2], None, [], [3, None], [4]), [(1, 2), MISSING, MISSING, (3, None), (4,)])
        for kind in (pa.list_(INTS), pa.large_list(INTS), pa.list_view(INTS), pa.large_list_view(INTS))
    ),
    (values_of(pa.list_(INTS, 2), [1, 2], None, [3, None], [4, 4]), [(1, 2), MISSING, (3, None), (4,)]),
    (values_of(pa.list_(INTS, 0), [], None), [MISSING, MISSING]),
    (values_of(pa.list_(pa.list_(INTS)), [[1], [2, None]], [None, []], [[]]), [(1, 2, None), (None,), MISSING]),
    (values_of(pa.list_(pa.float64()), [NAN, 1.0], [NAN]), [(None, 1), (None,)]),
    (values_of(pa.list_(pa.timestamp("ms")), [1, None]), [(T(10**6), None)]),
    (values_of(pa.list_(pa.bool_()), [True, False, True]), [(True, False)]),
    (values_of(pa.list_(pa.string()), ["a", "", None]), [("a", "", None)]),
    (
        pa.ListViewArray.from_arrays(pa.array([2, 0, 1], INTS), pa.array([1, 2, 0], INTS), pa.array([7, 8, 9])),
        [(9,), (7, 8), MISSING],
    ),
    (pa.ListArray.from_arrays(pa.array([0, 2]), pa.array(["a", "b"]).dictionary_encode()), [("a", "b")]),
]


def forms(array: pa.Array) -> dict[str, pa.Table]:
    """The same column whole, as a slice of a larger one, and in chunks."""
    around = pa.concat_arrays([array, array, array])
    sliced = around.slice(len(array), len(array))
    chunks = pa.chunked_array([around.slice(len(array), 1), around.slice(len(array) + 1, len(array) - 1)], array.type)
    return {
        "whole": pa.table({"a": array}),
        "sliced": pa.table({"a": sliced}),
        "sliced table": pa.table({"a": around}).slice(len(array), len(array)),
        "chunked": pa.table({"a": chunks}),
    }


@pytest.mark.parametrize(("array", "cells"), SCALARS, ids=[str(array.type) for array, _ in SCALARS])
def test_a_column_of_scalars(array: pa.Array, cells: list[Any]) -> None:
    expected = [{} if cell is None else {"a": (cell,)} for cell in cells]
    for form, table in forms(array).items():
        found = read(table, "a")
        assert found == expected, form
        assert repr(found) == repr(expected), form  # 1 is not 1.0 and not True


@pytest.mark.parametrize(("array", "cells"), LISTS, ids=[str(array.type) for array, _ in LISTS])
def test_a_column_of_lists(array: pa.Array, cells: list[Any]) -> None:
    expected = [{} if cell is MISSING else {"a": cell} for cell in cells]
    for form, table in forms(array).items():
        assert read(table, "a") == expected, form


def test_a_struct_is_an_object_and_its_null_fields_are_missing() -> None:
    array = values_of(PAIR, {"x": 1, "y": "b"}, None, {"x": None, "y": ""}, {"x": None, "y": None})
    for form, table in forms(array).items():
        found = read(table, "a.x", "a.y")
        assert found == [{"a.x": (1,), "a.y": ("b",)}, {}, {"a.y": ("",)}, {}], form


def test_the_fields_of_a_null_struct_are_missing_whatever_lies_under_them() -> None:
    array = pa.StructArray.from_arrays([pa.array([1, 2])], ["x"], mask=pa.array([False, True]))
    assert read(pa.table({"a": array}), "a.x") == [{"a.x": (1,)}, {}]


def test_a_map_is_an_object_and_its_nulls_are_values() -> None:
    array = values_of(pa.map_(pa.string(), INTS), [("k", 1), ("m", None)], None, [], [("k", 3)])
    for form, table in forms(array).items():
        assert read(table, "a.k", "a.m") == [{"a.k": (1,), "a.m": (None,)}, {}, {}, {"a.k": (3,)}], form


def test_a_map_of_structs_and_lists_is_read_to_the_bottom() -> None:
    array = values_of(pa.map_(pa.string(), pa.list_(PAIR)), [("k", [{"x": 1, "y": None}, None])])
    assert read(pa.table({"a": array}), "a.k.x") == [{"a.k.x": (1,), "a.k": (None,)}]


def test_a_map_with_other_keys_than_text_is_refused() -> None:
    with pytest.raises(EventError, match=r"a text as key, but got int 1 - at event 0: a"):
        read(pa.table({"a": values_of(pa.map_(INTS, INTS), [(1, 1)])}), "a.k")


@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list, pa.list_view, lambda kind: pa.list_(kind, 2)])
def test_a_list_of_structs_is_an_array_of_objects(list_of: Any) -> None:
    array = values_of(list_of(PAIR), [{"x": 1, "y": "a"}, {"x": 2, "y": None}], None, [{"x": 3, "y": "c"}, None])
    items = [{"a": [{"x": 1, "y": "a"}, {"x": 2}]}, {}, {"a": [{"x": 3, "y": "c"}, None]}]
    for form, table in forms(array).items():
        for found, item in zip(read_events(table, ["a", "a.x", "a.y"]), items, strict=True):
            assert_same(found, Event(item), form)


def assert_same(found: Event, expected: Event, note: object = "") -> None:
    assert set(found.attributes) == set(expected.attributes), note
    for name in expected.attributes:
        assert set(found.keys(name)) == set(expected.keys(name)), note
        assert set(found.occurrences(name)) == set(expected.occurrences(name)), note


scalars = st.one_of(
    st.none(), st.integers(-3, 3), st.sampled_from([2**53 + 1, -(2**63)]), st.just(None), st.integers(0, 1)
)
floats = st.one_of(st.none(), st.sampled_from([0.5, NAN, -0.0, INF, 1e300]))
texts = st.one_of(st.none(), st.sampled_from(STRINGS))
moments = st.one_of(st.none(), st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)))
inner = st.fixed_dictionaries({}, optional={"x": scalars, "y": st.one_of(st.none(), st.lists(texts, max_size=2))})
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("t", pa.string()),
        ("at", pa.timestamp("us")),
        ("l", pa.list_(pa.list_(pa.float64()))),
        ("s", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])),
        ("d", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]))),
    ]
)
rows = st.fixed_dictionaries(
    {},
    optional={
        "i": scalars,
        "f": floats,
        "t": texts,
        "at": moments,
        "l": st.one_of(st.none(), st.lists(st.one_of(st.none(), st.lists(floats, max_size=2)), max_size=3)),
        "s": st.one_of(st.none(), inner),
        "d": st.one_of(st.none(), st.lists(st.one_of(st.none(), inner), max_size=3)),
    },
)
LEAVES = ["i", "f", "t", "at", "l", "s.x", "s.y", "d", "d.x", "d.y"]


def without_nulls(item: Any) -> Any:
    """The object whose cells are these: a null or NaN cell is left out, one inside a list stays."""
    if isinstance(item, dict):
        cells = {key: without_nulls(value) for key, value in item.items()}
        return {key: cell for key, cell in cells.items() if cell is not None}
    if isinstance(item, list):
        return [without_nulls(member) for member in item]
    return None if isinstance(item, float) and math.isnan(item) else item


@given(st.lists(rows, min_size=1, max_size=6), st.integers(0, 5), st.integers(1, 6))
def test_a_table_gives_the_events_of_the_equivalent_objects(
    items: list[dict[str, Any]], start: int, length: int
) -> None:
    start %= len(items)
    table = pa.Table.from_pylist(items, SCHEMA).slice(start, length)
    expected = [Event(without_nulls(item)) for item in items[start : start + length]]
    for found, event in zip(read_events(table, LEAVES), expected, strict=True):
        assert_same(found, event)


def test_only_the_columns_that_are_mentioned_are_read() -> None:
    table = pa.table({"a": [1], "b": [2], "d": [{"x": 3, "y": 4}], "a.b": [5]})
    assert read(table, "a") == [{"a": (1,)}]
    assert read(table, "d.x") == [{"d.x": (3,)}]
    assert read(table, "a.b") == [{"a.b": (5,)}]
    assert read(table, "c") == [{}]
    assert read(table) == [{}]


def test_a_mentioned_object_is_read_whole() -> None:
    table = pa.table({"d": [{"x": 3, "e": {"y": 4}}]})
    assert read(table, "d") == [{"d.x": (3,), "d.e.y": (4,)}]


def test_needed_columns_hold_a_mentioned_attribute_or_a_part_of_one() -> None:
    names = ["a", "d", "d.e", "d.e.x", "dx", "e", ""]
    assert needed_columns(names, ["d.e.x", "a"]) == ["a", "d", "d.e", "d.e.x"]
    assert needed_columns(names, [".x"]) == [""]
    assert needed_columns(names, []) == []


def test_a_table_without_mentioned_columns_has_as_many_events() -> None:
    assert read(pa.table({"a": [1, 2, 3]}), "b") == [{}, {}, {}]
    assert read(pa.table({"a": pa.array([], pa.int64())}), "a") == []
    assert read(pa.table({"a": pa.chunked_array([], pa.int64())}), "a") == []


def test_dotted_and_nested_columns_are_one_attribute() -> None:
    table = pa.table({"d.x": [1], "d": [{"x": 2}]})
    assert read(table, "d.x") == [{"d.x": (1, 2)}]


def test_columns_of_the_same_name_unite() -> None:
    table = pa.table([pa.array([1, None]), pa.array(["x", "y"])], names=["a", "a"])
    assert read(table, "a") == [{"a": (1, "x")}, {"a": ("y",)}]
    objects = pa.table([pa.array([{"x": 1}]), pa.array([{"y": 2}])], names=["d", "d"])
    (event,) = read_events(objects, ["d.x", "d.y"])
    assert not event.has_elements
    assert Filter.parse("d.x = 1 AND d.y = 2").matches(event)


def test_fields_of_the_same_name_unite() -> None:
    array = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    assert read(pa.table({"d": array}), "d.x") == [{"d.x": (1, 2)}]


UNSUPPORTED = [
    pa.array([b"x", None]),
    pa.array([b"x"], pa.large_binary()),
    pa.array([b"x"], pa.binary_view()),
    pa.array([b"xy"], pa.binary(2)),
    pa.array([1], pa.time32("s")),
    pa.array([1], pa.time64("ns")),
    pa.array([1], pa.duration("us")),
    pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], INTS), [pa.array([1])]),
    pa.array([b"x"]).dictionary_encode(),
    pa.array([b"0123456789abcdef"], pa.uuid()),
]


@pytest.mark.parametrize("array", UNSUPPORTED, ids=lambda array: str(array.type))
def test_a_type_without_values_is_refused_only_where_it_is_mentioned(array: pa.Array) -> None:
    rest = pa.array([1] * len(array))
    table = pa.table({"a": array, "b": rest})
    with pytest.raises(EventError, match="a column of booleans, numbers, text, timestamps, lists, structs or maps"):
        read(table, "a")
    assert read(table, "b", "a.x") == [{"b": (1,)}] * len(array)


@pytest.mark.parametrize("array", UNSUPPORTED, ids=lambda array: str(array.type))
def test_a_type_without_values_inside_others_is_refused_only_where_it_is_mentioned(array: pa.Array) -> None:
    one = array.slice(0, 1)
    struct = pa.StructArray.from_arrays([one, pa.array([1])], ["bad", "good"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1], INTS), struct)
    for column in (struct, lists):
        table = pa.table({"d": column})
        assert read(table, "d.good") == read(table, "d") == [{"d.good": (1,)}]
        with pytest.raises(EventError) as caught:
            read(table, "d.good", "d.bad")
        assert caught.value.path == "d.bad"
    members = pa.table({"d": pa.ListArray.from_arrays(pa.array([0, 1], INTS), one)})
    assert read(members, "d.x") == [{"d": (None,)}]
    with pytest.raises(EventError):
        read(members, "d")


def test_a_map_of_a_type_without_values_is_refused_where_a_key_is_mentioned() -> None:
    table = pa.table({"d": values_of(pa.map_(pa.string(), pa.binary()), [("k", b"x")])})
    assert read(table, "b") == [{}]
    with pytest.raises(EventError, match="binary - at d"):
        read(table, "d.k")


def test_text_that_is_no_utf_8_is_refused() -> None:
    buffers = [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    table = pa.table({"a": pa.Array.from_buffers(pa.string(), 1, buffers)})
    with pytest.raises(EventError, match=r"Expected text in UTF-8, but got b'\\xff' - at a"):
        read(table, "a")


def test_text_is_read_as_timestamps_where_asked() -> None:
    table = pa.table({"a": ["1970-01-01T00:00:01Z", None], "b": ["1970-01-01", "x"]})
    assert read(table, "a", "b", timestamps=("a",)) == [{"a": (T(SECOND),), "b": ("1970-01-01",)}, {"b": ("x",)}]


@pytest.mark.parametrize("shape", ["objects", "table"])
def test_an_error_says_which_event_it_is_in(shape: str) -> None:
    items = [{"a": "1970-01-01"}] * 5_000 + [{"a": "soon"}]
    events = items if shape == "objects" else pa.Table.from_pylist(items)
    with pytest.raises(EventError, match=r"Expected a timestamp, but got 'soon' - at event 5000: a") as caught:
        read(events, "a", timestamps=("a",))
    assert (caught.value.path, caught.value.row) == ("a", 5_000)


@pytest.mark.parametrize("shape", ["objects", "table"])
def test_a_limit_says_which_event_it_is_in(shape: str) -> None:
    items = [{"a": [1]}, {"a": [1] * 100_001}]
    events = items if shape == "objects" else pa.Table.from_pylist(items)
    with pytest.raises(LimitExceeded, match=r"\(limit: event values\) - at event 1: a"):
        read(events, "a")


def test_a_slice_of_a_long_column_of_lists_reads_only_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    from whimbrel.model import event_tables as events

    seen: list[int] = []
    real = events._scalar_cells
    monkeypatch.setattr(events, "_scalar_cells", lambda array, name: seen.append(len(array)) or real(array, name))
    table = pa.table({"a": [[1, 2]] * 10_000})
    assert len(read(table, "a")) == 10_000
    assert sum(seen) == 20_000


COLUMNS = [array for array, _ in SCALARS + LISTS]


@pytest.mark.parametrize("array", COLUMNS, ids=[str(array.type) for array in COLUMNS])
def test_a_batch_matches_what_its_events_match(array: pa.Array) -> None:
    naive = make("naive")
    for text in ("a IS NULL", "a IS MISSING", "a CONTAINS NULL", "a > 0", "a != 1", "a >= ''", "a = TRUE"):
        naive.add(text, text)
    naive.add("at", "a <= TIMESTAMP '1970-01-01'")
    for form, table in forms(array).items():
        found = naive.match_batch(table)
        pairs = set(zip(found.column("event").to_pylist(), found.column("subscription").to_pylist(), strict=True))
        events = list(read_events(table, ["a"]))
        assert pairs == {(row, id) for row, event in enumerate(events) for id in naive.match(event)}, form


def test_two_columns_of_a_frame_with_one_name_unite() -> None:
    frame = pd.DataFrame([[1, 2.5, "x"]], columns=["a", "a", "b"])
    (event,) = read_events(frame, ["a", "b"])
    assert (event.values("a"), event.values("b")) == ((1, 2.5), ("x",))


def test_a_null_element_of_a_list_of_structs_is_a_null_of_the_array_itself() -> None:
    rows = pa.array([[None, {"x": 1}], [None]], pa.list_(pa.struct([("x", pa.int64())])))
    first, second = read_events(pa.table({"d": rows}), ["d", "d.x"])
    assert (first.values("d"), first.values("d.x")) == ((None,), (1,))
    assert (second.values("d"), second.values("d.x")) == ((None,), ())
