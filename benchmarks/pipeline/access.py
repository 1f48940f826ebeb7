"""The best access predicate of each filter: the one that the fewest events pass, by a sample of events.

An equality is a key by itself, an IN one for each member, an interval one for each cell of a grid that it touches. A
filter whose best predicate lets more than a part of the events through has no key, and is compared with all events.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.pipeline.values import is_wide
from whimbrel.lab.measure.matching.flat_filters import POINTS, FlatFilters, spans

CELLS = 16
"""Cells of the grid of an attribute of intervals."""
SCANNED_ABOVE = 0.25
"""The part of events that the best predicate may let through to be worth a key."""
GRID = 1_000
"""What is added to the number of an attribute to name its grid."""


@dataclass(frozen=True, slots=True)
class Access:
    """Filter `owner[i]` is filed under the value `value[i]` of `place[i]`; those of `scanned` under none."""

    owner: np.ndarray
    place: np.ndarray
    value: np.ndarray
    scanned: np.ndarray
    edges: np.ndarray

    def texts(self, filters: FlatFilters) -> pa.Array:
        """The text of each key that is a string, where attributes have columns of their own; else null."""
        found = pa.nulls(len(self.owner), pa.string())
        for attribute, name in enumerate(filters.names):
            mine = self.place == attribute
            if is_wide(filters) and name in filters.constants and mine.any():
                chosen = filters.constants[name].take(pa.array(self.value[mine].astype(np.int64)))
                found = pc.replace_with_mask(found, pa.array(mine), chosen)
        return found

    def probes(self, filters: FlatFilters) -> str:
        """The keys of an event, as an array in SQL; nulls are no keys."""
        parts = []
        for place in np.unique(self.place).tolist():
            attribute = place % GRID
            name = filters.names[attribute]
            value = name if is_wide(filters) else f"get(v, {attribute})"
            key = value if is_wide(filters) and name in filters.constants else f"CAST({value} AS double)"
            if place >= GRID:
                low, width = self.edges[attribute]
                key = f"CAST(least(greatest(floor(({value} - {low}D) / {width}D), 0), {CELLS - 1}) AS double)"
            parts.append(f"IF({value} IS NULL, NULL, xxhash64({place}, {key}))")
        return f"array_compact(array({', '.join(parts)}))"


def access_of(filters: FlatFilters, sample: pa.Table) -> Access:
    """The best access predicates."""
    values = filters.values(sample)
    share = np.ones(len(filters.kind))
    edges = np.zeros((len(filters.names), 2))
    single = (filters.kind != POINTS) & (filters.low == filters.high)
    for attribute in range(len(filters.names)):
        line = values[attribute]
        line = line[np.isfinite(line)]
        mine = filters.attribute == attribute
        known, counts = np.unique(line, return_counts=True)
        part = counts / values.shape[1]
        share[mine & single] = _frequency(known, part, filters.low[mine & single])
        listed = np.flatnonzero(mine & (filters.kind == POINTS))
        sizes = (filters.high[listed] - filters.low[listed]).astype(np.int64)
        members = _frequency(known, part, filters.members(listed))
        share[listed] = np.bincount(np.repeat(np.arange(len(listed)), sizes), members, minlength=len(listed))
        ranged = np.flatnonzero(mine & (filters.kind != POINTS) & ~single)
        if len(ranged) and len(line):
            edges[attribute] = line.min(), max((line.max() - line.min()) / CELLS, 1e-9)
            of_cell = np.bincount(_cell(line, *edges[attribute]), minlength=CELLS) / values.shape[1]
            upto = np.concatenate(([0], np.cumsum(of_cell)))
            first, last = _cells(filters, ranged, edges[attribute])
            share[ranged] = upto[last + 1] - upto[first]
    return _filed(filters, share, single, edges)


def _filed(filters: FlatFilters, share: np.ndarray, single: np.ndarray, edges: np.ndarray) -> Access:
    order = np.lexsort((share, filters.owner))
    first = np.searchsorted(filters.owner[order], np.arange(len(filters)))
    tested = np.diff(filters.start) > 0
    best = order[first[tested]]
    keyed = best[share[best] <= SCANNED_ABOVE]
    scanned = np.setdiff1d(np.arange(len(filters)), filters.owner[keyed])
    owner, place, value = [], [], []
    ones = keyed[single[keyed]]
    owner.append(filters.owner[ones])
    place.append(filters.attribute[ones])
    value.append(filters.low[ones])
    lists = keyed[filters.kind[keyed] == POINTS]
    sizes = (filters.high[lists] - filters.low[lists]).astype(np.int64)
    owner.append(np.repeat(filters.owner[lists], sizes))
    place.append(np.repeat(filters.attribute[lists], sizes))
    value.append(filters.members(lists))
    for attribute in range(len(filters.names)):
        ranged = keyed[(filters.kind[keyed] != POINTS) & ~single[keyed] & (filters.attribute[keyed] == attribute)]
        low, high = _cells(filters, ranged, edges[attribute])
        owner.append(np.repeat(filters.owner[ranged], high - low + 1))
        place.append(np.full(int((high - low + 1).sum()), attribute + GRID))
        value.append(spans(low, high + 1).astype(np.float64))
    return Access(np.concatenate(owner), np.concatenate(place).astype(np.int32), np.concatenate(value), scanned, edges)


def _frequency(known: np.ndarray, part: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The part of events with each wanted value; a value that none has counts as half an event in the sample."""
    if not len(known):
        return np.zeros(len(wanted))
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, part[at], part.min() / 2)


def _cells(filters: FlatFilters, items: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not len(items):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    low = _cell(filters.low[items], *edges)
    return low, np.maximum(_cell(filters.high[items], *edges), low)


def _cell(values: np.ndarray, low: float, width: float) -> np.ndarray:
    return np.clip(np.floor((np.clip(values, -1e15, 1e15) - low) / width), 0, CELLS - 1).astype(np.int64)
