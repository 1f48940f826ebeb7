"""Spaces and dimensions: what is defined, and regions as users write them turned into cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from whimbrel.model.limits import Limit
from whimbrel.spaces.domains import DOMAINS, Integer, Number, String, Time, encode, show_text
from whimbrel.spaces.errors import EmptyRegion, RegionError, SpaceConflict, UnknownDimension, UnknownSpace
from whimbrel.spaces.intervals import Interval
from whimbrel.spaces.layout import HIGH, LOW, Int64s, Regions
from whimbrel.spaces.points import encode_points

Region: TypeAlias = Mapping[str, object]
Cells: TypeAlias = list[tuple[int, int, int]] | Int64s
T = TypeVar("T")

_MANY = 6
"""So many constraints are read faster as arrays."""

SPACES = Limit("spaces", 62, "spaces of one object", "a set of spaces is the bits of one integer")
DIMENSIONS = Limit("dimensions", 10_000, "dimensions of all spaces", "a search spreads a region over all of them")


class Definitions:
    """All spaces, and their dimensions: a dimension of the same name is the same in every space."""

    def __init__(self) -> None:
        self.spaces: dict[str, list[int]] = {}
        self.names: list[str] = []
        self.domains: list[Number | Integer | Time | String] = []
        self.strings: list[tuple[int, String]] = []
        """The dimensions of strings, by number."""
        self._number: dict[str, int] = {}
        self._is_number = np.zeros(0, bool)

    def check(self, space: str, dimensions: Mapping[str, str], in_use: Int64s) -> None:
        """SpaceConflict if the definition does not fit; `in_use` counts the regions that constrain a dimension."""
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
        self.strings = [(number, each) for number, each in enumerate(self.domains) if isinstance(each, String)]
        self._is_number = np.array([isinstance(domain, Number) for domain in self.domains])
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
        """The cells of a region in order; in a partial one None removes a constraint (low cut above the high one)."""
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
        """Regions of plain numbers, all at once; None if there is anything else in them."""
        return encode_points(regions, self._number, self._is_number)

    def stable(self, encode: Callable[[], T]) -> T:
        """What `encode` gives, once the labels of strings do not change while it runs."""
        while True:
            spread = sum(domain.labels.spread for _, domain in self.strings)
            encoded = encode()
            if spread == sum(domain.labels.spread for _, domain in self.strings):
                return encoded

    def decode(self, cells: Int64s) -> dict[str, Interval]:
        """A region with its intervals."""
        return {self.names[number]: self.domains[number].show(low, high) for number, low, high in cells.tolist()}

    def reader(self) -> Callable[[Int64s], dict[str, Interval]]:
        """What `decode` does, for cells of now at any later time: labels of strings change their meaning."""
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

    def members(self) -> list[list[int]]:
        """The dimensions of each space, by number."""
        return list(self.spaces.values())
