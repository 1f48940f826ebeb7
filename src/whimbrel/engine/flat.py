"""Flat objects to ranks: the way of nearly every single event, without building an `Event` first.

A dict of scalars and lists of scalars is read in one pass into two arrays: `attrs` and `cells`. A cell is a rank, or,
where the attribute is complemented (`~attr`), a number whose rank `rank_cells` then finds: one call for all numbers
of an event, or of many. Anything nested, and anything wrong, raises `NotFlat`: then `Event` reads the object, couples
what belongs together, and says what was expected where.

Most streams have few *shapes* of objects (names and types of values), so what to do with each place is worked out
once per shape; then the interpreter has next to nothing to do for a number, and little for a text.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from whimbrel.engine.lookup import EXACT, EXACT_FLOAT, Lookup
from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_VALUES
from whimbrel.model.values import Timestamp, sort_key, to_value

SHAPES = 256
"""Shapes that are remembered; when so many others have come that looking is a waste, it ends."""
PATIENCE = 10_000
"""Objects of unknown shapes, beyond those of known ones, after which it does."""


class NotFlat(Exception):
    """The object must be read by `Event`."""


class Lane(NamedTuple):
    """What one attribute's values are looked up in: a tuple, because unpacking it is the cheapest way to all of it."""

    attr: int
    pending: int
    """`~attr`, or 0 if numbers must be ranked one by one."""
    texts: dict[str, int]
    lookup: Lookup


class Shape:
    """Where objects with the same names and types of values have what, for reading them by whole tuples."""

    def __init__(self, kinds: Sequence[type], lanes: Sequence[Lane | None]) -> None:
        def places(kind: type, known: bool) -> list[int]:
            return [i for i, own in enumerate(kinds) if own is kind and (lanes[i] is not None) == known]

        numbers = places(float, True) + places(int, True)
        texts, flags, nulls = (places(kind, True) for kind in (str, bool, type(None)))
        self.attrs = array("i", [lane.pending for i in numbers if (lane := lanes[i])])
        self.attrs.extend(lane.attr for i in (*texts, *flags, *nulls) if (lane := lanes[i]))
        self._numbers, self._texts, self._flags = _getter(numbers), _getter(texts), _getter(flags)
        self._nulls = [0] * len(nulls)
        self._integers = _getter(places(int, True) + places(int, False))
        self._strange_texts = _getter(places(str, False))
        self._lookups = [lane.lookup for i in texts if (lane := lanes[i])]
        self._finds = [lookup.texts.get for lookup in self._lookups]

    def cells(self, values: tuple[Any, ...]) -> list[float] | None:
        """The cells beside `attrs`; None if a value is not as simple as its type."""
        integers = self._integers(values)
        if integers and (max(integers) > EXACT_FLOAT or min(integers) < -EXACT_FLOAT):
            return None
        if not all(map(str.isascii, self._strange_texts(values))):
            return None
        texts = self._texts(values)
        ranks = [find(text) for find, text in zip(self._finds, texts, strict=True)]
        if None in ranks:
            if not all(map(str.isascii, texts)):
                return None
            ranks = [lookup.rank_string(text) for lookup, text in zip(self._lookups, texts, strict=True)]
        flags = [4 if flag else 2 for flag in self._flags(values)]
        return [*self._numbers(values), *ranks, *flags, *self._nulls]


class Lanes(dict[str, Lane | None]):
    """The lane of each name that events have had, None for names that no filter mentions.

    A dict subclass, because a name that is there costs one lookup, and all but the first few events find theirs.
    """

    def __init__(self, find: Callable[[str], Lookup | None], timestamps: Collection[str]) -> None:
        self._find = find
        self.timestamps = frozenset(timestamps)
        self._shapes: dict[object, Shape | Literal[False]] = {}
        self._patience = PATIENCE

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

    def append(self, event: dict[str, Any], attrs: array[int], cells: list[float]) -> None:
        """Adds the entries of a flat object."""
        if self._patience > 0:
            values = tuple(event.values())
            key = tuple(event), tuple(map(type, values))
            shape = self._shapes.get(key)
            if shape is None:
                shape = self._new_shape(key)
            if shape:
                found = shape.cells(values)
                if found is not None:
                    attrs += shape.attrs
                    cells += found
                    return
        self._append_each(event, attrs, cells)

    def _new_shape(self, key: tuple[tuple[str, ...], tuple[type, ...]]) -> Shape | Literal[False]:
        """How to read objects of these names and types; False if one by one."""
        names, kinds = key
        self._patience -= 1
        if len(self._shapes) >= SHAPES or len(names) > EVENT_ATTRIBUTES.value:
            return False
        shape: Shape | Literal[False] = False
        if _PLAIN.issuperset(kinds):
            lanes = [self[name] for name in names]
            odd_texts = any(kind is str and name in self.timestamps for name, kind in zip(names, kinds, strict=True))
            if not odd_texts and all(lane is None or lane.pending for lane in lanes):
                shape = Shape(kinds, lanes)
        self._shapes[key] = shape
        return shape

    def _append_each(self, event: dict[str, Any], attrs: array[int], cells: list[float]) -> None:
        """Adds the entries of a flat object one by one; the most common types are handled in line."""
        members = 0
        for name, value in event.items():
            lane = self[name]
            kind = type(value)
            if kind is list:
                members += len(value)
                for member in value:
                    self._append_scalar(name, lane, member, attrs, cells)
                continue
            if lane is not None:
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
            elif kind is float:
                continue
            self._append_scalar(name, lane, value, attrs, cells)
        if len(event) > EVENT_ATTRIBUTES.value or len(event) + members > EVENT_VALUES.value:
            raise NotFlat

    def _append_scalar(self, name: str, lane: Lane | None, value: Any, attrs: array[int], cells: list[float]) -> None:
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


_PLAIN = frozenset((float, int, str, bool, type(None)))


def _getter(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """The values at these places, taken in one step."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0, 0))


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotFlat from None
