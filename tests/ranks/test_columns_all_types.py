"""Columns of every Arrow type through the index: the same answers as for the events that the rows stand for."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_index import block_pairs, pairs
from tests.ranks.test_columns import COLUMNS, arrays_of, views
from whimbrel import Filter, Index
from whimbrel.model import expression as x
from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.model.values import Timestamp

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KINDS = {str(kind): (kind, cells) for kind, cells in COLUMNS}


def value_of(cell: Any, kind: pa.DataType) -> Any:
    """The value of a cell in an event."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    if cell is None or (isinstance(cell, float | np.floating) and math.isnan(cell)):
        return None
    if isinstance(cell, Decimal | np.floating):
        return float(cell)
    if isinstance(cell, datetime):
        moment = cell if cell.tzinfo else cell.replace(tzinfo=UTC)
        seconds = moment - EPOCH
        return Timestamp(((seconds.days * 86_400 + seconds.seconds) * 10**6 + seconds.microseconds) * 1_000)
    if isinstance(cell, date):
        return Timestamp((cell - EPOCH.date()).days * 86_400 * 10**9)
    if pa.types.is_timestamp(kind):
        return Timestamp(cell)
    if pa.types.is_float32(kind):
        return float(np.float32(cell))
    return cell


def event_of(name: str, value: Any) -> dict[str, Any]:
    """A null cell is missing; a null in a list is a value."""
    return {} if value is None else {name: value}


def filters_on(name: str, values: list[Any]) -> dict[int, Filter]:
    """Filters of every kind of key and check with these constants, some that must be verified."""
    constants = [value for value in dict.fromkeys(values) if value is not None] or [1]
    found = [Filter(x.Compare(name, op, c)) for c in constants for op in ("=", "!=", ">", "<=")]
    found += [Filter(x.In(name, tuple(constants[::2]))), Filter(x.Contains(name, "ALL", tuple(constants[:2])))]
    found += [Filter(x.IsNull(name)), Filter(x.IsMissing(name)), Filter(x.Not(x.IsNull(name)))]
    found += [Filter(x.Contains(name, "ANY", (None, constants[0]))), Filter(x.Like(name, "%a%"))]
    found += [Filter(x.CompareAttributes(name, "=", name)), Filter(x.CompareAttributes(name, "<", "other"))]
    return dict(enumerate(found))


def check(table: pa.Table | Any, batch: list[dict[str, Any]], name: str, values: list[Any], **options: Any) -> None:
    """Assert that a table gives what its rows give one by one, and what the filters say."""
    kept = filters_on(name, values)
    index = Index(**options)
    index.add_many(kept.items())
    wanted = [(row, id) for row, event in enumerate(batch) for id in index.match(event)]
    assert wanted == [(row, id) for row, e in enumerate(batch) for id, f in kept.items() if f.matches(e, **options)]
    assert sorted(pairs(index.match_batch(table, threads=1))) == wanted
    index.remove(0)
    index.add(0, kept[0])
    assert sorted(block_pairs(index, table, threads=2)) == wanted


def pieces(array: pa.Array) -> dict[str, pa.ChunkedArray]:
    """The same column whole, sliced out of a larger one, and in chunks, some of them empty."""
    longer = pa.concat_arrays([array.slice(0, 1), array, array.slice(0, 2)]) if _can_concat(array) else None
    out = {
        "whole": pa.chunked_array([array]),
        "chunks": pa.chunked_array([array.slice(0, 1), array.slice(1, 0), array.slice(1)]),
    }
    if longer is not None:
        out["sliced"] = pa.chunked_array([longer.slice(1, len(array))])
    return out


def _can_concat(array: pa.Array) -> bool:
    return not pa.types.is_list_view(array.type) and not pa.types.is_run_end_encoded(array.type)


@pytest.mark.parametrize("kind", KINDS)
def test_flat_columns(kind: str) -> None:
    arrow, cells = KINDS[kind]
    cells = [*cells, None, *cells[:2], None]
    values = [value_of(cell, arrow) for cell in cells]
    batch = [event_of("a", value) for value in values]
    for column in pieces(arrays_of(arrow, cells)).values():
        check(pa.table({"a": column}), batch, "a", values)


