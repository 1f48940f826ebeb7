"""Bulk loads that keep what is good, and the table of what an index holds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from whimbrel import Index
from whimbrel.engine.loader import RowNumbers, load
from whimbrel.model.errors import DuplicateId, FilterSyntaxError, LimitExceeded, MalformedSubscription, UnknownDialect

ROWS = pa.table(
    {
        "id": [10, 11, 12, 13, 14, 15],
        "filter": ["a = 1", "a =", "a = b", "x", " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(12)), "a > 0"],
        "dialect": ["sql", "sql", None, "nope", "sql", "sql"],
    }
)


def test_good_ones_are_added_and_the_others_come_back() -> None:
    index = Index()
    index.add(1, "a = 1")
    errors = load(index, ROWS)
    kinds = [(row, type(error)) for row, error in errors]
    assert kinds == [(1, FilterSyntaxError), (3, UnknownDialect), (4, LimitExceeded)]
    assert list(index) == [1, 10, 12, 15]
    index._check()
    assert index.match({"a": 1, "b": 1}) == [1, 10, 12, 15]


def test_a_load_of_bad_ones_changes_nothing() -> None:
    index = Index()
    assert [row for row, _ in load(index, pa.table({"id": ["x", "y"], "filter": ["a =", "= a"]}))] == [0, 1]
    assert (len(index), index.segments, len(RowNumbers(index))) == (0, 0, 0)
    index.add(1, "a = 1")  # not even the kind of ids is fixed
    assert load(index, pa.table({"id": pa.array([], pa.int64()), "filter": pa.array([], pa.string())})) == []


def test_ids_are_refused_as_in_any_load() -> None:
    index = Index()
    index.add(10, "a = 1")
    with pytest.raises(DuplicateId, match="10"):
        load(index, ROWS)
    assert list(index) == [10]


@pytest.mark.parametrize("columns", [[pa.array([5])], [pa.array([["sql"]])], [pa.array(["sql"]), pa.array(["sql"])]])
def test_a_column_of_dialects_that_is_none_is_refused(columns: list[pa.Array]) -> None:
    table = pa.table([pa.array([1]), pa.array(["a = 1"]), *columns], ["id", "filter", *["dialect"] * len(columns)])
    with pytest.raises(MalformedSubscription, match="Expected one column dialect, of texts, but got "):
        Index().add_many(table)


def test_the_table_of_subscriptions_makes_an_equal_index(tmp_path: Path) -> None:
    index = Index()
    assert index.subscriptions().num_rows == 0
    index.add_many([(f"s{n}", f"a = {n}") for n in range(5_000)])
    index.remove("s7")
    index.replace("s8", "b = 8 AND c = 'ø'")
    index.add("last", "TRUE")
    table = index.subscriptions()
    assert table.column_names == ["id", "filter", "dialect"]
    held = {row["id"]: (row["filter"], row["dialect"]) for row in table.to_pylist()}
    assert len(held) == len(index) == 5_000
    assert held["s8"] == ("b = 8 AND c = 'ø'", "sql") and held["last"] == ("TRUE", "sql") and "s7" not in held
    index.save(tmp_path)
    assert Index.open(tmp_path).subscriptions().equals(table)
    again = Index()
    again.add_many(table)
    assert list(again) == list(index)
    assert again.match({"a": 9, "b": 8, "c": "ø"}) == ["s8", "s9", "last"]


def test_a_segment_that_was_opened_is_saved_as_the_same_file(tmp_path: Path) -> None:
    index = Index()
    index.add_many([(n, f"a = {n}") for n in range(100)])
    index.save(tmp_path / "one")
    again = Index.open(tmp_path / "one")
    again.remove(5)
    again.add(1_000, "b = 1")
    again.save(tmp_path / "two")
    names = [{file.name for file in (tmp_path / part).glob("segment_0-*")} for part in ("one", "two")]
    assert names[0] == names[1]
    assert (again.segments, len(RowNumbers(again)), len(again)) == (2, 101, 100)
