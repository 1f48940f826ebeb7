"""Regions of plain numbers, turned into cells all at once: the usual content of a moving publication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.domains import EXACT
from whimbrel.spaces.layout import Int64s, Regions

_LARGEST = float(np.finfo(np.float64).max)
_KINDS = {int, float, np.float64}


def encode_points(
    regions: Sequence[Mapping[str, object]], number_of: Mapping[str, int], is_number: NDArray[np.bool_]
) -> Regions | None:
    """The cells of regions that bind dimensions of numbers to numbers; None if there is anything else in them."""
    if set(map(type, regions)) != {dict}:
        return None
    values = [value for region in regions for value in region.values()]
    kinds = set(map(type, values))
    if not kinds <= _KINDS:
        return None
    try:
        dimensions = np.array([number_of[name] for region in regions for name in region], np.int64)
        numbers = np.array(values, np.float64)
    except (KeyError, OverflowError):
        return None
    start = np.zeros(len(regions) + 1, np.int64)
    np.cumsum([len(region) for region in regions], out=start[1:])
    cells, is_done = _cells(start, dimensions, numbers, is_number, float(EXACT) if int in kinds else _LARGEST)
    return Regions(start, cells) if is_done else None


@kernel
def _cells(
    start: Int64s, dimensions: Int64s, numbers: NDArray[np.float64], is_number: NDArray[np.bool_], largest: float
) -> tuple[Int64s, bool]:
    """The cells in order of dimensions, and whether all numbers are within bounds."""
    bits = numbers.view(np.int64)
    cells = np.empty((len(numbers), 3), np.int64)
    for region in range(len(start) - 1):
        for item in range(start[region], start[region + 1]):
            d = dimensions[item]
            if not is_number[d] or not -largest <= numbers[item] <= largest:
                return cells, False
            low = bits[item] if bits[item] >= 0 else -(bits[item] & 0x7FFFFFFFFFFFFFFF)
            at = item
            while at > start[region] and cells[at - 1, 0] > d:
                for part in range(3):
                    cells[at, part] = cells[at - 1, part]
                at -= 1
            cells[at, 0], cells[at, 1], cells[at, 2] = d, low, low + 1
    return cells, True
