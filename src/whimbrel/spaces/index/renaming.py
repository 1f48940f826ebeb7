"""Other cuts in the same order: what an index does when the labels of strings are spread anew."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whimbrel.spaces.index.dimension_index import DimensionIndex
from whimbrel.spaces.layout import CELLS_USED, CUT, OTHER, PEER, PEER_HIGH, PEER_LOW, TAG, Int64s


def rename(regions: DimensionIndex, dimension: int, old: Int64s, new: Int64s) -> None:
    """Replace the cuts of a dimension by others in the same order."""
    regions.merge()  # dead entries would keep their cuts: leave them out
    index = regions.index
    chosen = index.rows.cells[:, 0] == dimension
    for part in (1, 2):
        _replace(index.rows.cells[:, part], chosen, old, new)
    for ends in (index.lows, index.highs):
        own = slice(*ends.start[0, dimension : dimension + 2])
        for column in (CUT, OTHER):
            _replace(ends.entries[own, column], None, old, new)
        peers = ends.entries[:, TAG] & PEER == dimension
        for column in (PEER_LOW, PEER_HIGH):
            _replace(ends.entries[:, column], peers, old, new)
        zones = ends.zones[slice(*ends.start[1, dimension : dimension + 2])]
        for column in range(3):
            _replace(zones[:, column], None, old, new)


def cuts_in_use(regions: DimensionIndex, dimension: int) -> Int64s:
    """All cuts of a dimension that some row has, or once had."""
    rows = regions.rows
    used = rows.cells[: rows.counts[CELLS_USED]]
    return np.unique(used[used[:, 0] == dimension, 1:])


def _replace(values: Int64s, chosen: NDArray[np.bool_] | None, old: Int64s, new: Int64s) -> None:
    """Replace, in place, the chosen values that are in `old`; others are left (no bound, or of a free slot)."""
    places = np.arange(len(values)) if chosen is None else np.flatnonzero(chosen)
    found = np.searchsorted(old, values[places])
    known = found < len(old)
    known[known] = old[found[known]] == values[places[known]]
    values[places[known]] = new[found[known]]
