"""The dictionary of a set of filters: the sorted constants of every attribute, and the ranks of values among them.

A rank is an int32. For every attribute rank 0 is null, and the types follow one another: booleans, numbers, strings,
timestamps. With n constants of a type its block has 2n + 1 ranks from `base` on: constant i has rank base + 2i + 1, and
a value between constants i - 1 and i has rank base + 2i. Values of one rank satisfy the same constraints, so a set of
values is exactly a list of rank intervals, and kernels compare integers only.

`dictionary_builder` makes a dictionary from constants; a segment stores its arrays and its meta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from functools import cached_property
from typing import TypeAlias, cast

import msgspec
import numpy as np

from whimbrel.model.intervals import Cut, IntervalSet
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP
from whimbrel.ranks.arrow import Strings, one_array, string_buffers
from whimbrel.ranks.kernel_arrays import EXACT, INTEGERS
from whimbrel.ranks.lookup import Lookup

NumberColumn: TypeAlias = np.ndarray | Sequence[int | float]

_DERIVED = "\udc00"
"""The first character of the keys of derived attributes: a lone surrogate, which no name of a user has."""


def derived_key(*names: str) -> str:
    """The key of a derived attribute: of one name, the attribute of its fragments; of two, that of their comparison.

    No attribute of a user can have such a key.
    """
    return "".join(_DERIVED + name for name in names)


def source_names(key: str) -> list[str]:
    """The attributes from which an attribute is derived: one, or two that are compared; none if it is not derived."""
    return key.split(_DERIVED)[1:]


class DictionaryMeta(msgspec.Struct, frozen=True):
    """The small facts of a dictionary, stored beside its arrays."""

    attributes: list[str]
    """The name of each attribute; a derived one has the name of its (first) source."""
    exact_numbers: dict[str, list[str]] = {}
    """The numbers of each attribute, as their repr, if neither int64 nor binary64 holds all of them exactly."""
    exact_times: dict[str, list[int]] = {}
    """The timestamps of each attribute in nanoseconds, if int64 does not hold all of them."""
    derived: list[tuple[int, int, bool]] = []
    """Attributes of fragments: the attribute, its source, and whether several tests must hold for the same value."""
    links: list[tuple[int, int, int]] = []
    """Attributes of comparisons (`ranks.links`): the attribute, and the two that it compares."""


class Dictionary:
    """The constants of all attributes. Immutable, safe for many threads; lookups are made on first use and kept."""

    def __init__(self, arrays: Mapping[str, np.ndarray], meta: DictionaryMeta) -> None:
        self.arrays = arrays
        self.meta = meta
        self._lookups: dict[int, Lookup] = {}

    @property
    def names(self) -> list[str]:
        """The name of each attribute; a derived one has the name of its source."""
        return self.meta.attributes

    @property
    def rank_base(self) -> np.ndarray:
        """int32[attributes, 5]: the first rank of each type, then the number of ranks."""
        return self.arrays["rank_base"]

    @cached_property
    def attributes(self) -> dict[str, int]:
        """The number of each attribute by its key: its name, or the `derived_key` of a derived one."""
        return {self.key_of(attr): attr for attr in range(len(self.names))}

    @cached_property
    def sources(self) -> dict[str, int]:
        """The number of each attribute that events may have: all but the derived ones."""
        return {name: attr for attr, name in enumerate(self.names) if attr not in self._derived_from}

    @cached_property
    def _derived_from(self) -> dict[int, tuple[int, ...]]:
        """The sources of each derived attribute."""
        patterns = {attr: (source,) for attr, source, _ in self.meta.derived}
        return {**patterns, **{attr: (left, right) for attr, left, right in self.meta.links}}

    def key_of(self, attr: int) -> str:
        """The key of an attribute: its name, or the `derived_key` of a derived one."""
        sources = self._derived_from.get(attr)
        return self.names[attr] if sources is None else derived_key(*(self.names[source] for source in sources))

    def base(self, attr: int, type: int) -> int:
        """The first rank of a type; for the number after the last type, the number of ranks."""
        return int(self.arrays["rank_base"][attr, type])

    def lookup(self, attr: int) -> Lookup:
        """The constants of an attribute."""
        found = self._lookups.get(attr)
        if found is None:
            found = self._lookups[attr] = self._new_lookup(attr)
        return found

    def _new_lookup(self, attr: int) -> Lookup:
        meta, key = self.meta, str(attr)
        return Lookup(self.arrays, attr, self.names[attr], meta.exact_numbers.get(key), meta.exact_times.get(key))

    def low(self, attr: int, cut: Cut) -> int:
        """The first rank above a cut, whose value must be a constant."""
        type_number, finite, value, after = cut
        if not finite:
            return self.base(attr, type_number)
        assert value is not None
        return self.lookup(attr).rank((type_number, value)) + after

    def high(self, attr: int, cut: Cut) -> int:
        """The last rank below a cut, whose value must be a constant."""
        return self.low(attr, cut) - 1

    def spans(self, attr: int, values: IntervalSet) -> list[tuple[int, int]]:
        """The rank intervals of a set of values, first and last rank of each. The ends of the set must be constants."""
        return [(self.low(attr, low), self.high(attr, high)) for low, high in values.pairs()]

    def ranks_of(self, attr: int, type: int, values: NumberColumn | Strings) -> np.ndarray:
        """The int32 ranks of many constants of one type; ValueError if one of them is no constant."""
        lookup = self._new_lookup(attr)  # a new one, so that its search structures are freed at the end
        if type == NUMBER:
            return _checked(_number_ranks(lookup, cast(NumberColumn, values)), lookup.number_base, lookup)
        if type == STRING:
            offsets, data = string_buffers(one_array(cast(Strings, values)))
            ranks = np.empty(len(offsets) - 1, np.int32)
            lookup.rank_strings(offsets, data, ranks)
            return _checked(ranks, lookup.string_base, lookup)
        assert type == TIMESTAMP
        return _checked(_time_ranks(lookup, cast("np.ndarray | Sequence[int]", values)), lookup.time_base, lookup)


def _number_ranks(lookup: Lookup, values: NumberColumn) -> np.ndarray:
    ranks = np.empty(len(values), np.int32)
    if lookup.number_kind == EXACT:
        ranks[:] = [lookup.rank_number(v) for v in (values.tolist() if isinstance(values, np.ndarray) else values)]
    elif lookup.number_kind == INTEGERS:
        integers = np.asarray(values, np.int64)
        if _are_few(values, lookup.number_array):
            ranks[:] = _found(integers, lookup.number_array, lookup.number_base)
        else:
            lookup.rank_integers(integers, ranks)
    else:
        floats = np.asarray(values, np.float64)
        if np.array_equal(floats, lookup.number_array):
            return np.arange(lookup.number_base + 1, lookup.number_base + 2 * len(ranks), 2, dtype=np.int32)
        if _are_few(values, lookup.number_array):
            ranks[:] = _found(floats, lookup.number_array, lookup.number_base)
        else:
            lookup.rank_floats(floats, 0, ranks)
    return ranks


def _time_ranks(lookup: Lookup, values: np.ndarray | Sequence[int]) -> np.ndarray:
    ranks = np.empty(len(values), np.int32)
    if lookup.exact_times is not None:
        ranks[:] = [lookup.rank_time(int(value)) for value in values]
    elif _are_few(values, lookup.time_array):
        ranks[:] = _found(np.asarray(values, np.int64), lookup.time_array, lookup.time_base)
    else:
        lookup.rank_times(np.asarray(values, np.int64), ranks)
    return ranks


def _are_few(values: Sized, constants: np.ndarray) -> bool:
    """Whether buckets for the constants would cost more than they save."""
    return 4 * len(values) < len(constants)


def _found(values: np.ndarray, constants: np.ndarray, base: int) -> np.ndarray:
    places = np.searchsorted(constants, values)
    equal = constants[np.minimum(places, len(constants) - 1)] == values
    return np.asarray(base + 2 * places + equal)


def _checked(ranks: np.ndarray, base: int, lookup: Lookup) -> np.ndarray:
    if len(ranks) and not ((ranks - base) & 1).all():
        raise ValueError(f"Expected constants of attribute {lookup.name!r}, but got other values too")
    return ranks
