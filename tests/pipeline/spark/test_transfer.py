from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from whimbrel import Filter
from whimbrel.pipeline import compile_index, match
from whimbrel.pipeline.spark.transfer import plan_transfer, unpack


@pytest.mark.parametrize(
    ("kind", "pool"),
    [
        (pa.int64(), [None, 0, -1, 2**62]),
        (pa.int16(), [None, 7, -7]),
        (pa.float64(), [None, 0.5, float("inf")]),
        (pa.string(), [None, "", "ø", "long text"]),
        (pa.large_string(), [None, "", "ø"]),  # with spark.sql.execution.arrow.useLargeVarTypes
        (pa.int32(), [1, 2, 3]),
    ],
)
@pytest.mark.parametrize("rows", [0, 1, 9, 64])
def test_arrays_become_the_columns_that_they_were(kind: pa.DataType, pool: list[Any], rows: int) -> None:
    draw = random.Random(rows)
    cells = [[draw.choice(pool) for _ in range(17)] for _ in range(rows + 5)]
    packed = pa.array(cells, pa.list_(kind)).slice(3, rows)
    columns = unpack(packed, 17)
    for number, column in enumerate(columns):
        column.validate(full=True)
        assert column.type == kind and column.to_pylist() == [row[number] for row in cells[3 : 3 + rows]]


@pytest.mark.spark
def test_wide_events_travel_packed_and_match_the_same(spark: Any, tmp_path: Path) -> None:
    draw = random.Random(1)
    kinds = ["int"] * 20 + ["string"] * 18 + ["double"] * 3
    names = [f"c{number}" for number in range(len(kinds))]
    makers = {"int": lambda: draw.randrange(3), "string": lambda: draw.choice("abø"), "double": draw.random}
    rows = [(id, *(makers[kind]() if draw.random() < 0.4 else None for kind in kinds)) for id in range(50)]
    schema = "id int, " + ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    events = spark.createDataFrame(rows, schema)
    assert [len(group) for group in plan_transfer(events.schema, names).packed] == [20, 18]
    texts = {number: _filter(draw, names, kinds) for number in range(80)}
    texts[80] = " OR ".join(f"{name} IS MISSING" for name in names)
    compile_index(spark.createDataFrame(list(texts.items()), "id int, filter string"), tmp_path, shards=2)
    filters = {id: Filter.parse(text) for id, text in texts.items()}
    objects = [{name: cell for name, cell in zip(names, row[1:], strict=True) if cell is not None} for row in rows]
    expected = sorted(
        (row[0], id) for row, one in zip(rows, objects, strict=True) for id in filters if filters[id].matches(one)
    )
    for plan in ("replicate", "shard"):
        assert sorted(tuple(row) for row in match(events, tmp_path, plan=plan).collect()) == expected
    assert len(expected) > 100


def _filter(draw: random.Random, names: list[str], kinds: list[str]) -> str:
    name, kind = draw.choice(list(zip(names, kinds, strict=True)))
    return {
        "int": f"{name} >= {draw.randrange(3)}",
        "string": f"{name} = '{draw.choice('abø')}'",
        "double": f"{name} < 0.5",
    }[kind]
