"""The spaces and dimensions that are defined; regions are encoded to cells and decoded with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from whimbrel.compiled.jit import kernel
from whimbrel.model.limits import Limit
from whimbrel.spaces.dimension_domains import DOMAINS, EXACT, AnyDomain, NumberDomain, encode
from whimbrel.spaces.errors import EmptyRegion, RegionError, SpaceConflict, UnknownDimension, UnknownSpace
from whimbrel.spaces.index.region_arrays import HIGH, LOW, Int64s, Regions
from whimbrel.spaces.intervals import Interval
from whimbrel.spaces.strings import StringDomain, show_text

Region: TypeAlias = Mapping[str, object]
RegionReader: TypeAlias = Callable[[Int64s], dict[str, Interval]]
"""Decodes the cells of one region to intervals by dimension."""
Cells: TypeAlias = list[tuple[int, int, int]] | Int64s
T = TypeVar("T")

_MANY = 6
"""A region of at least this many constraints is encoded faster by `encode_points`."""
_LARGEST = float(np.finfo(np.float64).max)
_POINT_TYPES = {int, float, np.float64}

SPACES = Limit("spaces", 62, "spaces of one object", "a set of spaces is the bits of one integer")
DIMENSIONS = Limit("dimensions", 10_000, "dimensions of all spaces", "a query has bounds for all of them")


class Definitions:
    """All spaces and their dimensions. A dimension of the same name is the same dimension in every space."""

    def __init__(self) -> None:
        self.spaces: dict[str, list[int]] = {}
        self.names: list[str] = []
        self.domains: list[AnyDomain] = []
        self.strings: list[tuple[int, StringDomain]] = []
        """The dimensions of strings: number and domain."""
        self._number: dict[str, int] = {}
        self._is_number = np.zeros(0, bool)

    def check(self, space: str, dimensions: Mapping[str, str], in_use: Int64s) -> None:
        """Raise SpaceConflict if the definition does not fit; `in_use` counts regions that constrain a dimension."""
        if not isinstance(space, str) or not space:
            raise SpaceConflict(str(space), "its name is not a text")
        if space in self.spaces:
            raise SpaceConflict(space, "it is already defined")
        if not dimensions:
            raise SpaceConflict(space, "it has no dimensions")
        for name, kind in dimensions.items():
            if not isinstance(name, str) or kind not in DOMAINS:
                raise SpaceConflict(space, f"{name!r} has the type {kind!r}, which is none of {', '.join(DOMAINS)}")
            number = self._number.get(name)
            if number is None:
                continue
            if self.domains[number].name != kind:
                raise SpaceConflict(space, f"{name!r} is a {self.domains[number].name} in another space, not a {kind}")
            if in_use[number]:
                raise SpaceConflict(space, f"regions constrain {name!r} already; define spaces before")
        SPACES.check(len(self.spaces) + 1, space)
        DIMENSIONS.check(len(self.names) + sum(name not in self._number for name in dimensions), space)

    def add(self, space: str, dimensions: Mapping[str, str]) -> None:
        """Define a space that was checked."""
        for name, kind in dimensions.items():
            if name not in self._number:
                self._number[name] = len(self.names)
                self.names.append(name)
                self.domains.append(DOMAINS[kind]())
        self.strings = [(number, each) for number, each in enumerate(self.domains) if isinstance(each, StringDomain)]
        self._is_number = np.array([isinstance(domain, NumberDomain) for domain in self.domains])
        self.spaces[space] = [self._number[name] for name in dimensions]

    def dimensions(self, space: str) -> dict[str, str]:
        """The dimensions of a space and their types."""
        if space not in self.spaces:
            raise UnknownSpace(space, list(self.spaces))
        return {self.names[number]: self.domains[number].name for number in self.spaces[space]}

    def number(self, name: object, path: str) -> int:
        """The number of a dimension."""
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
        start = np.zeros(len(regions) + 1, np.int64)
        np.cumsum([len(region) for region in regions], out=start[1:])
        largest = float(EXACT) if int in kinds else _LARGEST
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


@kernel
def _point_cells(
    start: Int64s, dimensions: Int64s, numbers: NDArray[np.float64], is_number: NDArray[np.bool_], largest: float
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