@pytest.mark.parametrize("wrap", ["list", "large list", "fixed list", "list view"])
@pytest.mark.parametrize("kind", [name for name in KINDS if "dictionary" not in name and "run_end" not in name])
def test_lists_of_every_type(kind: str, wrap: str) -> None:
    arrow, cells = KINDS[kind]
    lists = [cells[:2], None, [cells[0], None], [cells[-1], cells[-1]], cells[-2:], None]
    lists = [one if one is None or len(one) == 2 else [one[0], one[0]] for one in lists]
    if wrap != "fixed list":
        lists += [[], [None], cells]
    column = {
        "list": lambda: pa.array(lists, pa.list_(arrow)),
        "large list": lambda: pa.array(lists, pa.large_list(arrow)),
        "fixed list": lambda: pa.array(lists, pa.list_(arrow, 2)),
        "list view": lambda: views(pa.array(lists, pa.list_(arrow))),
    }[wrap]()
    values = [value_of(cell, arrow) for cell in cells]
    batch = [event_of("a", None if one is None else [value_of(cell, arrow) for cell in one]) for one in lists]
    for piece in pieces(column).values():
        check(pa.table({"a": piece}), batch, "a", values)


@pytest.mark.parametrize("kind", KINDS)
def test_fields_of_structs(kind: str) -> None:
    arrow, cells = KINDS[kind]
    cells = [*cells, None]
    child = arrays_of(arrow, cells)
    values = [value_of(cell, arrow) for cell in cells]
    holes = pa.array([row % 3 == 1 for row in range(len(cells))])
    inner = pa.StructArray.from_arrays([child, pa.array(range(len(cells)))], ["x", "n"], mask=holes)
    outer = pa.StructArray.from_arrays([inner], ["s"])
    shown = [None if row % 3 == 1 else value for row, value in enumerate(values)]
    for name, column in (("s.x", inner), ("o.s.x", outer)):
        top = name.split(".")[0]
        batch = [event_of(name, value) for value in shown]
        check(pa.table({top: column}), batch, name, values)
        check(pa.table({top: column}).slice(1), batch[1:], name, values)
    if not pa.types.is_run_end_encoded(arrow):
        flat = pa.chunked_array([child])
        check(pa.table({"s.x": flat}), [event_of("s.x", value) for value in values], "s.x", values)


def test_arrays_of_objects() -> None:
    cells: list[Any] = [
        [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}], [{"x": 1, "y": "b"}], [], None, [None, {"x": None, "y": "a"}],
        [{"x": 1, "y": None}, {"x": None, "y": "b"}],
    ]  # fmt: skip
    column = pa.array(cells, pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())])))

    def plain(one: Any) -> Any:
        if isinstance(one, dict):
            return {key: value for key, value in one.items() if value is not None}
        return None if one is None else [plain(member) for member in one]

    batch = [event_of("d", plain(one)) for one in cells]
    texts = ["d.x = 1 AND d.y = 'b'", "d.x = 1 AND d.y = 'a'", "d.x = 1", "d.y != 'a'", "d.x IS NULL", "d.x IS MISSING"]
    texts += ["d.x CONTAINS ALL (1, 2)", "d IS NULL", "d IS MISSING", "d.y LIKE '%b%' AND d.x > 0", "d CONTAINS NULL"]
    index = Index()
    index.add_many(enumerate(texts))
    wanted = [(row, id) for row, event in enumerate(batch) for id in index.match(event)]
    for table in (pa.table({"d": column}), pa.table({"d": pa.chunked_array([column[:2], column[2:]])})):
        assert sorted(pairs(index.match_batch(table))) == wanted
        assert sorted(pairs(index.match_batch(table.slice(1, 4)))) == [(r - 1, id) for r, id in wanted if 1 <= r < 5]


def test_maps_and_deeper_nesting() -> None:
    maps = pa.array([[("k", 1), ("l", None)], None, [], [("k", 2)]], pa.map_(pa.string(), pa.int64()))
    lists = pa.array([[[1, 2], None], [[], [3]], None, [[None]]], pa.list_(pa.list_(pa.int64())))
    deep = pa.array([{"a": {"b": {"c": [1]}}}, {"a": None}, None, {"a": {"b": {"c": [2, None]}}}])
    batch: list[dict[str, Any]] = [
        {"m": {"k": 1, "l": None}, "n": [[1, 2], None], "s": {"a": {"b": {"c": [1]}}}},
        {"n": [[], [3]]},
        {},
        {"m": {"k": 2}, "n": [[None]], "s": {"a": {"b": {"c": [2, None]}}}},
    ]
    texts = ["m.k = 1", "m.k > 1", "m.l IS NULL", "m.l IS MISSING", "n = 2", "n CONTAINS NULL", "n IS MISSING", "n > 2"]
    texts += ["s.a.b.c = 2", "s.a.b.c CONTAINS NULL", "s.a.b.c = m.k", "m.k = 2 AND n IS NULL"]
    index = Index()
    index.add_many(enumerate(texts))
    wanted = [(row, id) for row, event in enumerate(batch) for id in index.match(event)]
    assert sorted(pairs(index.match_batch(pa.table({"m": maps, "n": lists, "s": deep})))) == wanted


