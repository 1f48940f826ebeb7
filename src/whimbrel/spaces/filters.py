"""Filters: what one side asks of the other's regions (ALGORITHMS 18).

The usual filter is conjunctive: each of one's own regions matches some region of the other side. Other filters are
functions, registered by name so that a journal can name them. They are asked only where at least one pair of regions
matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from whimbrel.spaces.errors import OptionError
from whimbrel.spaces.intervals import Interval

Described: TypeAlias = Sequence[Mapping[str, Interval]]
RegionFilter: TypeAlias = Callable[[Described, Described, Sequence[tuple[int, int]]], bool]
"""Gets its own regions, the other side's, and the pairs of them that match, by place; says whether that will do."""

ALL, ANY = "all", "any"


def _any(own: Described, other: Described, pairs: Sequence[tuple[int, int]]) -> bool:
    return bool(pairs)


class Filters:
    """Filters by name; `all` is the usual one, `any` is content with one pair."""

    def __init__(self, more: Mapping[str, RegionFilter] | None = None) -> None:
        self._named: dict[str, RegionFilter] = {ANY: _any, **(more or {})}
        if ALL in self._named:
            raise OptionError("filters", f"another name than {ALL!r}", ALL)

    def check(self, name: str) -> str:
        """The name, if there is such a filter."""
        if name != ALL and name not in self._named:
            raise OptionError("filter", f"one of {', '.join([ALL, *self._named])}", name)
        return name

    def __getitem__(self, name: str) -> RegionFilter:
        return self._named[name]
