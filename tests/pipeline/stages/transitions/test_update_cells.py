"""Updates as cells, and the cache of workers, without Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from whimbrel.pipeline.spark.transfer import ColumnTransfer, FieldPath
from whimbrel.pipeline.stages.transitions.update_cells import CellWriter, bucket_numbers, read_cells
from whimbrel.pipeline.stages.transitions.worker_cache import drop_parts, read_part, write_part
from whimbrel.publications.changes import Matches
from whimbrel.publications.updates import UpdateFormat


@pytest.mark.parametrize("buckets", [1, 2, 32, 1_000])
def test_buckets_have_numbers_of_their_own(buckets: int) -> None:
    numbers = bucket_numbers(buckets)
    assert len(set(numbers.tolist())) == buckets
    assert numbers.min() >= 0


def test_cells_hold_every_row_of_their_bucket_in_order() -> None:
    rng = np.random.default_rng(3)
    schema = UpdateFormat(pa.string(), pa.schema([("a", pa.int64()), ("b.c", pa.string())])).updates
    gather = CellWriter(
        bucket_numbers(5), ColumnTransfer((FieldPath("a", (0,)), FieldPath("b.c", (1,))), {}), schema, False, False
    )
    batches, rows = [], []
    for size in (40, 0, 25):
        new = [
            (int(rng.integers(0, 4)), f"k{rng.integers(0, 9)}", number, bool(rng.random() < 0.2), None, f"t{number}")
            for number in range(size)
        ]
        rows += new
        types = [pa.int32(), pa.string(), pa.int64(), pa.bool_(), pa.int64(), pa.string()]
        columns = [pa.array([row[at] for row in new], kind) for at, kind in enumerate(types)]
        batches.append(pa.record_batch(columns, [f"c{at}" for at in range(len(types))]))
    (cells,) = gather(batches)
    assert cells.num_rows == len({row[0] for row in rows})
    for number, content in zip(cells["bucket"].to_pylist(), cells["content"].to_pylist(), strict=True):
        bucket = gather.numbers.tolist().index(number)
        found = read_cells([content], schema).to_pylist()
        assert [(row["key"], row["sequence"], row["deleted"], row["a"], row["b.c"]) for row in found] == [
            row[1:] for row in rows if row[0] == bucket
        ]
    assert list(gather([])) == []
    assert sum(cell.num_rows for cell in gather(batches[1:2])) == 0


def test_a_part_comes_back_with_what_is_known_of_it_or_not_at_all(tmp_path: Path) -> None:
    states = pa.table({"key": ["p", "q", "r"], "matches": [1, 2, 3]})
    matches = Matches.of_runs(np.array([0, 2, 2, 3]), np.array([7, 8, 9], np.int32), 10)
    matches.lengths[1] = -1
    folder = tmp_path / "parts"
    assert read_part(folder, "token", 10) is None
    write_part(folder, "token", states, matches)
    found = read_part(folder, "token", 10)
    assert found is not None
    assert found[0].equals(states)
    assert found[1].lengths.tolist() == [2, -1, 1]
    assert [found[1].of(row).tolist() for row in range(3)] == [[7, 8], [], [9]]
    (folder / "token").write_bytes((folder / "token").read_bytes()[:100])
    assert read_part(folder, "token", 10) is None
    drop_parts(folder, ["token", "never"])
    assert list(folder.iterdir()) == []
    (tmp_path / "file").touch()
    write_part(tmp_path / "file", "token", states, matches)  # a disk that takes nothing is no error