def test_extension_types() -> None:
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, None, 2], pa.int8()))
    check(pa.table({"a": flags}), [{"a": False}, {"a": True}, {}, {"a": True}], "a", [True, False])


def test_dictionaries_with_nulls_and_repeated_values() -> None:
    """A dictionary may hold null, hold a value twice, and be larger than the column."""
    known = pa.array(["b", None, "a", "b", *(f"x{n}" for n in range(50))])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None, 4], pa.int8()), known)
    batch = [{"a": "b"}, {}, {"a": "a"}, {"a": "b"}, {}, {"a": "x0"}]
    check(pa.table({"a": column}), batch, "a", ["a", "b", "x0"])
    chunks = pa.chunked_array([column.slice(0, 2), pa.array(["a"]).dictionary_encode().cast(column.type)])
    check(pa.table({"a": chunks}), [*batch[:2], {"a": "a"}], "a", ["a", "b", "x0"])


def test_chunks_whose_dictionaries_cannot_be_united() -> None:
    """Together they have more values than their indices can count."""
    texts = [f"{letter}{n}" for letter in "ab" for n in range(100)]
    halves = [
        pa.array(half).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
        for half in (texts[:100], texts[100:])
    ]
    offsets = pa.array(range(101), pa.int32())
    columns = {
        "a": halves,
        "s.x": [pa.StructArray.from_arrays([half], ["x"]) for half in halves],
        "l": [pa.ListArray.from_arrays(offsets, half) for half in halves],
    }
    for name, chunks in columns.items():
        table = pa.table({name.split(".")[0]: pa.chunked_array(chunks)})
        check(table, [{name: text} for text in texts], name, ["a0", "a7", "b3", "b99"])
        index = Index()
        index.add(0, f"{name} = 'a0'")
        index.analyze(table)
        assert pairs(index.match_batch(table)) == [(0, 0)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("row", [0, 40, 5_000])
def test_a_bad_cell_is_named_by_its_row_in_the_input(row: int, threads: int) -> None:
    index = Index(timestamps=["t"])
    index.add_many([(0, "t > TIMESTAMP '2026-01-01'"), (1, "n = 1")])
    good = "2026-01-01"
    with pytest.raises(EventError, match=f"event {row}: t"):
        index.match_batch(pa.table({"t": [good] * row + ["x"] + [good] * 50}), threads)
    offsets = np.arange(row + 2) + np.append(np.zeros(row + 1, int), 100_000)
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.ones(offsets[-1], int)))
    with pytest.raises(LimitExceeded, match=f"event {row}"):
        index.match_batch(pa.table({"n": lists}), threads)


def test_texts_are_timestamps_where_they_are_named() -> None:
    texts = ["2026-01-31", None, "2026-01-31T12:00:00+01:00", "0001-01-01", "9999-12-31T23:59:59.999999999Z"]
    values = [None if text is None else Timestamp.parse(text) for text in texts]
    batch = [event_of("a", text) for text in texts]
    column = pa.array(texts)
    encoded = [column, column.cast(pa.large_string()), column.cast(pa.string_view()), column.dictionary_encode()]
    for one in encoded:
        check(pa.table({"a": one}), batch, "a", values, timestamps=["a"])
    check(
        pa.table({"a": pa.array([[text] for text in texts])}),
        [{"a": [text]} for text in texts],
        "a",
        values,
        timestamps=["a"],
    )


@pytest.mark.parametrize("column", [pa.array([b"x"]), pa.array([1], pa.time32("s")), pa.array([1], pa.duration("s"))])
def test_columns_without_values_are_refused_where_they_are_mentioned(column: pa.Array) -> None:
    index = Index()
    index.add(0, "b = 1")
    assert pairs(index.match_batch(pa.table({"a": column, "b": [1]}))) == [(0, 0)]
    index.add(1, "a = 1")
    with pytest.raises(EventError, match="a column of booleans"):
        index.match_batch(pa.table({"a": column, "b": [1]}))


def test_columns_of_the_same_name_unite() -> None:
    table = pa.Table.from_arrays([pa.array([1, None]), pa.array([2, None]), pa.array([None, "x"])], ["a", "a", "a"])
    check(table, [{"a": [1, 2]}, {"a": "x"}], "a", [1, 2, "x"])


