"""Runs: rows of a matrix, cut by offsets into runs of different lengths. Equal runs are found by hash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Int32s, Int64s, Uint64s
from whimbrel.compiled.jit import helper, kernel

Cells = TypeVar("Cells", Int32s, Int64s)


def offsets(lengths: npt.NDArray[Any] | Sequence[int]) -> Int64s:
    """Where each of the runs of these lengths starts, and where the last one ends."""
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def bytes_of(*arrays: Any) -> int:
    """The bytes of arrays, also of those in tuples."""
    return sum(bytes_of(*array) if isinstance(array, tuple) else array.nbytes for array in arrays)


def joined(lists: Iterable[Sequence[int]]) -> tuple[Int64s, Int32s]:
    """Join lists. Return where each starts, and the end, and the members of all."""
    lists = list(lists)
    return offsets([len(one) for one in lists]), np.array([member for one in lists for member in one], np.int32)


def unique_runs(start: Int64s, cells: Int32s) -> tuple[Int64s, Int64s]:
    """Find equal runs of rows of a matrix. Return the group of each run, and the first run of each group."""
    hashes = _run_hashes(start, cells)
    order = np.argsort(hashes, kind="stable")
    leader: Int64s = _leaders(order, hashes, start, cells)
    keep, group = np.unique(leader, return_inverse=True)
    return group.astype(np.int64), keep


def take_runs(start: Int64s, cells: Cells, keep: Int64s) -> tuple[Int64s, Cells]:
    """The runs of these numbers, one after the other."""
    lengths = np.diff(start)[keep]
    fresh = offsets(lengths)
    index = np.repeat(start[keep] - fresh[:-1], lengths) + np.arange(fresh[-1])
    return fresh, cells[index]


@helper
def find_edge(edges: Int32s, low: int, high: int, label: int) -> int:
    """The child by the edge of this label among edges[low:high], which are sorted (label, child); -1 if none."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if edges[middle, 0] < label:
            low = middle + 1
        else:
            high = middle
    return int(edges[low, 1]) if low < end and edges[low, 0] == label else -1


@kernel
def _run_hashes(start: Int64s, cells: Int32s) -> npt.NDArray[np.uint64]:
    out = np.empty(start.size - 1, dtype=np.uint64)
    for run in range(out.size):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for row in range(start[run], start[run + 1]):
            for column in range(cells.shape[1]):
                mixed = (mixed ^ np.uint64(cells[row, column])) * np.uint64(0xBF58476D1CE4E5B9)
                mixed ^= mixed >> np.uint64(29)
        out[run] = mixed
    return out


@kernel
def _leaders(order: Int64s, hashes: Uint64s, start: Int64s, cells: Int32s) -> Int64s:
    """The first run that equals each run; runs whose hashes collide may stay apart, which costs space only."""
    out = np.empty(order.size, dtype=np.int64)
    leader = -1
    for place in range(order.size):
        run = order[place]
        same = leader >= 0 and hashes[leader] == hashes[run]
        if same:
            size = start[run + 1] - start[run]
            same = start[leader + 1] - start[leader] == size
            row = 0
            while same and row < size:
                for column in range(cells.shape[1]):
                    same = same and cells[start[leader] + row, column] == cells[start[run] + row, column]
                row += 1
        if not same:
            leader = run
        out[run] = leader
    return out
