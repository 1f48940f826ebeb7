"""The spaces and dimensions that are defined; regions, and columns of many regions, are encoded to cells with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whimbrel.compiled.array_types import Bools, Floats, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.model.limits import Limit
from whimbrel.spaces.dimensions.dimension_domains import (
    EXACT,
    DimensionDomain,
    IntegerDomain,
    NumberDomain,
    NumericDomain,
    StringDomain,
    TimestampDomain,
    encode,
    float_codes,
)
from whimbrel.spaces.dimensions.errors import EmptyRegion, RegionError, SpaceConflict, UnknownDimension, UnknownSpace
from whimbrel.spaces.dimensions.interval import Interval
from whimbrel.spaces.dimensions.schema_domains import (
    DimensionType,
    PlainType,
    dimension_domain,
    plain_type,
)
from whimbrel.spaces.dimensions.strings import show_text
from whimbrel.spaces.index.region_arrays import HIGH, LOW, Regions, offsets

Key: TypeAlias = int | str
"""What a publication or a subscription is known by."""
Region: TypeAlias = Mapping[str, object]
RegionReader: TypeAlias = Callable[[Int64s], dict[str, Interval]]
"""Decodes the cells of one region to intervals by dimension."""
Cells: TypeAlias = list[tuple[int, int, int]] | Int64s
T = TypeVar("T")

_MANY = 6
"""A region of at least this many constraints is encoded faster by `encode_points`."""
_LARGEST = float(np.finfo(np.float64).max)
_LARGEST_INTEGER = 1 << 62
_POINT_TYPES = {int, float, np.float64}

SPACES = Limit("spaces", 62, "spaces of one object", "a set of spaces is the bits of one integer")
DIMENSIONS = Limit("dimensions", 10_000, "dimensions of all spaces", "a query has bounds for all of them")


@dataclass(frozen=True)
class Columns:
    """One region per key: for each dimension an array of points, or two arrays of closed bounds.

    Dimensions are numbers, integers or timestamps (datetime64). NaN and NaT mean no constraint in a new region, and no
    change in an update.
    """

    keys: Sequence[Key]
    values: Mapping[str, ArrayLike | tuple[ArrayLike, ArrayLike]]


class Definitions:
    """All spaces and their dimensions. A dimension of the same name is the same dimension in every space."""

    def __init__(self) -> None:
        self.spaces: dict[str, list[int]] = {}
        self.names: list[str] = []
        self.domains: list[DimensionDomain] = []
        self._types: list[PlainType] = []
        self.strings: list[tuple[int, StringDomain]] = []
        """The dimensions of strings: number and domain."""
        self._number: dict[str, int] = {}
        self._is_number = np.zeros(0, bool)

    def check(self, space: str, dimensions: Mapping[str, DimensionType], in_use: Int64s) -> None:
        """Raise SpaceConflict if the definition does not fit; `in_use` counts regions that constrain a dimension."""
        if not isinstance(space, str) or not space:
            raise SpaceConflict(str(space), "its name is not a text")
        if space in self.spaces:
            raise SpaceConflict(space, "it is already defined")
        if not dimensions:
            raise SpaceConflict(space, "it has no dimensions")
        for name, kind in dimensions.items():
            if not isinstance(name, str):
                raise SpaceConflict(space, f"the name of a dimension is {name!r}, which is not a text")
            try:
                dimension_domain(kind)
            except ValueError as error:
                raise SpaceConflict(space, f"{name!r} {error}") from None
            number = self._number.get(name)
            if number is None:
                continue
            if self._types[number] != plain_type(kind):
                raise SpaceConflict(space, f"{name!r} is a {self._types[number]} in another space, not a {kind}")
            if in_use[number]:
                raise SpaceConflict(space, f"regions constrain {name!r} already; define spaces before")
        SPACES.check(len(self.spaces) + 1, space)
        DIMENSIONS.check(len(self.names) + sum(name not in self._number for name in dimensions), space)

    def add(self, space: str, dimensions: Mapping[str, DimensionType]) -> None:
        """Define a space that was checked."""
        for name, kind in dimensions.items():
            if name not in self._number:
                self._number[name] = len(self.names)
                self.names.append(name)
                self.domains.append(dimension_domain(kind))
                self._types.append(plain_type(kind))
        self.strings = [(number, each) for number, each in enumerate(self.domains) if isinstance(each, StringDomain)]
        self._is_number = np.array([isinstance(each, NumberDomain) and each.limits is None for each in self.domains])
        self.spaces[space] = [self._number[name] for name in dimensions]

    def dimensions(self, space: str) -> dict[str, PlainType]:
        """The dimensions of a space and their types."""
        if space not in self.spaces:
            raise UnknownSpace(space, list(self.spaces))
        return {self.names[number]: self._types[number] for number in self.spaces[space]}

    def number(self, name: object, path: str) -> int:
        """The number of a dimension by its name; UnknownDimension if there is none."""
        number = self._number.get(name) if isinstance(name, str) else None
        if number is None:
            raise UnknownDimension(name, self.names, path)
        return number

    def encode_all(self, regions: Sequence[Region], path: str = "regions") -> list[Cells]:
        """The cells of regions; EmptyRegion if there are none."""
        if isinstance(regions, Mapping | str) or not isinstance(regions, Sequence):
            raise RegionError("a list of regions", type(regions).__name__, path)
        if not regions:
            raise EmptyRegion("at least one region", "none", path)
        return [self.encode(region, f"{path}[{place}]") for place, region in enumerate(regions)]

    def encode(self, region: Region, path: str, partial: bool = False) -> Cells:
        """The cells of a region, sorted by dimension.

        In a `partial` region None removes a constraint: its low cut is above the high one.
        """
        if not isinstance(region, Mapping):
            raise RegionError("a region: a mapping from dimensions to intervals", type(region).__name__, path)
        if not region and not partial:
            raise EmptyRegion("a constraint on at least one dimension", "none", path)
        if len(region) >= _MANY:
            points = self.encode_points([region])
            if points is not None:
                return points.cells
        cells: list[tuple[int, int, int]] = []
        for name, item in region.items():
            number = self.number(name, path)
            if partial and item is None:
                cells.append((number, HIGH, LOW))
            else:
                low, high = encode(self.domains[number], item, f"{path}.{name}")
                cells.append((number, low, high))
        cells.sort()
        return cells

    def encode_points(self, regions: Sequence[Region]) -> Regions | None:
        """The cells of regions whose constraints are all plain numbers; None if there is anything else in them.

        This is the usual content of a moving publication. One kernel call encodes the whole batch.
        """
        if set(map(type, regions)) != {dict}:
            return None
        values = [value for region in regions for value in region.values()]
        kinds = set(map(type, values))
        if not kinds <= _POINT_TYPES:
            return None
        try:
            dimensions = np.array([self._number[name] for region in regions for name in region], np.int64)
            numbers = np.array(values, np.float64)
        except (KeyError, OverflowError):
            return None
        start = offsets([len(region) for region in regions])
        largest = float(EXACT - 1) if int in kinds else _LARGEST  # what is above may have been rounded
        cells, is_done = _point_cells(start, dimensions, numbers, self._is_number, largest)
        return Regions(start, cells) if is_done else None

    def stable(self, encode: Callable[[], T]) -> T:
        """The result of `encode`, which is repeated if it changed the labels of strings that it had already used."""
        while True:
            relabelings = sum(domain.labels.relabelings for _, domain in self.strings)
            encoded = encode()
            if relabelings == sum(domain.labels.relabelings for _, domain in self.strings):
                return encoded

    def decode(self, cells: Int64s) -> dict[str, Interval]:
        """The region that cells describe, as intervals by dimension."""
        return {self.names[number]: self.domains[number].show(low, high) for number, low, high in cells.tolist()}

    def reader(self) -> RegionReader:
        """A function like `decode` that reads cells of this moment at any later time, although labels may change."""
        if not self.strings:
            return self.decode
        names, domains = self.names, self.domains
        texts = {number: domain.labels.cut_of for number, domain in self.strings}

        def read(cells: Int64s) -> dict[str, Interval]:
            return {
                names[number]: show_text(texts[number], low, high)
                if number in texts
                else domains[number].show(low, high)
                for number, low, high in cells.tolist()
            }

        return read


def read_all(regions: Regions, reader: RegionReader) -> list[dict[str, Interval]]:
    """Regions as users see them: intervals by dimension."""
    return [reader(regions.cells_of(place)) for place in range(len(regions.start) - 1)]


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
    return Regions(offsets(lengths), cells[known] if parts else np.zeros((0, 3), np.int64))


def _codes(array: NDArray[Any], domain: DimensionDomain, path: str) -> tuple[Int64s, NDArray[np.bool_]]:
    """The low cuts of values, and which values are not NaN or NaT."""
    kind = array.dtype.kind
    if isinstance(domain, NumericDomain) and domain.limits is not None and kind in "iuf":
        for value in array[~np.isnan(array)].tolist():
            domain.cut(value, False, path)
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
    if len(array) and (array.max() >= _LARGEST_INTEGER or array.min() <= -_LARGEST_INTEGER):
        raise RegionError("at most 62 bits", "larger values", path)
    return array.astype(np.int64)


@kernel
def _point_cells(
    start: Int64s, dimensions: Int64s, numbers: Floats, is_number: Bools, largest: float
) -> tuple[Int64s, bool]:
    """The cells of all regions, sorted by dimension, and whether all values are finite and all dimensions numbers."""
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
