"""Kernels on rows: write and read regions, apply partial updates, compare regions one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.region_arrays import (
    AT,
    CAPACITY,
    CELLS_LOST,
    CELLS_USED,
    HIGH,
    LENGTH,
    LOW,
    PENDING_USED,
    REAL,
    VALID,
    PendingWrites,
    RegionRows,
)


@kernel
def _valid(cells: Int64s, begin: int, end: int, spaces: Int64s) -> int:
    """The spaces in which a region is valid."""
    valid = 0
    for cell in range(begin, end):
        valid |= spaces[cells[cell, 0]]
    return valid


@kernel
def _fill(cells: Int64s, at: int, real: int, small: Int64s, valid: int) -> None:
    """Add unbounded cells for the small spaces in which a region is valid."""
    length, given = real, 0
    for d in range(small.size):
        if given < real and cells[at + given, 0] == d:
            given += 1
        elif small[d] & valid != 0:
            cells[at + length, 0], cells[at + length, 1], cells[at + length, 2] = d, LOW, HIGH
            length += 1


@kernel
def _fillers(cells: Int64s, begin: int, end: int, small: Int64s, valid: int) -> int:
    """The number of cells that `_fill` adds."""
    count = 0
    for d in range(small.size):
        count += small[d] & valid != 0
    for cell in range(begin, end):
        count -= small[cells[cell, 0]] & valid != 0
    return count


@kernel
def _count(rows: RegionRows, row: int, by: int) -> None:
    """Add `by` to the counts of the spaces in which a region is valid and of the dimensions that it constrains."""
    position, valid = 0, rows.heads[row, VALID]
    while valid != 0:
        if valid & 1:
            rows.valid_in[position] += by
        valid >>= 1
        position += 1
    at = rows.heads[row, AT]
    for cell in range(at, at + rows.heads[row, REAL]):
        rows.constrains[rows.cells[cell, 0]] += by


@kernel
def _remember(rows: RegionRows, pending: PendingWrites, row: int) -> None:
    """Copy the cells of a row to the pending writes: its entries in the lists are made of them."""
    number = rows.counts[PENDING_USED]
    rows.counts[PENDING_USED] += 1
    rows.dirty[row] = 1
    at, length, begin = rows.heads[row, AT], rows.heads[row, LENGTH], pending.rows[number, 2]
    pending.rows[number, 0], pending.rows[number, 1] = row, rows.heads[row, REAL]
    pending.rows[number + 1, 2] = begin + length
    for cell in range(length):
        for part in range(3):
            pending.cells[begin + cell, part] = rows.cells[at + cell, part]
        pending.place[begin + cell] = rows.place[at + cell]


@kernel
def write_rows(
    row_arrays: Any, pending_arrays: Any, spaces: Int64s, small: Int64s, has_small: bool, row_numbers: Int32s,
    start: Int64s, cells: Int64s,
) -> None:  # fmt: skip
    """Give rows new regions; a region without cells empties its row. Rows and pending writes must have the capacity."""
    a, b = row_arrays, pending_arrays
    rows, pending = RegionRows(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]), PendingWrites(b[0], b[1], b[2])
    heads, counts = rows.heads, rows.counts
    for number in range(row_numbers.size):
        row, begin, end = row_numbers[number], start[number], start[number + 1]
        if rows.dirty[row] == 0:
            _remember(rows, pending, row)
        _count(rows, row, -1)
        valid = _valid(cells, begin, end, spaces)
        length = end - begin + (_fillers(cells, begin, end, small, valid) if has_small else 0)
        if length > heads[row, CAPACITY]:
            counts[CELLS_LOST] += heads[row, CAPACITY]
            heads[row, AT], heads[row, CAPACITY] = counts[CELLS_USED], length
            counts[CELLS_USED] += length
        heads[row, REAL], heads[row, LENGTH], heads[row, VALID] = end - begin, length, valid
        at = heads[row, AT]
        for cell in range(end - begin):
            for part in range(3):
                rows.cells[at + cell, part] = cells[begin + cell, part]
        if length > end - begin:
            _fill(rows.cells, at, end - begin, small, valid)
        _count(rows, row, 1)


@kernel
def read_rows(heads: Int64s, cells: Int64s, row_numbers: Int32s) -> tuple[Int64s, Int64s]:
    """The regions of rows, as users gave them: the two arrays of `Regions`."""
    start = np.zeros(row_numbers.size + 1, np.int64)
    for number in range(row_numbers.size):
        start[number + 1] = start[number] + heads[row_numbers[number], REAL]
    found = np.empty((start[row_numbers.size], 3), np.int64)
    for number in range(row_numbers.size):
        at = heads[row_numbers[number], AT]
        for cell in range(heads[row_numbers[number], REAL]):
            for part in range(3):
                found[start[number] + cell, part] = cells[at + cell, part]
    return start, found


@kernel
def changed(old_start: Int64s, old_cells: Int64s, change_start: Int64s, change_cells: Int64s) -> tuple[Int64s, Int64s]:
    """Apply partial updates to regions: a change with low > high removes the constraint, others replace or add it."""
    count = old_start.size - 1
    start = np.zeros(count + 1, np.int64)
    cells = np.empty((len(old_cells) + len(change_cells), 3), np.int64)
    at = 0
    for number in range(count):
        i, i_end = old_start[number], old_start[number + 1]
        j, j_end = change_start[number], change_start[number + 1]
        while i < i_end or j < j_end:
            if j == j_end or (i < i_end and old_cells[i, 0] < change_cells[j, 0]):
                for part in range(3):
                    cells[at, part] = old_cells[i, part]
                i += 1
                at += 1
                continue
            if i < i_end and old_cells[i, 0] == change_cells[j, 0]:
                i += 1
            if change_cells[j, 1] <= change_cells[j, 2]:
                for part in range(3):
                    cells[at, part] = change_cells[j, part]
                at += 1
            j += 1
        start[number + 1] = at
    return start, cells[:at].copy()


@kernel
def matrix(
    heads: Int64s, row_cells: Int64s, spaces: Int64s, start: Int64s, cells: Int64s, row_numbers: Int32s
) -> NDArray[np.bool_]:
    """A matrix (region, row) that says which regions match which rows."""
    count = start.size - 1
    held = np.zeros((count, row_numbers.size), np.bool_)
    low, high = np.full(spaces.size, LOW, np.int64), np.full(spaces.size, HIGH, np.int64)
    for number in range(count):
        valid = 0
        for cell in range(start[number], start[number + 1]):
            d = cells[cell, 0]
            low[d], high[d] = cells[cell, 1], cells[cell, 2]
            valid |= spaces[d]
        for column in range(row_numbers.size):
            row = row_numbers[column]
            shared, at = heads[row, VALID] & valid, heads[row, AT]
            for cell in range(at, at + heads[row, REAL]):
                d = row_cells[cell, 0]
                if row_cells[cell, 1] >= high[d] or low[d] >= row_cells[cell, 2]:
                    shared &= ~spaces[d]
            held[number, column] = shared != 0
        for cell in range(start[number], start[number + 1]):
            low[cells[cell, 0]], high[cells[cell, 0]] = LOW, HIGH
    return held
