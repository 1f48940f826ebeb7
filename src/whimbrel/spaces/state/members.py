"""The members of one role, publications or subscriptions: keys, numbers, regions, flags.

A member has a number, and one row of the index per region. Notifications hold numbers and look up keys later, so a
number is used again only with a new list of names: notifications that hold the old list read the old names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Int32s
from whimbrel.model.values import is_text
from whimbrel.spaces.dimensions.errors import KeyExists, KeyKindError, UnknownKey
from whimbrel.spaces.dimensions.space_definitions import Key
from whimbrel.spaces.index.dimension_index import DimensionIndex
from whimbrel.spaces.index.region_arrays import Regions, resized

WANTS_LEAVES, COMPLEX, REMEMBERED, HIDDEN = 1, 2, 4, 8
"""Flags of a member: it is told of leaves; it has several regions or a filter; its pairs are stored (hysteresis or
dwell); it only holds the outer region of a subscription."""

ALL = "all"
"""The usual filter of a member: each region of one side matches some region of the other, in both directions."""

_FEW = 1_024
"""Removed members, at least, before their numbers are used again, which takes a copy of the list of names."""


class NewMembers(NamedTuple):
    """Keys of members to add, the regions of all of them in order, and how many regions each has."""

    keys: list[Key]
    regions: Regions
    counts: list[int]


class Members:
    """All members of one role: publications, or subscriptions."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.regions = DimensionIndex()
        self.names: list[Key] = []
        self.number_of: dict[Key, int] = {}
        self.flags = np.zeros(0, np.uint8)
        self.owner = np.zeros(0, np.int32)
        self.filters: dict[int, str] = {}
        self._single = np.zeros(0, np.int32)
        self._several: dict[int, Int32s] = {}
        self._free: list[int] = []
        self._removed: list[int] = []
        self._flagged = dict.fromkeys((WANTS_LEAVES, COMPLEX, REMEMBERED, HIDDEN), 0)

    def __len__(self) -> int:
        return len(self.number_of)

    def any_with(self, flag: int) -> bool:
        """Whether some member has a flag."""
        return self._flagged[flag] > 0

    def all_with(self, flag: int) -> bool:
        """Whether all members, hidden ones included, have a flag."""
        return self._flagged.get(flag, 0) == len(self.names) - len(self._free) - len(self._removed)

    def check_new(self, key: object) -> Key:
        """Return the key if it may be added, else raise KeyExists or KeyKindError."""
        valid = check_key(key)
        if valid in self.number_of:
            raise KeyExists(self.role, valid)
        return valid

    def find(self, key: object) -> int:
        """The number of the member with a key; UnknownKey if there is none."""
        try:
            return self.number_of[key]  # type: ignore[index]
        except (KeyError, TypeError):
            raise UnknownKey(self.role, key) from None

    def add_many(self, new: NewMembers, filter: str, flags: int) -> list[tuple[Int32s | int, Regions]]:
        """Add members, simple ones together and the others one by one. Returns their numbers with their regions."""
        if filter == ALL and max(new.counts, default=1) == 1:
            numbers = self._take(new.keys)
            rows = self._write_new(new.regions)
            self._single[numbers], self.owner[rows] = rows, numbers
            self._flag(numbers, flags)
            return [(numbers, new.regions)]
        added: list[tuple[Int32s | int, Regions]] = []
        at = 0
        for key, count in zip(new.keys, new.counts, strict=True):
            part = new.regions.part(at, at + count)
            added.append((self.add(key, part, filter, flags), part))
            at += count
        return added

    def add(self, key: Key | None, regions: Regions, filter: str, flags: int) -> int:
        """Add a member with any regions and filter; a key of None makes a hidden one. Returns its number."""
        number = int(self._take([key])[0])
        if filter != ALL:
            self.filters[number] = filter
        self._place(number, regions, flags)
        return number

    def remove(self, number: int) -> None:
        """Remove a member."""
        self.regions.free(self.rows(number))
        self._flag(np.array([number], np.int32), 0)
        self._several.pop(number, None)
        self.filters.pop(number, None)
        if self.number_of.get(self.names[number]) == number:
            del self.number_of[self.names[number]]
        self._removed.append(number)

    def rows(self, number: int) -> Int32s:
        """The rows of a member's regions."""
        several = self._several.get(number)
        return self._single[number : number + 1].copy() if several is None else several

    def read(self, number: int) -> Regions:
        """The regions of a member."""
        return self.regions.read(self.rows(number))

    def read_singles(self, numbers: Int32s) -> Regions:
        """The regions of members that have exactly one."""
        return self.regions.read(self._single[numbers])

    def write_singles(self, numbers: Int32s, regions: Regions) -> None:
        """Replace the regions of members that have exactly one."""
        self.regions.write(self._single[numbers], regions)

    def write(self, number: int, regions: Regions) -> None:
        """Give a member new regions, however many."""
        old = self.rows(number)
        if len(regions.start) - 1 == len(old):
            self.regions.write(old, regions)
            return
        self.regions.free(old)
        self._several.pop(number, None)
        self._place(number, regions, int(self.flags[number]) & ~COMPLEX)

    def set_filter(self, number: int, filter: str) -> None:
        """Give a member another filter."""
        self.filters.pop(number, None)
        if filter != ALL:
            self.filters[number] = filter
        is_complex = number in self._several or filter != ALL
        flags = int(self.flags[number]) & ~COMPLEX | (COMPLEX if is_complex else 0)
        self._flag(np.array([number], np.int32), flags)

    def is_simple(self, number: int) -> bool:
        """Whether a member has one region and the usual filter."""
        return not self.flags[number] & COMPLEX

    def _write_new(self, regions: Regions) -> Int32s:
        """Write regions to new rows, and return these."""
        rows = self.regions.take(len(regions.start) - 1)
        if len(self.owner) < len(self.regions.rows.heads):
            self.owner = resized(self.owner, len(self.regions.rows.heads))
        self.regions.write(rows, regions)
        return rows

    def _place(self, number: int, regions: Regions, flags: int) -> None:
        """Give a member without rows its regions, and these flags, with COMPLEX where it applies."""
        rows = self._write_new(regions)
        if len(rows) == 1:
            self._single[number] = rows[0]
        else:
            self._several[number] = rows
        self.owner[rows] = number
        is_complex = len(rows) > 1 or number in self.filters
        self._flag(np.array([number], np.int32), flags | (COMPLEX if is_complex else 0))

    def _flag(self, numbers: Int32s, flags: int) -> None:
        """Set the flags of members and of their rows, and count the members with each flag."""
        for flag in self._flagged:
            before = int(np.count_nonzero(self.flags[numbers] & flag))
            self._flagged[flag] += (len(numbers) if flags & flag else 0) - before
        self.flags[numbers] = flags
        for number in numbers.tolist() if self._several else ():
            if number in self._several:
                self.regions.rows.flags[self._several[number]] = flags
        single = numbers if not self._several else numbers[[n not in self._several for n in numbers.tolist()]]
        self.regions.rows.flags[self._single[single]] = flags

    def _take(self, keys: Sequence[Key | None]) -> Int32s:
        """Give new members their numbers, those of removed members first; a hidden member has the key None."""
        if len(self._removed) > max(_FEW, len(self.names) // 2):
            self.names = self.names.copy()
            self._free, self._removed = self._free + self._removed, []
        count = len(keys)
        reused = self._free[len(self._free) - min(count, len(self._free)) :]
        del self._free[len(self._free) - len(reused) :]
        numbers = [*reused, *range(len(self.names), len(self.names) + count - len(reused))]
        self.names += [""] * (count - len(reused))
        if len(self.names) > len(self.flags):
            size = max(2 * len(self.flags), len(self.names), 64)
            self.flags, self._single = resized(self.flags, size), resized(self._single, size)
        for number, key in zip(numbers, keys, strict=True):
            self.names[number] = "" if key is None else key
            if key is not None:
                self.number_of[key] = number
        return np.array(numbers, np.int32)

    def _check(self) -> None:
        self.regions._check()
        for key, number in self.number_of.items():
            assert self.names[number] == key
            rows = self.rows(number)
            assert (self.owner[rows] == number).all()
            assert (self.regions.rows.flags[rows] == self.flags[number]).all()
            assert bool(self.flags[number] & COMPLEX) == (len(rows) > 1 or number in self.filters)


def check_key(key: object) -> Key:
    """Return the key as text or integer; KeyKindError if it is neither."""
    if isinstance(key, str):
        if not is_text(key):
            raise KeyKindError(key)
        return str.__str__(key)
    if isinstance(key, bool) or not hasattr(key, "__index__"):
        raise KeyKindError(key)
    number = int(key.__index__())
    if not -(1 << 63) <= number < 1 << 63:
        raise KeyKindError(key)
    return number
