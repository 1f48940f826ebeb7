"""Everything that may be a collection of events: objects, Arrow streams, data frames."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.model.test_event_tables import DAY, NAN, T, read
from whimbrel.model.errors import EventError
from whimbrel.model.event import Event
from whimbrel.model.event_tables import as_arrow, read_events
from whimbrel.model.json_text import JsonError, parse_json


def test_objects_are_read_one_by_one() -> None:
    events = read_events(iter([{"a": 1}, Event({"a": 2}), {"a": b""}]), [])
    assert next(events).values("a") == (1,)
    assert next(events).values("a") == (2,)
    with pytest.raises(EventError, match="but got bytes - at event 2: a"):
        next(events)


@pytest.mark.parametrize("events", [{"a": 1}, None, 5, Event({"a": 1})])
def test_what_is_no_collection_of_events_is_refused(events: object) -> None:
    with pytest.raises(EventError, match="a list of objects, an Arrow table or a data frame, but got"):
        list(read_events(events, []))


@pytest.mark.parametrize("events", [[1], [None], [[("a", 1)]]])
def test_what_is_no_event_is_refused_with_its_row(events: object) -> None:
    with pytest.raises(EventError, match=r"Expected an object, but got \w+ - at event 0: \$"):
        list(read_events(events, []))


@pytest.mark.parametrize(
    "events", [pd.Series([1]), pl.Series([1]), pa.array([1]), pl.DataFrame({"a": [1]}).lazy()], ids=type
)
def test_a_column_is_no_table(events: object) -> None:
    with pytest.raises(EventError, match="Expected a table with columns of one type each"):
        as_arrow(events)


def test_batches_readers_and_anything_with_an_arrow_stream_are_tables() -> None:
    table = pa.table({"a": [1, 2]})
    expected = [{"a": (1,)}, {"a": (2,)}]
    assert read(table.to_batches()[0], "a") == expected
    assert read(table.to_reader(), "a") == expected
    assert read(Stream(table), "a") == expected


class Stream:
    """An object of some other library that exports Arrow data."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def test_a_pandas_frame_is_a_table() -> None:
    frame = pd.DataFrame(
        {
            "i": [1, 2],
            "f": [0.5, NAN],
            "n": pd.array([1, None], dtype="Int64"),
            "t": ["x", None],
            "c": pd.Categorical(["x", None]),
            "at": pd.to_datetime(["1970-01-01", None]),
            "z": pd.to_datetime(["1970-01-01T01:00:00+01:00", None], utc=True),
            "l": [[1, None], []],
            "d": [{"x": 1}, None],
            "b": pd.array([True, None], dtype="boolean"),
        },
        index=[10, 20],
    )
    assert read(frame, "i", "f", "n", "t", "c", "at", "z", "l", "d.x", "b") == [
        {
            "i": (1,),
            "f": (0.5,),
            "n": (1,),
            "t": ("x",),
            "c": ("x",),
            "at": (T(0),),
            "z": (T(0),),
            "l": (1, None),
            "d.x": (1,),
            "b": (True,),
        },
        {"i": (2,)},
    ]


def test_a_pandas_frame_with_a_mixed_column_is_refused() -> None:
    with pytest.raises(EventError, match=r"a table with columns of one type each, but got .* - at DataFrame"):
        read(pd.DataFrame({"a": [1, "x"]}), "a")


def test_a_polars_frame_is_a_table() -> None:
    frame = pl.DataFrame(
        {
            "i": [1, None],
            "f": [NAN, 0.5],
            "t": ["x", None],
            "c": pl.Series(["x", None], dtype=pl.Categorical),
            "e": pl.Series(["x", None], dtype=pl.Enum(["x"])),
            "m": pl.Series([Decimal("0.1"), None], dtype=pl.Decimal(10, 1)),
            "at": [datetime(1970, 1, 1), None],
            "day": [date(1970, 1, 2), None],
            "l": [[1, None], []],
            "r": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int8, 2)),
            "d": [{"x": 1}, {"x": None}],
            "z": pl.Series([None, None], dtype=pl.Null),
        }
    )
    assert read(frame, "i", "f", "t", "c", "e", "m", "at", "day", "l", "r", "d.x", "z") == [
        {
            "i": (1,),
            "t": ("x",),
            "c": ("x",),
            "e": ("x",),
            "m": (0.1,),
            "at": (T(0),),
            "day": (T(DAY),),
            "l": (1, None),
            "r": (1, 2),
            "d.x": (1,),
        },
        {"f": (0.5,)},
    ]


def test_a_key_that_comes_twice_behind_many_values_is_found_soon() -> None:
    many = ",".join(["1"] * 300_000)
    with pytest.raises(JsonError, match=r"'b' twice - at \$\.z\[1\]\[0\]\[0\]"):
        parse_json(f'{{"z": [[{many}], [[{{"b": 1, "b": 2}}]]]}}')
