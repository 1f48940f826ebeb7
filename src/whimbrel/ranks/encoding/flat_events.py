"""Turns flat objects into cells, in one pass and without building an `Event`.

A dict of scalars and lists of scalars takes one lookup for each name and each known text; `rank_cells` ranks the
numbers afterwards. Anything nested or wrong raises `NotFlat`: then `Event` reads the object, couples values that belong
together, and reports errors.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_VALUES
from whimbrel.model.values import Timestamp, sort_key, to_value
from whimbrel.ranks.cells import DROPPED, FALSE, NULL, TRUE
from whimbrel.ranks.kernel_arrays import EXACT, EXACT_FLOAT
from whimbrel.ranks.lookup import Lookup


class NotFlat(Exception):
    """The object must be read by `Event`."""


class NameReader(NamedTuple):
    """Reads the values of one name. A tuple, because its fields are the cheapest to reach."""

    attr: int
    """-1 if no filter mentions the name."""
    texts: dict[str, float]
    """The cell of any text."""
    name: str
    lookup: Lookup | None

    @property
    def is_exact(self) -> bool:
        """Whether the numbers of its attribute must be compared one by one."""
        return self.lookup is not None and self.lookup.number_kind == EXACT

    def cell(self, value: Any) -> float:
        """The cell of any scalar, which is checked as `Event` checks it."""
        kind = type(value)
        if value is None:
            return NULL
        if kind is bool:
            return TRUE if value else FALSE
        if kind is str:
            return self.texts[value]
        if isinstance(value, Mapping | list | tuple):
            raise NotFlat
        found = to_value(value, self.name)
        if isinstance(found, str):
            return self.texts[found]
        return NULL if found is None or self.lookup is None else self.lookup.cell(sort_key(found))


class FlatReader(dict[str, NameReader]):
    """Reads flat objects; a dict of the reader of each name that events have had.

    A known name costs one lookup, and after the first events nearly all names are known.
    """

    def __init__(self, find: Callable[[str], Lookup | None], timestamps: Collection[str]) -> None:
        self._find = find
        self.timestamps = frozenset(timestamps)
        self._exact = False
        self._unmentioned = _Unmentioned()

    def __missing__(self, name: str) -> NameReader:
        if type(name) is not str:
            raise NotFlat
        _check_text(name)
        lookup = self._find(name)
        texts = self._unmentioned if lookup is None else lookup.texts
        reader = NameReader(
            -1 if lookup is None else lookup.attr, _Times(lookup) if name in self.timestamps else texts, name, lookup
        )
        self._exact |= lookup is not None and lookup.number_kind == EXACT
        if lookup is not None or len(self) < EVENT_ATTRIBUTES.value:  # other names must not fill the memory
            self[name] = reader
        return reader

    def append(self, event: dict[str, Any], attrs: array[int], cells: list[float]) -> None:
        """Append the entries of a flat object, among them dropped ones that `rank_cells` leaves out."""
        lists: list[tuple[NameReader, list[Any]]] = []
        first, most, reader_of, add = len(cells), EXACT_FLOAT, self.__getitem__, cells.append
        numbers = []
        for name, value in event.items():
            reader = reader_of(name)
            numbers.append(reader[0])
            kind = type(value)
            if kind is str:
                add(reader[1][value])
            elif (kind is int and -most <= value <= most) or (kind is float and value == value):  # noqa: PLR0124
                add(value)
            else:
                add(_other(reader, value, lists))  # NaN too
        attrs.extend(numbers)
        if self._exact:
            for place, (name, value) in enumerate(event.items(), first):
                if self[name].is_exact and type(value) is not list:
                    cells[place] = self[name].cell(value)
        for reader, members in lists:
            attrs.extend([reader.attr] * len(members))
            cells += map(reader.cell, members)
        if len(event) > EVENT_ATTRIBUTES.value or len(cells) - first > EVENT_VALUES.value:
            raise NotFlat


def _other(reader: NameReader, value: Any, lists: list[tuple[NameReader, list[Any]]]) -> float:
    """The cell of a value that is no plain number or text; members of lists are appended after all other entries."""
    if type(value) is list:
        lists.append((reader, value))
        return DROPPED
    return reader.cell(value)


class _Unmentioned(dict[str, float]):
    """The cells of texts of names that no filter mentions: all are null."""

    def __missing__(self, text: str) -> float:
        _check_text(text)
        return NULL


class _Times(dict[str, float]):
    """The cells of texts that are read as timestamps."""

    def __init__(self, lookup: Lookup | None) -> None:
        self._lookup = lookup

    def __missing__(self, text: str) -> float:
        try:
            found = Timestamp.parse(text)
        except ValueError:
            raise NotFlat from None
        return NULL if self._lookup is None else self._lookup.cell(sort_key(found))


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotFlat from None
