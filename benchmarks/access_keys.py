"""Access keys for joins: how a rival that joins finds candidates without comparing every event with every filter.

A join is fast on equal keys only, so filters are filed under keys, as an expert would who writes the join by hand: a
filter takes its most selective equalities (of few-valued attributes those that most filters test), the members of an IN
one by one, narrow intervals by the cells of a grid that they touch. The attributes of its key are its mask. An event
has one key for each mask that some filter has and whose attributes it binds. Filters without a key are compared with
every event. What a key does not prove is left to the rival, as slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from whimbrel.lab.measure.matching.flat_filters import HIGHEST, LOWEST, MISSING, POINTS, RANGE, FlatFilters

FEW_VALUES, OF_FEW_VALUES = 8, 8
"""An attribute of at most FEW_VALUES values is part of keys if it is among the OF_FEW_VALUES most tested ones."""
MOST_PARTS = 2
"""Parts of a key at most, where attributes have more values than that."""
ENOUGH = 1e-4
"""The part of all events that a key may let through without needing another part."""
CELLS = 8
"""Cells of the grid of an attribute of intervals."""
NARROW = 0.2
"""The part of its attribute's extent that an interval may take to be part of a key."""
MOST_MEMBERS = 64
"""Constants of an attribute with IN, at most: a set of them is a word of bits."""


