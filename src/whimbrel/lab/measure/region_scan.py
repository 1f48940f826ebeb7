"""The rival of subject spaces: a compiled scan of all regions for every change.

Bias. It gets the same bounds, laid out by rows, and one thread. It does not look up keys, make notifications, or keep
anything up to date: a subscription is a row that never moves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.region_arrays import HIGH, LOW, Regions

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


@kernel
def scan(stored: Regions, olds: Regions, news: Regions, dimensions: int) -> tuple[Int64s, Int32s]:
    """For each changed region, the stored regions that overlap its new content and not its old one.

    Returns offsets and rows. All dimensions belong to one space.
    """
    count, rows = news.start.size - 1, stored.start.size - 1
    begins, out, found = np.zeros(count + 1, np.int64), np.empty(1024, np.int32), 0
    old, new = np.empty((2, dimensions), np.int64), np.empty((2, dimensions), np.int64)
    for number in range(count):
        old[0, :], old[1, :], new[0, :], new[1, :] = LOW, HIGH, LOW, HIGH
        had = olds.start[number + 1] > olds.start[number]
        for cell in range(olds.start[number], olds.start[number + 1]):
            old[0, olds.cells[cell, 0]], old[1, olds.cells[cell, 0]] = olds.cells[cell, 1], olds.cells[cell, 2]
        for cell in range(news.start[number], news.start[number + 1]):
            new[0, news.cells[cell, 0]], new[1, news.cells[cell, 0]] = news.cells[cell, 1], news.cells[cell, 2]
        if found + rows > out.size:
            larger = np.empty(2 * (found + rows), np.int32)
            larger[:found] = out[:found]
            out = larger
        for row in range(rows):
            matches, matched = True, had
            for cell in range(stored.start[row], stored.start[row + 1]):
                d, low, high = stored.cells[cell, 0], stored.cells[cell, 1], stored.cells[cell, 2]
                if low >= new[1, d] or new[0, d] >= high:
                    matches = False
                    break
                if low >= old[1, d] or old[0, d] >= high:
                    matched = False
            if matches and not matched:
                out[found] = row
                found += 1
        begins[number + 1] = found
    return begins, out[:found]
