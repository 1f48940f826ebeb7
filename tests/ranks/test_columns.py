"""Tables through the encoder: every Arrow type, against the plain reader of events and the definition of ranks."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as ws
from tests.ranks.reference import FLOATS, Ranks, constants, entries, make, same
from whimbrel.model.errors import EventError
from whimbrel.model.event_tables import read_events
from whimbrel.model.values import Timestamp

COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 0, 5, 127]),
    (pa.int16(), [-1, 0, 3, 2**15 - 1]),
    (pa.int32(), [-(2**31), 0, 1, 2**31 - 1]),
    (pa.int64(), [-(2**63), -(2**53) - 1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1]),
    (pa.uint8(), [0, 1, 255]),
    (pa.uint16(), [0, 1, 2**16 - 1]),
    (pa.uint32(), [0, 1, 2**32 - 1]),
    (pa.uint64(), [0, 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2048, 2**64 - 1]),
    (pa.float16(), [np.float16(x) for x in (0.0, -0.0, 0.5, 65504, math.inf, math.nan)]),
    (pa.float32(), [0.0, -0.0, 0.5, 1e30, math.inf, -math.inf, math.nan]),
    (pa.float64(), [*FLOATS, math.nan, -0.0, 5.000001]),
    (pa.bool_(), [True, False]),
    (pa.string(), ws.STRINGS),
    (pa.large_string(), ws.STRINGS),
    (pa.string_view(), ws.STRINGS),
    (pa.dictionary(pa.int8(), pa.string()), ws.STRINGS),
    (pa.dictionary(pa.int32(), pa.large_string()), ws.STRINGS),
    (pa.dictionary(pa.int16(), pa.int64()), [0, 1, 5, 2**53 + 1]),
    (pa.run_end_encoded(pa.int32(), pa.int64()), [0, 1, 5]),
    (pa.decimal128(10, 2), [Decimal("0.10"), Decimal("123.45"), Decimal("-1.00")]),
    (
        pa.decimal128(38, 20),
        [Decimal("0.1"), Decimal("0." + "3" * 20), Decimal("123.45"), Decimal("1234567.12345678901234567891")],
    ),
    (pa.decimal128(5, -3), [Decimal(1000), Decimal(5000)]),
    (pa.decimal128(38, 18), [Decimal("0.1"), Decimal("12.5"), Decimal("123.45"), Decimal(10**15)]),
    (pa.decimal256(60, 20), [Decimal("0.1"), Decimal("123.45")]),
    (pa.timestamp("s"), [datetime(2026, 1, 31, 12), datetime(9999, 12, 31), datetime(1, 1, 1)]),
    (pa.timestamp("ms", "UTC"), [datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, 12, tzinfo=UTC)]),
    (pa.timestamp("us", "Europe/Oslo"), [datetime(2026, 1, 31, 12, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)]),
    (pa.timestamp("ns"), [-1, 0, 1, 2, 2**63 - 1]),
    (pa.date32(), [date(1970, 1, 1), date(2026, 1, 31), date(9999, 12, 31), date(1, 1, 1)]),
    (pa.date64(), [date(1970, 1, 1), date(2026, 1, 31)]),
    (pa.null(), [None]),
]


def arrays_of(kind: pa.DataType, cells: list[Any]) -> pa.Array:
    if pa.types.is_run_end_encoded(kind):
        ends = np.arange(1, len(cells) + 1, dtype=np.int32)
        return pa.RunEndEncodedArray.from_arrays(ends, pa.array(cells, kind.value_type))
    if pa.types.is_dictionary(kind):
        return pa.array(cells, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(cells, kind)


def views(array: pa.ListArray) -> pa.ListViewArray:
    offsets = np.asarray(array.offsets)
    mask = array.is_null() if array.null_count else None
    return pa.ListViewArray.from_arrays(offsets[:-1], np.diff(offsets), array.values, mask=mask)


@st.composite
def columns(draw: st.DrawFn) -> pa.ChunkedArray:
    """A column of any flat type or a list of one: with nulls, sliced out of larger chunks."""
    kind, pool = draw(st.sampled_from(COLUMNS))
    cell = st.one_of(st.none(), st.sampled_from(pool)) if draw(st.booleans()) else st.sampled_from(pool)
    wrap = draw(st.sampled_from(["flat", "flat", "list", "large", "fixed", "view"]))
    if pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind):
        wrap = "flat"

    def chunk() -> pa.Array:
        size = draw(st.integers(0, 12))
        if wrap == "flat":
            array = arrays_of(kind, draw(st.lists(cell, min_size=size, max_size=size)))
        else:
            width = (2, 2) if wrap == "fixed" else (0, 3)
            member = st.one_of(st.none(), st.lists(cell, min_size=width[0], max_size=width[1]))
            types = {"list": pa.list_(kind), "large": pa.large_list(kind), "fixed": pa.list_(kind, 2)}
            cells = draw(st.lists(member, min_size=size, max_size=size))
            array = pa.array(cells, types.get(wrap, pa.list_(kind)))
            if wrap == "view":
                array = views(array)
        start = draw(st.integers(0, size))
        return array.slice(start, draw(st.integers(0, size - start)))

    chunks = [chunk() for _ in range(draw(st.integers(1, 3)))]
    return pa.chunked_array(chunks, chunks[0].type)


@given(st.data())
def test_tables_and_events_have_the_same_ranks(data: st.DataObject) -> None:
    named = {"a": data.draw(constants), "b.x": data.draw(constants), "c": {}}
    encoder = make(named, data.draw(st.sampled_from([[], ["a", "b.x"]])))
    shape: list[pa.ChunkedArray] = [data.draw(columns()) for _ in range(3)]
    rows = min(len(column) for column in shape)
    two, three = (column.slice(0, rows).combine_chunks() for column in shape[1:])
    parents = [data.draw(st.booleans()) for _ in range(rows)]
    struct = pa.StructArray.from_arrays([two, three], ["x", "other"], mask=pa.array(parents, pa.bool_()))
    choices = {"a": shape[0].slice(0, rows), "b": struct, "b.x": three, "stranger": two}
    names = data.draw(st.lists(st.sampled_from(list(choices)), min_size=1, max_size=5))
    table = pa.Table.from_arrays([choices[name] for name in names], names)
    events = list(read_events(table, list(named)))
    encoded = encoder.encode_table(table)
    assert same(encoded, encoder.encode_events(events))
    for row, event in enumerate(events):
        found: dict[int, set[int]] = {}
        for attr, (name, own) in enumerate(named.items()):
            ordered = bool(encoder._lookup(attr).ordered)
            if event.keys(name):
                found[attr] = {Ranks(own, ordered).of(key) for key in event.keys(name)}
        assert entries(encoded)[row] == found
    start = data.draw(st.integers(0, rows))
    batches = table.slice(start).combine_chunks().to_batches()
    if batches:
        assert entries(encoder.encode_table(batches[0])) == entries(encoded)[start:]


def test_nested_and_odd_arrow_types_are_read() -> None:
    encoder = make({"a": {"numbers": [1]}, "s.x": {"numbers": [1, 2]}})
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, None], pa.int8()))
    twice = pa.StructArray.from_arrays([pa.array([1, None, 2]), pa.array([2, 2, None])], ["x", "x"])
    coded = pa.DictionaryArray.from_arrays([1, None, 0], pa.array([{"x": 1}, {"x": 2}]))
    for table in (
        pa.table({"a": flags, "s": twice}),
        pa.table({"s": coded}),
        pa.table({"s": pa.array([{"x": [1, None]}])}),
    ):
        expected = encoder.encode_events(list(read_events(table, ["a", "s.x"])))
        assert same(encoder.encode_table(table), expected)


def test_columns_of_other_types_are_refused_only_where_an_attribute_lies() -> None:
    table = pa.table({"a": pa.array([1]), "b": pa.array([b"x"]), "s": pa.array([{"x": 1, "y": b"y"}])})
    assert entries(make({"a": {}, "s.x": {}}).encode_table(table)) == [{0: {6}, 1: {6}}]
    assert entries(make({"b.c": {}}).encode_table(table)) == [{}]
    for name in ("b", "s.y"):
        with pytest.raises(EventError, match="a column of booleans"):
            make({name: {}}).encode_table(table)
    with pytest.raises(EventError, match="a column of booleans"):
        make({"a": {}}).encode_table(pa.table({"a": pa.array([[b"x"]])}))


def test_texts_that_are_not_utf8_are_refused() -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xff")]
    )
    with pytest.raises(EventError, match="text in UTF-8"):
        make({"a": {"strings": ["x"]}}).encode_table(pa.table({"a": broken}))


def test_buffers_at_odd_addresses_are_read() -> None:
    data = b"x" + np.arange(4).tobytes()
    array = pa.Array.from_buffers(pa.int64(), 4, [None, pa.py_buffer(data).slice(1)])
    assert make({"a": {"numbers": [1, 2]}}).encode_table(pa.table({"a": array})).ranks.tolist() == [6, 7, 9, 10]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_texts_of_timestamps_are_parsed(kind: pa.DataType) -> None:
    texts = [
        *("2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31 12:00:00.5", "2024-02-29T23:59:59.123456789Z", None),
        *(
            "1969-12-31T23:59:59Z",
            "0001-01-01",
            "9999-12-31T00:00:00Z",
            "2026-01-31T12:00+01:00",
            "2026-01-31T12:00:00,25z",
        ),
        *(
            "1677-09-21T00:12:43.145224193Z",
            "2262-04-11T23:47:16.854775807Z",
            "2000-02-29",
            "1900-02-28T00:00:00 +0530",
        ),
    ]
    times = [Timestamp.parse(text).nanoseconds for text in texts if text is not None]
    for own in (times, times[::2], times[:3]):
        encoder = make({"t": {"times": own}, "u": {"times": own}})
        table = pa.table({"t": pa.array(texts, pa.string()).cast(kind), "u": pa.array([[t, None] for t in texts])})
        expected = encoder.encode_events(list(read_events(table, ["t", "u"], ["t", "u"])))
        assert same(encoder.encode_table(table, ["t", "u"]), expected)


@pytest.mark.parametrize(
    "text",
    [
        *("", "2026", "2026-02-29", "1900-02-29", "2026-13-01", "2026-00-01", "2026-01-00", "2026-04-31"),
        *("2026-01-31T24:00:00", "2026-01-31T12:60:00", "2026-01-31T12:00:60", "2026-01-31T12:00:00.", "2026/01/31"),
        *(
            "2026-01-31T12:00:00.1234567890Z",
            "2026-01-31T12:00:00ZZ",
            "2026-01-3１",
            "2026-01-31X12:00:00",
            "2026-01-31T1:00:00Z",
        ),
        *("2026-01-31T12-00:00", "2026-01-31T12:00-24", "+026-01-31", "2026-01-31T12:00:0Z", "2026-01-31T12:00:00.12a"),
    ],
)
def test_a_text_that_is_no_timestamp_is_refused_by_row_and_column(text: str) -> None:
    encoder = make({"t": {"times": [0]}})
    with pytest.raises(ValueError, match="Expected a timestamp"):
        Timestamp.parse(text)
    with pytest.raises(EventError, match="event 2: t"):
        encoder.encode_table(pa.table({"t": [None, "2026-01-31", text]}), ["t"])
    with pytest.raises(EventError, match="event 1: t"):
        encoder.encode_table(pa.table({"t": [["2026-01-31"], ["2026-01-31", text]]}), ["t"])
    with pytest.raises(EventError, match="- at t"):
        encoder.encode_event({"t": text}, ["t"])
    encoder = make({"o.t": {"times": [0]}})
    with pytest.raises(EventError, match=r"event 1: o\.t"):
        encoder.encode_table(pa.table({"o": [[], [{"t": None}, {"t": text}]]}), ["o.t"])
    with pytest.raises(EventError, match=r"event 0: o\.t"):
        encoder.encode_table(pa.table({"o": pa.array([[("t", text)]], pa.map_(pa.string(), pa.string()))}), ["o.t"])


def test_threads_share_a_codec() -> None:
    values = np.random.default_rng(3).random(20_000)
    encoder = make({f"c{i}": {"numbers": values, "strings": [str(x) for x in range(100)]} for i in range(8)})
    table = pa.table(
        {f"c{i}": values for i in range(4)} | {f"c{i}": [str(x % 150) for x in range(20_000)] for i in range(4, 8)}
    )
    slices = [table.slice(start, 1_000) for start in range(0, 20_000, 1_000)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(encoder.encode_table, slices))
    whole = encoder.encode_table(table)
    assert np.concatenate([one.ranks for one in found]).tolist() == whole.ranks.tolist()


def test_empty_tables_and_unknown_attributes_have_no_entries() -> None:
    encoder = make({"a": {"numbers": [1]}, "l": {}, "s.x": {}})
    empty = pa.schema(
        [("a", pa.int64()), ("l", pa.list_(pa.string())), ("s", pa.struct([("x", pa.string())]))]
    ).empty_table()
    for table in (
        empty,
        pa.table({}),
        pa.table({"z": [1, 2]}),
        empty.slice(0, 0),
        pa.table({"a": pa.chunked_array([], pa.int8())}),
    ):
        assert entries(encoder.encode_table(table)) == [{}] * table.num_rows
    assert entries(encoder.encode_events([])) == []
    assert entries(encoder.encode_event({})) == [{}]
    assert entries(make({}).encode_table(pa.table({"z": [1, 2]}))) == [{}, {}]


def test_nulls_and_empty_texts_at_every_place_of_a_bitmap() -> None:
    encoder = make({"s": {"strings": ["", "a", "longer than a word"]}, "t": {"strings": ["a"]}}, ordered=["t"])
    values = [[None, "", "a", "b", "longer than a word", "longer than a wore"][n * n % 6] for n in range(300)]
    table = pa.table({"s": pa.array(values), "t": pa.array(values)})
    for first, count in ((0, 300), (1, 200), (7, 9), (8, 64), (13, 3), (291, 9), (3, 0)):
        part = table.slice(first, count)
        assert same(encoder.encode_table(part), encoder.encode_events(list(read_events(part, {"s", "t"}, ()))))
