"""Flat objects to ranks: the way of nearly every single event, without building an `Event` first.

A dict of scalars and lists of scalars is read in one pass into two lists: `attrs` and `cells`. A cell is a rank, or,
where the attribute is complemented (`~attr`), a number whose rank `rank_cells` then finds: one call for all numbers
of an event, or of many. Anything nested, and anything wrong, raises `NotFlat`: then `Event` reads the object, couples
what belongs together, and says what was expected where.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from whimbrel.engine.lookup import EXACT, EXACT_FLOAT, Lookup
from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_VALUES
from whimbrel.model.values import Timestamp, sort_key, to_value


class NotFlat(Exception):
    """The object must be read by `Event`."""


class Lane(NamedTuple):
    """What one attribute's values are looked up in: a tuple, because unpacking it is the cheapest way to all of it."""

    attr: int
    pending: int
    """`~attr`, or 0 if numbers must be ranked one by one."""
    texts: dict[str, int]
    lookup: Lookup


class Lanes(dict[str, Lane | None]):
    """The lane of each name that events have had, None for names that no filter mentions.

    A dict subclass, because a name that is there costs one lookup, and all but the first few events find theirs.
    """

    def __init__(self, find: Callable[[str], Lookup | None], timestamps: Collection[str]) -> None:
        self._find = find
        self.timestamps = frozenset(timestamps)

    def __missing__(self, name: str) -> Lane | None:
        if type(name) is not str:
            raise NotFlat
        _check_text(name)
        lookup = self._find(name)
        lane = None
        if lookup is not None:
            texts = {} if name in self.timestamps else lookup.texts
            lane = Lane(lookup.attr, 0 if lookup.number_kind == EXACT else ~lookup.attr, texts, lookup)
        if lane is not None or len(self) < EVENT_ATTRIBUTES.value:  # strangers must not fill the memory
            self[name] = lane
        return lane

    def append(self, event: dict[str, Any], attrs: list[int], cells: list[float]) -> None:
        """Adds the entries of a flat object; the most common types are handled in line."""
        members = 0
        for name, value in event.items():
            lane = self[name]
            kind = type(value)
            if kind is list:
                members += len(value)
                for member in value:
                    self._append_scalar(name, lane, member, attrs, cells)
                continue
            if lane is None:
                if kind is not float:
                    self._append_scalar(name, lane, value, attrs, cells)
                continue
            attr, pending, texts, _ = lane
            if kind is str:
                rank = texts.get(value)
                if rank is not None:
                    attrs.append(attr)
                    cells.append(rank)
                    continue
            elif pending and (kind is float or (kind is int and -EXACT_FLOAT <= value <= EXACT_FLOAT)):
                attrs.append(pending)
                cells.append(value)
                continue
            self._append_scalar(name, lane, value, attrs, cells)
        if len(event) > EVENT_ATTRIBUTES.value or len(event) + members > EVENT_VALUES.value:
            raise NotFlat

    def _append_scalar(self, name: str, lane: Lane | None, value: Any, attrs: list[int], cells: list[float]) -> None:
        """Checks any scalar as `Event` does, and adds it if the attribute is known."""
        kind = type(value)
        if kind is str and name not in self.timestamps:
            _check_text(value)
            rank = lane.lookup.rank_string(value) if lane is not None else 0
        elif value is None:
            rank = 0
        elif kind is bool:
            rank = 4 if value else 2
        elif isinstance(value, Mapping | list | tuple):
            raise NotFlat
        else:
            found = to_value(value, name)
            if isinstance(found, str) and name in self.timestamps:
                try:
                    found = Timestamp.parse(found)
                except ValueError:
                    raise NotFlat from None
            rank = 0 if found is None or lane is None else lane.lookup.rank(sort_key(found))
        if lane is not None:
            attrs.append(lane.attr)
            cells.append(rank)


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotFlat from None
