"""Columns from Python values are those that `pyarrow.array` makes, without pandas."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.publications import arrow_columns
from whimbrel.publications.arrow_columns import column_of, flags_of, row_numbers

TYPED = st.one_of(
    *(
        st.tuples(st.just(kind), st.lists(st.one_of(st.none(), values), max_size=12))
        for kind, values in (
            (pa.string(), st.text(max_size=3)),
            (pa.binary(), st.binary(max_size=3)),
            (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
            (pa.float64(), st.floats(allow_nan=False)),
            (pa.bool_(), st.booleans()),
            (pa.list_(pa.string()), st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=3)),
            (pa.timestamp("us"), st.datetimes()),
        )
    )
)


@pytest.fixture(scope="module", autouse=True)
def no_pandas() -> object:
    """Other tests may have imported pandas, with which Arrow makes the columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_columns, "sys", type("_", (), {"modules": {}}))
        yield


@given(TYPED)
def test_columns_are_those_of_arrow(typed: tuple[pa.DataType, list[object]]) -> None:
    kind, values = typed
    found = column_of(values, kind)
    found.validate(full=True)
    assert found.equals(pa.array(values, kind))


@pytest.mark.parametrize(
    ("value", "kind"), [(2**63, pa.int64()), ("a", pa.int64()), ("\ud800", pa.string()), (1, pa.string())]
)
def test_what_arrow_refuses_is_refused(value: object, kind: pa.DataType) -> None:
    with pytest.raises((pa.ArrowException, OverflowError, UnicodeEncodeError)):
        column_of([value], kind)


@given(st.lists(st.booleans(), max_size=20))
def test_flags_come_back(flags: list[bool]) -> None:
    array = np.array(flags, np.bool_)
    column = pa.chunked_array([column_of(flags, pa.bool_())])
    assert flags_of(column.slice(len(flags) // 2)).tolist() == flags[len(flags) // 2 :]
    rows = np.arange(len(flags))
    assert row_numbers(rows, array).to_pylist() == [None if flag else row for row, flag in enumerate(flags)]


def test_publications_need_neither_pandas_nor_spark() -> None:
    program = """
        import sys

        import pyarrow as pa

        from whimbrel import Index
        from whimbrel.publications import IndexVersion, Publications, TransitionRules, Update, UpdateFormat

        indexes = {}
        for number in (1, 2):
            index = Index()
            index.add_many([("near", f"distance < {10 * number}"), ("far", "distance > 50"), ("wide", "distance > 40")])
            indexes[number] = IndexVersion(number, [index, Index()], "string")
        format = UpdateFormat(pa.string(), pa.schema([("distance", pa.float64())]), partial=True)
        rules = TransitionRules(leave=True, outer={"far": "wide"}, dwell={"near": 5.0})
        taxis = Publications(format, rules, indexes.__getitem__)
        taxis.change_version(1)
        told = taxis.apply(format.table([Update("a", {"distance": 3.0}, 1), Update("b", {"distance": 90.0}, 1)]))
        told = [*told.to_pylist(), *taxis.change_version(2).to_pylist()]
        taxis.save()
        taxis.load_bytes(taxis.to_bytes())
        told += taxis.apply(format.table([Update("a", unset=["distance"], sequence=2, time=1.0)])).to_pylist()
        told += taxis.apply(format.table([Update("b", sequence=2, deleted=True)])).to_pylist()
        told += taxis.advance(9.0).to_pylist()
        print(*(f"{row['key']} {row['kind']} {row['subscription']}" for row in told), sep=", ")
        print([name for name in ("pandas", "pyspark") if name in sys.modules])
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["a enter near, b enter far, b delete far, a leave near", "[]"]