@dataclass(frozen=True, slots=True)
class AccessKeys:
    """Filter `owner[i]` is filed under `key[i]`; those of `scanned` have no key; `proven` items need no check."""

    masks: list[tuple[int, ...]]
    is_grid: np.ndarray
    extent: np.ndarray
    key: np.ndarray
    owner: np.ndarray
    scanned: np.ndarray
    proven: np.ndarray

    def probes(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The keys of events (a row of `values` for each attribute), and the event of each."""
        codes = np.where(self.is_grid[:, None], _cell(values, self.extent[:, :1], self.extent[:, 1:]), values)
        present = values > MISSING
        keys, events = [np.empty(0, np.uint64)], [np.empty(0, np.int32)]
        for number, mask in enumerate(self.masks):
            bound = np.flatnonzero(np.logical_and.reduce(present[list(mask)]))
            keys.append(_mix(number, [codes[attribute][bound] for attribute in mask]))
            events.append(bound.astype(np.int32))
        return np.concatenate(keys), np.concatenate(events)


@dataclass(frozen=True, slots=True)
class Slots:
    """What is left to check of some filters: columns (attribute, low, high) of RANGE, (attribute, bits) of POINTS.

    A filter that needs fewer slots than others leaves some free: they ask for the attribute after the last, which every
    event is to bind with 0, and hold.
    """

    ranges: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    points: list[tuple[np.ndarray, np.ndarray]]

    def attributes(self, free: int) -> list[int]:
        """The attributes of all RANGE slots; `free` is the number that free ones have."""
        return sorted({number for slot in self.ranges for number in np.unique(slot[0]).tolist()} - {free})


def access_keys(filters: FlatFilters) -> AccessKeys:
    """The keys of all filters."""
    extent, share, is_grid = _estimates(filters)
    part = np.flatnonzero(_parts(filters, share))  # items that are parts of keys, in the order of owners
    owner, attribute = filters.owner[part], filters.attribute[part]
    names = np.random.default_rng(0).integers(1, 1 << 60, len(filters.names))
    mask = np.zeros(len(filters), np.int64)
    np.add.at(mask, owner, names[attribute])
    found, number = np.unique(mask[owner], return_inverse=True)
    order = np.argsort(number, kind="stable")
    edges = np.searchsorted(number[order], np.arange(len(found) + 1))
    masks: list[tuple[int, ...]] = []
    keys, owners = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for begin, end in pairwise(edges.tolist()):
        of_mask = part[order[begin:end]]
        owner_of = filters.owner[of_mask]
        table = of_mask.reshape(-1, int((owner_of == owner_of[0]).sum()))
        rows, codes = np.arange(len(table)), list[np.ndarray]()
        for column in range(table.shape[1]):
            spread, code = _spread(filters, is_grid, extent, table[rows, column])
            rows, codes = rows[spread], [*(one[spread] for one in codes), code]
        keys.append(_mix(len(masks), codes))
        owners.append(filters.owner[table[rows, 0]])
        masks.append(tuple(filters.attribute[table[0]].tolist()))
    proven = np.zeros(len(filters.attribute), bool)
    proven[part] = ~is_grid[attribute]
    without = np.setdiff1d(np.arange(len(filters)), owner)
    return AccessKeys(masks, is_grid, extent, np.concatenate(keys), np.concatenate(owners), without, proven)


def slots_of(filters: FlatFilters, proven: np.ndarray, owners: np.ndarray, aligned: Sequence[int] = ()) -> Slots:
    """The slots of these filters, a row for each of `owners`, which may repeat.

    With `aligned` attributes RANGE slot j is that of aligned[j] for every filter, and free where it does not test it.
    """
    free = len(filters.names)
    ranges: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    points: list[tuple[np.ndarray, np.ndarray]] = []
    bits = _bits(filters)
    wanted = np.zeros(len(filters), bool)
    wanted[owners] = True
    for kind in (RANGE, POINTS):
        item = np.flatnonzero((filters.kind == kind) & ~proven & wanted[filters.owner])
        whose = filters.owner[item]
        place = np.arange(len(item)) - np.searchsorted(whose, whose)
        if aligned and kind == RANGE:
            place = np.searchsorted(aligned, filters.attribute[item])
        for j in range(int(place.max(initial=-1)) + 1):
            at = np.full(len(filters), -1)
            at[whose[place == j]] = item[place == j]
            at = at[owners]
            attribute = np.where(at < 0, free, filters.attribute[at]).astype(np.int32)
            if kind == RANGE:
                low, high = np.where(at < 0, -np.inf, filters.low[at]), np.where(at < 0, np.inf, filters.high[at])
                ranges.append((attribute, low, high))
            else:
                points.append((attribute, np.where(at < 0, np.uint64(1), bits[at])))
    return Slots(ranges, points)


def _bits(filters: FlatFilters) -> np.ndarray:
    """Per item the set of its points as bits."""
    bits = np.zeros(len(filters.kind), np.uint64)
    item = np.flatnonzero(filters.kind == POINTS)
    sizes = (filters.high[item] - filters.low[item]).astype(np.int64)
    if filters.points.max(initial=0) >= MOST_MEMBERS:
        raise ValueError(f"Expected at most {MOST_MEMBERS} constants of an attribute with IN")
    np.bitwise_or.at(bits, np.repeat(item, sizes), np.uint64(1) << filters.members(item).astype(np.uint64))
    return bits


def _estimates(filters: FlatFilters) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per attribute the extent of its intervals and whether it has a grid; per item the share of events it admits."""
    width = len(filters.names)
    extent, share = np.zeros((width, 2)), np.ones(len(filters.kind))
    is_grid = np.zeros(width, bool)
    for number in range(width):
        mine = filters.attribute == number
        single = mine & (filters.kind == RANGE) & (filters.low == filters.high)
        listed = mine & (filters.kind == POINTS)
        ranged = mine & (filters.kind == RANGE) & ~single
        if single.any() or listed.any():
            constants = np.concatenate([filters.low[single], filters.members(np.flatnonzero(listed))])
            domain = len(np.unique(constants))
            share[single], share[listed] = 1 / domain, (filters.high - filters.low)[listed] / domain
            continue
        closed = ranged & (filters.low > LOWEST) & (filters.high < HIGHEST)
        if closed.any():
            low, high = filters.low[closed].min(), filters.high[closed].max()
            extent[number] = low, np.nextafter(max(low, high), np.inf)
            part = (filters.high - filters.low)[closed] / (extent[number, 1] - low)
            share[closed] = np.where(part <= NARROW, part + 1 / CELLS, 1.0)
            is_grid[number] = np.any(part <= NARROW)
    return extent, share, is_grid


def _parts(filters: FlatFilters, share: np.ndarray) -> np.ndarray:
    """Which items are parts of keys."""
    tests = np.bincount(filters.attribute, minlength=len(filters.names))
    popular = np.argsort(-tests, kind="stable")[:OF_FEW_VALUES]
    few = share > 1 / FEW_VALUES
    grid = (filters.kind == RANGE) & (filters.low < filters.high)
    able = (share < 1) & (~few | grid | np.isin(filters.attribute, popular))
    item = np.flatnonzero(able)
    item = item[np.lexsort((share[item], filters.owner[item]))]
    owner = filters.owner[item]
    first = np.searchsorted(owner, owner)
    logs = np.concatenate(([0.0], np.cumsum(np.log(share[item]))))
    before = np.exp(logs[:-1] - logs[first])  # what the parts that were taken before let through
    place = np.arange(len(item)) - first
    limit = np.where(few[item] & ~grid[item], OF_FEW_VALUES, MOST_PARTS)
    chosen = np.zeros(len(share), bool)
    chosen[item[(place < limit) & (before > ENOUGH)]] = True
    return chosen


def _spread(
    filters: FlatFilters, is_grid: np.ndarray, extent: np.ndarray, item: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The codes of items as parts of keys, and for each code the place of its item."""
    number = filters.attribute[item[0]]
    if is_grid[number]:
        low, high = (_cell(column[item], *extent[number]) for column in (filters.low, filters.high))
        counts = (high - low + 1).astype(np.int64)
        spread = np.repeat(np.arange(len(item)), counts)
        return spread, low[spread] + np.arange(len(spread)) - np.repeat(np.cumsum(counts) - counts, counts)
    listed = filters.kind[item] == POINTS
    counts = np.where(listed, filters.high[item] - filters.low[item], 1).astype(np.int64)
    spread = np.repeat(np.arange(len(item)), counts)
    code = filters.low[item][spread]
    code[listed[spread]] = filters.members(item[listed])
    return spread, code


def _cell(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The cell of each value in a grid from low to high; what lies outside is in the first or last."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scaled = np.floor((values - low) * (CELLS / (high - low)))
    return np.asarray(np.clip(np.nan_to_num(scaled, neginf=0.0), 0, CELLS - 1))


def _mix(mask: int, codes: list[np.ndarray]) -> np.ndarray:
    """The keys of a mask with these codes of its attributes."""
    key = np.full(len(codes[0]), mask + 1, np.uint64)
    for code in codes:
        key = (key ^ (code + 0.0).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key
