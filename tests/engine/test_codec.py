"""The codec against the definition of ranks, and its three lanes against each other."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as ws
from whimbrel.engine.codec import (
    Codec,
    Encoded,
    build_dictionary,
    ranks_of_numbers,
    ranks_of_strings,
    ranks_of_times,
)
from whimbrel.engine.lookup import LISTED
from whimbrel.matchers.events import read_events
from whimbrel.model.constraint import NULL_KEY
from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.model.event import Event
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP, SortKey, Timestamp, canonical_number, sort_key, to_value

NUMBERS = [canonical_number(n) for n in ws.NUMBERS] + [2**64 - 1, 2**64 - 2048, -(2**63), 65504, 0.1, 1 / 3, 123.45]
FLOATS = [float(n) for n in NUMBERS if abs(n) < 10**300 or isinstance(n, float)]
INT64 = [n for n in (*NUMBERS, 2**62, -(2**62), 10**15) if isinstance(n, int) and -(2**63) <= n < 2**63]
TIMES = [t.nanoseconds for t in ws.TIMESTAMPS] + [2**63 - 1, -(2**63), 86_400 * 10**9]

Constants = dict[str, Any]


def expected_rank(own: Constants, key: SortKey, ordered: bool) -> int:
    """The definition: blocks of types, and 2 * (constants below) + (equal)."""
    if key == NULL_KEY:
        return 0
    blocks = [
        [False, True],
        sorted(set(own.get("numbers", []))),
        sorted(set(own.get("strings", []))),
        sorted(set(own.get("times", []))),
    ]
    kind, value = key
    base = 1 + sum(2 * len(block) + 1 for block in blocks[:kind])
    below = bisect_left(blocks[kind], value)  # type: ignore[arg-type]
    if value in blocks[kind]:
        return base + 2 * below + 1
    return base + (2 * below if ordered or kind != STRING else 0)


def lists(pool: Sequence[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(pool), max_size=8)


number_lists = st.one_of(
    lists(NUMBERS), lists(FLOATS), lists(INT64), lists([0, 1, 2, 3, 7]), st.lists(st.floats(allow_nan=False))
).map(lambda found: [canonical_number(n) for n in found])
constants = st.fixed_dictionaries(
    {}, optional={"numbers": number_lists, "strings": lists(ws.STRINGS), "times": lists(TIMES)}
)


def make(named: dict[str, Constants], ordered: Sequence[str] = ()) -> Codec:
    names = list(named)
    arrays, meta = build_dictionary(dict(enumerate(named.values())), names, [names.index(name) for name in ordered])
    for array in arrays.values():
        array.flags.writeable = False  # as a memory map is
    return Codec(arrays, meta)


def entries(encoded: Encoded) -> list[dict[int, set[int]]]:
    """Per event the set of ranks of each attribute; checks what the layout promises."""
    assert encoded.offsets.dtype == np.int64 and encoded.attrs.dtype == encoded.ranks.dtype == np.int32
    assert encoded.coupled.dtype == np.uint8 and len(encoded.coupled) == encoded.count
    assert len(encoded.offsets) == encoded.count + 1 and encoded.offsets[0] == 0
    assert encoded.offsets[-1] == len(encoded.attrs) == len(encoded.ranks)
    out = []
    for start, end in pairwise(encoded.offsets):
        attrs = encoded.attrs[start:end].tolist()
        found: dict[int, set[int]] = {}
        for at, (attr, rank) in enumerate(zip(attrs, encoded.ranks[start:end].tolist(), strict=True)):
            assert attr not in found or attrs[at - 1] == attr, "entries of one attribute are adjacent"
            found.setdefault(attr, set()).add(rank)
        out.append(found)
    return out


def same(one: Encoded, two: Encoded) -> bool:
    return entries(one) == entries(two) and one.coupled.tolist() == two.coupled.tolist()


@given(constants, st.booleans(), ws.values)
def test_rank_counts_the_constants_below(own: Constants, ordered: bool, value: Any) -> None:
    codec = make({"a": own}, ["a"] if ordered else [])
    key = sort_key(to_value(value))  # type: ignore[arg-type]
    assert codec.rank(0, key) == expected_rank(own, key, ordered)
    assert codec.rank(0, NULL_KEY) == 0


@given(constants)
def test_value_is_the_inverse_of_rank(own: Constants) -> None:
    codec = make({"a": own})
    keys: list[SortKey] = [(0, False), (0, True)]
    for kind, name in ((NUMBER, "numbers"), (STRING, "strings"), (TIMESTAMP, "times")):
        keys += [(kind, value) for value in sorted(set(own.get(name, [])))]
    ranks = [codec.rank(0, key) for key in keys]
    assert ranks == sorted(set(ranks))
    assert [codec.value(0, rank) for rank in ranks] == keys
    gaps = set(range(-1, max(ranks) + 4)) - set(ranks)
    assert all(codec.value(0, rank) is None for rank in gaps)


@given(constants)
def test_ranks_of_constants_are_found_in_bulk(own: Constants) -> None:
    arrays, meta = build_dictionary({1: own}, ["other", "a"], [])
    codec = Codec(arrays, meta)
    numbers, strings, times = (own.get(name, []) for name in ("numbers", "strings", "times"))
    if numbers:
        expected = [codec.rank(1, (NUMBER, n)) for n in numbers]
        assert ranks_of_numbers(arrays, meta, 1, numbers).tolist() == expected
    if strings:
        expected = [codec.rank(1, (STRING, s)) for s in strings]
        assert ranks_of_strings(arrays, meta, 1, strings).tolist() == expected
        assert ranks_of_strings(arrays, meta, 1, pa.chunked_array([strings, strings])).tolist() == expected * 2
    if times:
        assert ranks_of_times(arrays, meta, 1, times).tolist() == [codec.rank(1, (TIMESTAMP, t)) for t in times]


def test_ranks_of_values_that_are_no_constants_are_refused() -> None:
    arrays, meta = build_dictionary({0: {"numbers": [1, 2], "strings": ["x"]}}, ["a"], [])
    with pytest.raises(ValueError, match="constants of attribute 'a'"):
        ranks_of_numbers(arrays, meta, 0, [1, 3])
    with pytest.raises(ValueError, match="constants of attribute 'a'"):
        ranks_of_strings(arrays, meta, 0, ["y"])
    with pytest.raises(ValueError, match="constants of attribute 'a'"):
        ranks_of_times(arrays, meta, 0, [1])


def test_large_integers_beside_fractions_are_kept_exactly() -> None:
    arrays, meta = build_dictionary({0: {"numbers": [2**53 + 1, 0.5, 10**30 + 1]}}, ["a"], [])
    assert arrays["number_kind"].tolist() == [3]
    assert meta["exact_numbers"] == {"0": ["0.5", str(2**53 + 1), str(10**30 + 1)]}
    codec = Codec(arrays, meta)
    values = [0.5, 2**53, 2**53 + 1, float(2**53 + 2), 10**30, 10**30 + 1, 1e30, math.inf]
    assert [codec.rank(0, (NUMBER, v)) - 6 for v in values] == [1, 2, 3, 4, 4, 5, 6, 6]
    assert ranks_of_numbers(arrays, meta, 0, [10**30 + 1, 0.5]).tolist() == [11, 7]


def test_the_kind_of_numbers_is_the_simplest_that_is_exact() -> None:
    sets = [[1, 2], np.array([1.0, 2.0]), [1, 2.5], [2**53 + 1, 0.5], [2**63, 1], [1, 2**60, 4.0], np.array([1.5]), []]
    arrays, _ = build_dictionary({i: {"numbers": s} for i, s in enumerate(sets)}, list("abcdefgh"), [])
    assert arrays["number_kind"].tolist() == [1, 1, 2, 3, 2, 1, 2, 0]


@given(st.lists(st.text(alphabet="ab\0é\U0001f600", max_size=24), max_size=300), st.integers(0, 20))
def test_strings_are_sorted_and_distinct(texts: list[str], prefix: int) -> None:
    texts = ["x" * prefix + text for text in texts]
    arrays, _ = build_dictionary({0: {"strings": pa.array(texts, pa.string())}}, ["a"], [])
    offsets, data = arrays["string_offset"].tolist(), arrays["string_bytes"].tobytes()
    assert [data[s:e].decode() for s, e in pairwise(offsets)] == sorted(set(texts))


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
    codec = make(named, data.draw(st.sampled_from([[], ["a", "b.x"]])))
    shape: list[pa.ChunkedArray] = [data.draw(columns()) for _ in range(3)]
    rows = min(len(column) for column in shape)
    two, three = (column.slice(0, rows).combine_chunks() for column in shape[1:])
    parents = [data.draw(st.booleans()) for _ in range(rows)]
    struct = pa.StructArray.from_arrays([two, three], ["x", "other"], mask=pa.array(parents, pa.bool_()))
    choices = {"a": shape[0].slice(0, rows), "b": struct, "b.x": three, "stranger": two}
    names = data.draw(st.lists(st.sampled_from(list(choices)), min_size=1, max_size=5))
    table = pa.Table.from_arrays([choices[name] for name in names], names)
    events = list(read_events(table, list(named)))
    encoded = codec.encode_table(table)
    assert same(encoded, codec.encode_events(events))
    for row, event in enumerate(events):
        found: dict[int, set[int]] = {}
        for attr, (name, own) in enumerate(named.items()):
            ordered = bool(codec._lookup(attr).ordered)
            if event.keys(name):
                found[attr] = {expected_rank(own, key, ordered) for key in event.keys(name)}
        assert entries(encoded)[row] == found
    start = data.draw(st.integers(0, rows))
    batches = table.slice(start).combine_chunks().to_batches()
    if batches:
        assert entries(codec.encode_table(batches[0])) == entries(encoded)[start:]


@given(st.lists(ws.events(), max_size=4), st.data())
def test_objects_and_events_have_the_same_ranks(objects: list[dict[str, Any]], data: st.DataObject) -> None:
    named = {name: data.draw(constants) for name in ("a", "b", "d.x", "d.e.x")}
    codec = make(named, ["b"])
    events = [Event(event) for event in objects]
    encoded = codec.encode_events(events)
    assert same(codec.encode_events(objects), encoded)
    for event, coupled, found in zip(objects, encoded.coupled, entries(encoded), strict=True):
        single = codec.encode_event(event)
        assert entries(single) == [found] and single.coupled.tolist() == [coupled]
        for attr, (name, own) in enumerate(named.items()):
            keys = Event(event).keys(name)
            assert found.get(attr, set()) == {expected_rank(own, key, name == "b") for key in keys}


scalars = st.one_of(ws.scalars, st.integers(), st.floats(), st.text(max_size=3), st.just("\ud800"), st.just(10**1000))
odd_scalars = st.sampled_from(
    [Decimal("0.5"), np.float32(0.5), np.int64(3), np.str_("a"), date(2026, 1, 31), datetime(2026, 1, 31, 12), b"x", 1j]
)


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "stranger", "\ud800", "t"]), st.one_of(scalars, odd_scalars), max_size=4
    ),
    constants,
    st.sampled_from([(), ("t",), ["a", "t"]]),
)
def test_flat_objects_are_checked_as_events_are(
    event: dict[str, Any], own: Constants, timestamps: Sequence[str]
) -> None:
    codec = make({"a": own, "b": own, "t": own}, ["a"])
    results = []
    for encode in (lambda: codec.encode_event(Event(event, timestamps)), lambda: codec.encode_event(event, timestamps)):
        try:
            results.append(str(entries(encode())))
        except (EventError, LimitExceeded) as error:
            results.append(str(error))
    assert results[0] == results[1]


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(EventError, match="a text as key"):
        make({"a": {}}).encode_event({1: 2})  # type: ignore[dict-item]
    with pytest.raises(EventError, match="an object"):
        make({"a": {}}).encode_event([1])  # type: ignore[arg-type]
    with pytest.raises(EventError, match="event 1: "):
        make({"a": {}}).encode_events([{}, {1: 2}])  # type: ignore[dict-item]


def test_too_many_values_are_refused_in_every_lane() -> None:
    codec = make({"a": {}})
    with pytest.raises(LimitExceeded):
        codec.encode_event({"a": [1] * 100_001})
    with pytest.raises(LimitExceeded):
        codec.encode_event({f"n{i}": i for i in range(10_001)})
    with pytest.raises(LimitExceeded):
        codec.encode_table(pa.table({"a": [[1], [1] * 100_001]}))


@given(st.data())
def test_nested_columns_are_read_like_events(data: st.DataObject) -> None:
    element = st.fixed_dictionaries({}, optional={"x": st.integers(0, 3), "y": st.sampled_from(["a", "b"])})
    kind = pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))
    rows = data.draw(st.integers(0, 6))

    def draw(cell: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(st.lists(st.one_of(st.none(), cell), min_size=rows, max_size=rows))

    table = pa.table(
        {
            "d": pa.array(draw(st.lists(st.one_of(st.none(), element), max_size=3)), kind),
            "m": pa.array(
                draw(
                    st.lists(
                        st.tuples(st.sampled_from(["k", "l"]), st.one_of(st.none(), st.integers(0, 3))), max_size=3
                    )
                ),
                pa.map_(pa.string(), pa.int64()),
            ),
            "n": pa.array(
                draw(st.lists(st.lists(st.integers(0, 3), max_size=2), max_size=2)), pa.list_(pa.list_(pa.int64()))
            ),
            "d.x": pa.array(draw(st.integers(0, 5)), pa.int64()),
        }
    )
    own = {"numbers": [1, 2], "strings": ["a"]}
    codec = make({"n": own, "d.x": own, "d.y": own, "m.k": own, "d": own})
    events = list(read_events(table, ["n", "d.x", "d.y", "m.k", "d"]))
    assert same(codec.encode_table(table), codec.encode_events(events))


def test_coupled_are_only_events_with_a_known_attribute_in_an_array_of_objects() -> None:
    codec = make({"d.x": {}, "a": {}})
    events = [
        {"d": [{"x": 1}]},
        {"d": [{"z": 1}], "a": 1},
        {"d": {"x": [1, 2]}},
        {"d": [{"x": None}]},
        {"a": [{"b": 2}]},
    ]
    assert codec.encode_events(events).coupled.tolist() == [1, 0, 0, 0, 0]


def test_columns_of_other_types_are_refused_only_where_an_attribute_lies() -> None:
    table = pa.table({"a": pa.array([1]), "b": pa.array([b"x"]), "s": pa.array([{"x": 1, "y": b"y"}])})
    assert entries(make({"a": {}, "s.x": {}}).encode_table(table)) == [{0: {6}, 1: {6}}]
    assert entries(make({"b.c": {}}).encode_table(table)) == [{}]
    for name in ("b", "s.y"):
        with pytest.raises(EventError, match="a column of booleans"):
            make({name: {}}).encode_table(table)
    with pytest.raises(EventError, match="a column of booleans"):
        make({"a": {}}).encode_table(pa.table({"a": pa.array([[b"x"]])}))


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
        codec = make({"t": {"times": own}, "u": {"times": own}})
        table = pa.table({"t": pa.array(texts, pa.string()).cast(kind), "u": pa.array([[t, None] for t in texts])})
        expected = codec.encode_events(list(read_events(table, ["t", "u"], ["t", "u"])))
        assert same(codec.encode_table(table, ["t", "u"]), expected)


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
    codec = make({"t": {"times": [0]}})
    with pytest.raises(ValueError, match="Expected a timestamp"):
        Timestamp.parse(text)
    with pytest.raises(EventError, match="event 2: t"):
        codec.encode_table(pa.table({"t": [None, "2026-01-31", text]}), ["t"])
    with pytest.raises(EventError, match="event 1: t"):
        codec.encode_table(pa.table({"t": [["2026-01-31"], ["2026-01-31", text]]}), ["t"])
    with pytest.raises(EventError, match="- at t"):
        codec.encode_event({"t": text}, ["t"])


@given(st.data())
def test_big_dictionaries_have_the_same_ranks(data: st.DataObject) -> None:
    """Beyond the sizes that are kept as tables or Python objects."""
    seed = data.draw(st.integers(0, 3))
    draw = np.random.default_rng(seed)
    size = LISTED + 1
    spread = [
        draw.random(size),
        draw.lognormal(0, 5, size),
        draw.integers(-(2**63), 2**63 - 1, size),
        draw.integers(0, 10**5, size),
    ][seed]
    texts = [f"{x:05}" for x in draw.integers(0, 10**5, size + 10_000)]
    times = draw.integers(0, 10**18, size)
    codec = make({"a": {"numbers": spread, "strings": pa.array(texts), "times": times}}, ["a"] if seed % 2 else [])
    values = data.draw(
        st.lists(
            st.one_of(st.sampled_from(spread.tolist()), st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1)),
            max_size=20,
        )
    )
    own = {"numbers": [canonical_number(n) for n in spread.tolist()], "strings": texts, "times": times.tolist()}
    for kind in (int, float):
        mine = [value for value in values if type(value) is kind]
        found = codec.encode_table(pa.table({"a": pa.array(mine, pa.int64() if kind is int else pa.float64())}))
        expected = [expected_rank(own, (NUMBER, canonical_number(v)), False) for v in mine]
        assert found.ranks.tolist() == [codec.encode_event({"a": v}).ranks[0] for v in mine] == expected
    some = data.draw(st.lists(st.one_of(st.sampled_from(texts), st.text(max_size=6)), max_size=20))
    expected = [expected_rank(own, (STRING, s), bool(seed % 2)) for s in some]
    assert codec.encode_table(pa.table({"a": pa.array(some, pa.string())})).ranks.tolist() == expected
    assert [codec.encode_event({"a": s}).ranks[0] for s in some] == expected
    moments = [Timestamp(t) for t in data.draw(st.lists(st.sampled_from(times.tolist()), max_size=5))]
    assert [codec.encode_event({"a": t}).ranks[0] for t in moments] == [codec.rank(0, sort_key(t)) for t in moments]


def test_empty_tables_and_unknown_attributes_have_no_entries() -> None:
    codec = make({"a": {"numbers": [1]}, "l": {}, "s.x": {}})
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
        assert entries(codec.encode_table(table)) == [{}] * table.num_rows
    assert entries(codec.encode_events([])) == []
    assert entries(codec.encode_event({})) == [{}]
    assert entries(make({}).encode_table(pa.table({"z": [1, 2]}))) == [{}, {}]
