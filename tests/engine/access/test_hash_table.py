"""The table of hash keys: every key is found with its run, and no other."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from whimbrel.engine.access.hash.keys import LINE, find, make_table, table_entries


@numba.njit
def _runs(table: np.ndarray, keys: np.ndarray) -> np.ndarray:
    out = np.empty(keys.size, np.int64)
    for i in range(keys.size):
        out[i] = find(table, keys[i])
    return out


def _many(start: int, step: int, count: int) -> np.ndarray:
    return np.int64(start) + np.int64(step) * np.arange(count, dtype=np.int64)


@pytest.mark.parametrize(
    "keys",
    [
        _many(0, 1, 0),
        _many(7, 1, 1),
        _many(0, 1, 9),
        _many(0, 1, 50_000),
        _many(1 << 61, 1 << 20, 50_000),
        _many(0, 6_557_470_319_842, 50_000),  # a Fibonacci number, whose multiples one multiplication leaves together
    ],
)
def test_every_key_is_found_and_no_other(keys: np.ndarray) -> None:
    runs = _many(1, 3, len(keys))
    table = make_table(keys, runs)
    assert table.ctypes.data % 64 == 0 and table.shape[1] == 2 * LINE
    assert _runs(table, keys).tolist() == runs.tolist()
    assert not _runs(table, np.setdiff1d(_many(1, 7, 1_000), keys)).any()
    entries = table_entries(table)
    order = np.argsort(entries[0])
    assert entries[0][order].tolist() == keys.tolist() and entries[1][order].tolist() == runs.tolist()


def test_lines_are_rarely_passed_over() -> None:
    table = make_table(_many(0, 12_345, 100_000), _many(1, 1, 100_000))
    assert (table[:, LINE - 1] >= 0).mean() < 0.2
