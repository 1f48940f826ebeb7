"""Batches of regions as columns: the fast form for many moving points or boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whimbrel.spaces.dimension_domains import IntegerDomain, NumberDomain, TimestampDomain, float_codes
from whimbrel.spaces.errors import EmptyRegion, RegionError
from whimbrel.spaces.index.region_arrays import Int64s, Regions
from whimbrel.spaces.notifications import Key
from whimbrel.spaces.space_definitions import Definitions

_LARGEST = 1 << 62


@dataclass(frozen=True)
class Columns:
    """One region per key: for each dimension an array of points, or two arrays of closed bounds.

    Dimensions are numbers, integers or timestamps (datetime64). NaN and NaT mean no constraint in a new region, and no
    change in an update.
    """

    keys: Sequence[Key]
    values: Mapping[str, ArrayLike | tuple[ArrayLike, ArrayLike]]


def encode_columns(columns: Columns, definitions: Definitions, partial: bool) -> Regions:
    """Encode columns to regions. In a `partial` batch a row may have no constraint."""
    count = len(columns.keys)
    parts: list[tuple[int, Int64s, Int64s, NDArray[np.bool_]]] = []
    for name, column in columns.values.items():
        path = f"columns.{name}"
        number = definitions.number(name, path)
        pair = column if isinstance(column, tuple) else (column, column)
        cuts = []
        for values in pair:
            array = np.asarray(values)
            if array.shape != (count,):
                raise RegionError(f"{count} values", f"an array of shape {array.shape}", path)
            cuts.append(_codes(array, definitions.domains[number], path))
        (low, known), (high, also_known) = cuts
        if not np.array_equal(known, also_known):
            raise RegionError("both bounds, or none", "one of them", path)
        if (low > high)[known].any():
            row = int(np.flatnonzero(known & (low > high))[0])
            raise EmptyRegion("an interval with values", f"[{pair[0][row]}, {pair[1][row]}]", f"{path}[{row}]")
        parts.append((number, low, high + 1, known))
    parts.sort(key=lambda part: part[0])
    known = np.stack([part[3] for part in parts], axis=1) if parts else np.zeros((count, 0), bool)
    lengths = known.sum(axis=1)
    if not partial and (lengths == 0).any():
        row = int(np.flatnonzero(lengths == 0)[0])
        raise EmptyRegion("a constraint on at least one dimension", "none", f"columns, row {row}")
    cells = np.empty((count, len(parts), 3), np.int64)
    for place, (number, low, high, _) in enumerate(parts):
        cells[:, place, 0], cells[:, place, 1], cells[:, place, 2] = number, low, high
    start = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=start[1:])
    return Regions(start, cells[known] if parts else np.zeros((0, 3), np.int64))


def _codes(array: NDArray[Any], domain: object, path: str) -> tuple[Int64s, NDArray[np.bool_]]:
    """The low cuts of values, and which values are not NaN or NaT."""
    kind = array.dtype.kind
    if isinstance(domain, TimestampDomain) and kind == "M":
        known = ~np.isnat(array)
        return _sized(np.where(known, array.astype("datetime64[ns]").astype(np.int64), 0), path), known
    if isinstance(domain, IntegerDomain) and kind in "iu":
        return _sized(array, path), np.ones(len(array), bool)
    if isinstance(domain, NumberDomain) and kind in "iuf":
        numbers = array.astype(np.float64)
        if kind != "f" and (numbers.astype(array.dtype) != array).any():
            raise RegionError("numbers that binary64 can hold", "larger integers", path)
        if np.isinf(numbers).any():
            raise RegionError("finite numbers", "an infinity", path)
        return float_codes(numbers), ~np.isnan(numbers)
    kinds = {TimestampDomain: "datetime64", IntegerDomain: "integers", NumberDomain: "numbers"}
    raise RegionError(f"an array of {kinds.get(type(domain), 'numbers or timestamps')}", str(array.dtype), path)


def _sized(array: NDArray[Any], path: str) -> Int64s:
    if len(array) and (array.max() >= _LARGEST or array.min() <= -_LARGEST):
        raise RegionError("at most 62 bits", "larger values", path)
    return array.astype(np.int64)
