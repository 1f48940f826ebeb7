"""CSV events with rows that are too long or not closed: only they are refused, and all others keep their numbers."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.readers import csv_table
from whimbrel.readers.errors import FileTruncated, InputError, RefusedInput

CELLS = st.one_of(  # without \r: where a block ends at \r\n in quotes, Arrow drops the \n
    st.text(alphabet='ab,"\n ', max_size=12),
    st.text(alphabet='xy"\n', min_size=100, max_size=400),
    st.just("z" * 1_000),
)


def read(content: bytes) -> tuple[dict[int, dict[str, Any]], set[int]]:
    """The rows of a file by number, and the numbers of those that were refused as too long."""
    rows: dict[int, dict[str, Any]] = {}
    refused = set[int]()
    for item in csv_table.read_csv(io.BytesIO(content), "f"):
        if isinstance(item, InputError):
            assert isinstance(item, RefusedInput) and item.kind == "LimitExceeded", item
            refused.add(item.place.row or 0)
        else:
            rows |= dict(zip(item[0], item[1].to_pylist(), strict=True))
    return rows, refused


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=30))
def test_rows_that_are_not_too_long_are_read_with_their_numbers(table: list[tuple[str, str]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(["a", "b"])
    sizes = [writer.writerow(row) for row in table]
    small = replace(csv_table.EVENT_BYTES, value=300)
    with patch.object(csv_table, "EVENT_BYTES", small), patch.object(csv_table, "_CHUNK", small.value):
        rows, refused = read(text.getvalue().encode())
    assert rows.keys() | refused == set(range(len(table))) and not rows.keys() & refused
    for number, (cells, size) in enumerate(zip(table, sizes, strict=True)):
        if number in rows:
            assert tuple(str(cell) for cell in rows[number].values()) == cells
        else:
            assert size > small.value


def test_a_pass_that_has_ended_moves_the_stream_no_more() -> None:
    # Arrow reads ahead in a thread: one that was late took bytes of the next pass, whose rows were lost then.
    stream = io.BytesIO(b"price,name\n")
    first = csv_table._Pass(stream)
    assert first.read(5) == b"price"
    first.end()
    second = csv_table._Pass(stream)
    assert first.read(5) == b"" and second.read(100) == b"price,name\n"


def test_one_huge_cell_loses_one_row_however_it_is_written() -> None:
    for huge in (b"z" * 3_000_000, b'"' + (b"z" * 99 + b"\n") * 30_000 + b'"', b'"' + b'z""' * 1_000_000 + b'"'):
        rows, refused = read(b"price,name\n1,a\n2," + huge + b"\n\n3,c\n")
        assert refused == {1} and [row["price"] for row in rows.values()] == [1, 3] and list(rows) == [0, 2]
    rows, refused = read(b'price,name\n1,a\n2,"' + b"z" * 3_000_000)
    assert list(rows) == [0] and refused == {1}
    (error,) = csv_table.read_csv(io.BytesIO(b"price," + b"z" * 3_000_000 + b"\n1,a\n"), "f")
    assert "Expected a header of at most" in str(error)


@pytest.mark.parametrize("content", [b'price,name\n1,a\n2,"b\n3,c\n', b'price,name\n1,a\n2,"b""'])
def test_a_row_whose_quotes_are_not_closed_is_refused(content: bytes) -> None:
    error, (rows, batch) = csv_table.read_csv(io.BytesIO(content), "f")
    assert isinstance(error, FileTruncated) and error.place.row == 1
    assert rows == [0] and batch.column(0).to_pylist() == [1]


def test_a_quote_within_a_cell_closes_nothing() -> None:
    assert read(b'price,name\n1,5" pipe\n2,a\n') == (
        {0: {"price": 1, "name": '5" pipe'}, 1: {"price": 2, "name": "a"}},
        set(),
    )


def test_a_header_needs_no_line_break() -> None:
    assert read(b"price,name") == read(b"price,name\n") == ({}, set())
    (error,) = csv_table.read_csv(io.BytesIO(b'price,"name\n1,a\n'), "f")
    assert isinstance(error, FileTruncated) and error.place.line == 1