def test_pandas_frames() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None, 3], dtype="Int64"),
            "f": [1.5, math.nan, 2.5],
            "s": ["a", None, "b"],
            "c": pd.Categorical(["x", None, "y"]),
            "t": pd.to_datetime(["2026-01-31T12:00:00Z", None, "2026-02-01"], utc=True, format="ISO8601"),
            "b": [True, False, True],
            "l": [[1, 2], None, []],
        },
        index=[10, 20, 30],
    )
    batch: list[dict[str, Any]] = [
        {"i": 1, "f": 1.5, "s": "a", "c": "x", "t": Timestamp.parse("2026-01-31T12:00:00Z"), "b": True, "l": [1, 2]},
        {"b": False},
        {"i": 3, "f": 2.5, "s": "b", "c": "y", "t": Timestamp.parse("2026-02-01"), "b": True, "l": []},
    ]
    values: dict[str, list[Any]] = {name: [event[name] for event in batch if name in event] for name in frame.columns}
    for name in frame.columns:
        check(frame, batch, name, [1, 2] if name == "l" else values[name])
        check(frame[1:], batch[1:], name, [1, 2] if name == "l" else values[name])


def test_polars_frames() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {
            "i": pl.Series([1, None, 2**63], dtype=pl.UInt64),
            "f": pl.Series([1.5, math.nan, None], dtype=pl.Float32),
            "s": ["a", None, "\U0001f600"],
            "c": pl.Series(["x", None, "y"], dtype=pl.Categorical),
            "e": pl.Series(["x", None, "y"], dtype=pl.Enum(["y", "x"])),
            "d": [Decimal("1.10"), None, Decimal("2.25")],
            "t": [datetime(2026, 1, 31, 12), None, datetime(1969, 1, 1)],
            "day": [date(2026, 1, 31), None, date(1, 1, 1)],
            "l": [[1, None], None, []],
            "o": [{"x": 1}, {"x": None}, {"x": 2}],
        }
    )
    rows = list(frame.iter_rows(named=True))
    batch: list[dict[str, Any]] = [
        {name: value_of(cell, pa.null()) for name, cell in row.items() if value_of(cell, pa.null()) is not None}
        for row in rows
    ]
    for name in ("i", "f", "s", "c", "e", "d", "t", "day"):
        check(frame, batch, name, [event[name] for event in batch if name in event])
    check(frame, batch, "l", [1])
    check(frame, [{**e, "o": {}} if e.get("o") == {"x": None} else e for e in batch], "o.x", [1, 2])
    check(frame[1:], batch[1:], "i", [1, 2**63])
    check(frame.lazy().collect().rechunk(), batch, "s", ["a"])


READERS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(),
}


@pytest.mark.parametrize("shape", READERS)
def test_tables_in_any_shape(shape: str) -> None:
    table = pa.table({"a": pa.chunked_array([[1, 2], [3]]), "b": ["x", None, "y"]})
    index = Index()
    index.add_many([(0, "a > 1"), (1, "b IS NULL"), (2, "a = 3 AND b = 'y'")])
    assert sorted(pairs(index.match_batch(READERS[shape](table)))) == [(1, 0), (1, 1), (2, 0), (2, 2)]


@given(st.data())
def test_tables_of_many_rows_and_columns(data: st.DataObject) -> None:
    """Random columns side by side, in random chunks, over several units."""
    rows = data.draw(st.integers(1, 60))
    names = data.draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, unique=True))
    columns: dict[str, pa.ChunkedArray] = {}
    batch: list[dict[str, Any]] = [{} for _ in range(rows)]
    kept: dict[int, Filter] = {}
    for name in names:
        kind, cells = data.draw(st.sampled_from([one for one in COLUMNS if not pa.types.is_run_end_encoded(one[0])]))
        chosen = data.draw(st.lists(st.one_of(st.none(), st.sampled_from(cells)), min_size=rows, max_size=rows))
        cut = data.draw(st.integers(0, rows))
        array = arrays_of(kind, chosen)
        columns[name] = pa.chunked_array([array.slice(0, cut), array.slice(cut)])
        values = [value_of(cell, kind) for cell in chosen]
        for event, value in zip(batch, values, strict=True):
            event.update(event_of(name, value))
        kept |= {len(kept) + n: filter for n, filter in enumerate(filters_on(name, values[:3]).values())}
    index = Index()
    index.add_many(kept.items())
    wanted = [(row, id) for row, event in enumerate(batch) for id in index.match(event)]
    assert sorted(pairs(index.match_batch(pa.table(columns)))) == wanted
