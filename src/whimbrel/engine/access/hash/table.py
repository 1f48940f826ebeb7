"""The table of hash keys: exact 64-bit keys, each with the run of records or references that stands under it.

A line of the table is a cache line: four keys, -1 for none, then their four runs. A key lies in the line that its hash
names, or in the first line after it that had a free place; a search ends at a line with a free place. Most searches
read one line, and they do the same there whether they find the key or not.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import helper, kernel
from whimbrel.compiled.views import at_line_start

LINE = 4
"""Keys of a line, at most."""
USUAL = 2
"""Keys of a line, on average."""


def make_table(keys: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """The table of different keys, not negative, with the run of each."""
    lines = max(2, -(-len(keys) // USUAL))
    table = at_line_start(lines * 2 * LINE).reshape(lines, 2 * LINE)
    table[:] = -1
    _fill(table, keys, runs)
    return table


def table_entries(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The keys of a table, and their runs."""
    keys, runs = table[:, :LINE].ravel(), table[:, LINE:].ravel()
    return keys[keys >= 0], runs[keys >= 0]


@helper
def line_of(key: int, lines: int) -> np.uint64:
    """The line in which the search for a key begins."""
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return ((h >> np.uint64(32)) * np.uint64(lines)) >> np.uint64(32)


@helper
def find(table: np.ndarray, key: int) -> int:
    """The run of a key, or 0."""
    lines = np.uint64(table.shape[0])
    at = line_of(key, lines)  # type: ignore[arg-type]
    while True:
        found = np.int64(0)
        for i in range(LINE):
            found |= table[at, np.uint64(LINE + i)] & -np.int64(table[at, np.uint64(i)] == key)
        if (found != 0) | (table[at, np.uint64(LINE - 1)] < 0):
            return found  # type: ignore[return-value]
        at += np.uint64(1)
        if at == lines:
            at = np.uint64(0)


@kernel
def _fill(table: np.ndarray, keys: np.ndarray, runs: np.ndarray) -> None:
    for k in range(keys.size):
        at, i = line_of(keys[k], table.shape[0]), 0
        while table[at, i] >= 0:
            i += 1
            if i == LINE:
                i = 0
                at += np.uint64(1)
                if at == table.shape[0]:
                    at = np.uint64(0)
        table[at, i], table[at, LINE + i] = keys[k], runs[k]
