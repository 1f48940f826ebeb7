"""What transitions are made of, without Spark: numbers of keys, cells of updates, parts on disk, differences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel import Index
from whimbrel.pipeline.spark.transfer import HandOver, Leaf
from whimbrel.pipeline.stages.transitions.cells import Gather, bucket_numbers, read_cells, updates_schema
from whimbrel.pipeline.stages.transitions.worker_cache import drop_parts, read_part, write_part
from whimbrel.publications.diff import Differ, Matches
from whimbrel.publications.index_version import Version
from whimbrel.publications.keys import Keys
from whimbrel.publications.rules import Rules
from whimbrel.publications.updates import merged, removed

TEXTS = st.lists(st.one_of(st.sampled_from(["", "a", "b", "ab", "é"]), st.text(max_size=4)), max_size=30)
INTEGERS = st.lists(st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)), max_size=30)


@given(st.one_of(st.lists(TEXTS, max_size=5), st.lists(INTEGERS, max_size=5)), st.integers(0, 3))
def test_keys_are_numbered_in_the_order_in_which_they_come(
    batches: list[list[str]] | list[list[int]], cut: int
) -> None:
    keys, known = Keys(), dict[str | int, int]()
    kind = pa.string() if any(isinstance(key, str) for batch in batches for key in batch) else pa.int64()
    for batch in batches:
        rest = batch[cut:]
        numbers = keys.numbers(pa.array(batch, kind).slice(min(cut, len(batch))))
        assert numbers.tolist() == [known.setdefault(key, len(known)) for key in rest]
    assert len(keys) == len(known)


def test_many_keys_find_their_numbers_again() -> None:
    keys = Keys()
    names = pa.array([f"key-{number}" for number in range(50_000)])
    assert keys.numbers(names).tolist() == list(range(50_000))
    assert keys.numbers(names.slice(40_000)).tolist() == list(range(40_000, 50_000))


@pytest.mark.parametrize("buckets", [1, 2, 32, 1_000])
def test_buckets_have_numbers_of_their_own(buckets: int) -> None:
    numbers = bucket_numbers(buckets)
    assert len(set(numbers.tolist())) == buckets
    assert numbers.min() >= 0


def test_cells_hold_every_row_of_their_bucket_in_order() -> None:
    rng = np.random.default_rng(3)
    schema = updates_schema(pa.string(), pa.schema([("a", pa.int64()), ("b.c", pa.string())]))
    gather = Gather(bucket_numbers(5), HandOver((Leaf("a", (0,)), Leaf("b.c", (1,))), {}), schema, False, False)
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


CODES = st.lists(st.sets(st.integers(0, 5)), max_size=8)


@given(st.data())
def test_changes_are_the_differences_of_sets(data: st.DataObject) -> None:
    differ = Differ()
    for _ in range(3):
        old, new = data.draw(CODES), data.draw(CODES)
        previous = [data.draw(st.integers(-1, len(old) + row - 1)) for row in range(len(new))]
        every = [*old, *new]
        expected = set()
        for row, before in enumerate(previous):
            was = every[before] if before >= 0 else set()
            expected |= {(row, code, False) for code in new[row] - was} | {(row, code, True) for code in was - new[row]}
        changes = differ.changes(_matches(old), _matches(new), np.array(previous, np.int64))
        found = list(zip(*(column.tolist() for column in changes), strict=True))
        assert len(found) == len(expected)
        assert set(found) == expected


def _matches(sets: list[set[int]]) -> Matches:
    offsets = np.cumsum([0, *map(len, sets)])
    return Matches.of_runs(offsets, np.array([code for each in sets for code in each], np.int32), 6)


def _index(filters: dict[str, str]) -> Index:
    index = Index()
    index.add_many(filters.items())
    return index


def test_a_version_of_several_shards_names_what_each_of_them_finds() -> None:
    shards = [{"low": "a < 3", "one": "a = 1"}, {}, {"high": "a > 1", "all": "a > 0"}]
    rules = Rules(frozenset(["low", "high", "nobody"]), {"one": "all"})
    old = Version(1, [_index(filters) for filters in shards], "string", rules)
    states = pa.table({"a": [1, 2, 5, None]})
    matches = old.match(states)
    found = [set(old.ids(matches.of(row)).to_pylist()) for row in range(4)]
    assert found == [{"low", "one", "all"}, {"low", "high", "all"}, {"high", "all"}, set()]
    assert not isinstance(old.leave, bool)
    assert old.ids(old.leave).to_pylist() == ["low", "high"]
    assert set(old.named.values()) == {"one", "all"}
    new = Version(2, [_index({"all": "a > 0", "low": "a < 2"})], "string", rules)
    codes = np.array([old.code_of(id) for id in ("low", "high", "all", "low")], np.int32)
    assert new.translated(old, codes).tolist() == [new.code_of("low"), len(new), new.code_of("all"), new.code_of("low")]
    assert (old.code_of("nobody"), len(old), old.match(states.slice(0, 0)).count) == (-1, 4, 0)
    assert Version(1, [], "int64", Rules()).match(states).lengths.tolist() == [0] * 4


def test_what_an_update_does_not_say_is_as_it_was() -> None:
    stored = pa.chunked_array([pa.array(["s0"]), pa.array(["s1"])])
    own = pa.array([None, "u1", None, None, None, "u5", None])
    blank = np.array([False, False, False, True, False, False, False])
    first = np.array([True, False, False, False, False, True, True])
    previous = np.array([1, 2, 3, 4, 5, 0, -1])
    assert merged(stored, own, blank, first, previous).to_pylist() == ["s1", "u1", "u1", None, None, "u5", None]
    names = pa.array([["a", None], None, [], ["b", "a"]], pa.list_(pa.string()))
    assert removed(names, "a").tolist() == [True, False, False, True]
