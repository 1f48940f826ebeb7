"""Puts conjunctions together in chunks, and plans the columns and zones of each chunk.

A chunk has up to 512 conjunctions. A *zone* is the range of ranks of an attribute that all of them need, a *column* an
attribute with bits. An event opens a chunk if its values lie in all zones, at most three, so zones must be narrow:
conjunctions with like ranges of the same attributes come together, as a *tile*. Conjunctions that share their most
used attributes, up to three, form a *group* if that pays. A group is cut into slabs by its ranges of the first
attribute, each slab by those of the second, and these by the third, as R-trees are packed (Leutenegger, Lopez and
Edgington, "STR: a simple and efficient algorithm for R-tree packing", 1997). The wider the ranges of an attribute, the
less it helps to cut there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import (
    Bools,
    Float32Matrix,
    Float32s,
    FloatMatrix,
    Floats,
    Int32Matrix,
    Int32s,
    Int64s,
)
from whimbrel.compiled.intrinsics import prefetch
from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.shared.arrays import Items
from whimbrel.engine.access.shared.plan import Plan
from whimbrel.ranks.clauses.clauses import RANGE, SET

CHUNK = 512
"""Conjunctions of a chunk, at most."""
DEPTH = 3
"""Attributes by which conjunctions are cut into tiles, and zones of a chunk."""
CLOSED = 0.02
"""The cost of a chunk that an event does not open, as a share of the cost of one that it opens."""
ZONES = DEPTH
COLUMNS = 40
"""Attributes of a chunk that have dead bits; the others are only checked."""
ZONE_BELOW = 0.9
"""A zone that covers a larger share of an attribute's ranks is not worth its comparison."""
AHEAD = 6
"""A conjunction is prefetched so many conjunctions before its turn: else waiting for memory took half of the time."""
PLACES = 1 << 20
"""Only the most used attributes, so many, cut conjunctions: a code of three of them must fit into an integer."""
_FINE = 30
_NARROW = 1e-4


class ChunkPlan(NamedTuple):
    """Conjunctions in the order of their chunks, and per chunk its columns and its zones."""

    mine: Int64s  # the conjunctions
    first: Int64s  # [chunks + 1]: where each chunk begins
    attrs: Int64s  # the attributes that they use; their places here are their compact numbers
    compact: Int32s  # [A]: the compact number of each attribute, or -1
    column_start: Int32s  # [chunks + 1]: the columns of each chunk
    column_attr: Int32s  # the compact attribute of each column
    zone_attr: Int32Matrix  # [chunks, ZONES]: compact attributes, -1 for none
    zone_low: Int32Matrix  # [chunks, ZONES]
    zone_high: Int32Matrix  # [chunks, ZONES]
    several: Bools  # [chunks]: whether a conjunction wants several values of one attribute


class _Runs(NamedTuple):
    """Runs of conjunctions with the same leading attributes, and where their ranges of these attributes lie."""

    total: Int64s  # [r]: the number of conjunctions
    width: FloatMatrix  # [DEPTH, r]: the sum of the widths of their ranges
    low: Float32Matrix  # [DEPTH, r]: the lowest middle of a range
    high: Float32Matrix  # [DEPTH, r]: the highest middle of a range

    def joined(self, first: np.ndarray) -> _Runs:
        """Join adjacent runs; `first` has the first run of each joined one."""
        return _Runs(
            np.add.reduceat(self.total, first),
            np.add.reduceat(self.width, first, axis=1),
            np.minimum.reduceat(self.low, first, axis=1),
            np.maximum.reduceat(self.high, first, axis=1),
        )


def plan_chunks(plan: Plan, mine: np.ndarray) -> ChunkPlan:
    """Order these conjunctions into chunks."""
    attrs, compact = plan.used_attributes(mine)
    mine, first = tiled(plan, mine)
    sizing = _plan_chunks(mine, first, plan.items, plan.shares, compact, plan.weights.total[attrs])
    return ChunkPlan(mine, first, attrs, compact, *sizing)


def tiled(plan: Plan, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order conjunctions into chunks; return them, and where each chunk begins and the last one ends."""
    if len(mine) <= CHUNK:
        return mine, np.array([0, len(mine)][: len(mine) + 1])
    uses = np.bincount(plan.items.attr, minlength=len(plan.clauses.attributes))
    place = np.empty(len(uses), np.int64)
    place[np.argsort(-uses, kind="stable")] = np.arange(len(uses))
    none = min(len(uses), PLACES)
    places = np.empty((DEPTH, len(mine)), np.int32)
    middles, widths = np.empty((2, DEPTH, len(mine)), np.float32)
    _find_leading(mine, plan.items, place, none, plan.weights.total, places, middles, widths)
    code = (places[0] * np.int64(none + 1) + places[1]) * (none + 1) + places[2]
    order = _sort_by_two(code, np.zeros(len(mine), np.int64))
    code = code[order]
    first = _run_starts(code)
    count = np.diff(np.append(first, len(mine)))
    ordered = middles[:, order]
    runs = _Runs(
        count,
        np.add.reduceat(widths[:, order], first, axis=1, dtype=np.float64),
        np.minimum.reduceat(ordered, first, axis=1),
        np.maximum.reduceat(ordered, first, axis=1),
    )
    depth = _choose_depths(code[first], runs, none + 1)
    cut = np.int64(none + 1) ** (DEPTH - depth)
    _, group = np.unique(code[first] // cut * (DEPTH + 1) + depth, return_inverse=True)
    by_group = np.argsort(group, kind="stable")
    members = _run_starts(group[by_group])
    groups = _Runs._make(part[..., by_group] for part in runs).joined(members)
    used = np.minimum(depth, _count_leading(code[first], none + 1))[by_group][members]
    in_pool = (used == 0)[group].repeat(count)
    if in_pool.any():  # conjunctions that no attribute sets apart are ordered by attribute first
        ordered[0, in_pool] = (ordered[0, in_pool] + places[0][order[in_pool]]) / (none + 1)
    slabs = _count_slabs(groups, np.maximum(1, used))[1]
    within, starts = _cut(group.repeat(count), ordered, groups.total, slabs)
    return mine[order[within]], starts


def _cut(group: np.ndarray, middles: np.ndarray, count: np.ndarray, slabs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut groups into slabs, attribute by attribute, then into chunks; return the order and where chunks begin."""
    chunks = -(-count // CHUNK)
    owner = np.repeat(np.arange(len(count)), chunks)
    number = np.arange(len(owner))
    low = (np.cumsum(chunks) - chunks)[owner]  # low .. high: the chunks of the slab to which each chunk belongs
    high = low + chunks[owner]
    first = (np.cumsum(count) - count)[owner] - (-count[owner] * (number - low) // chunks[owner])
    sizes = np.diff(np.append(first, len(group)))
    fine = (middles * (1 << _FINE)).astype(np.int64)
    order = _sort_by_two(group, fine[0])
    for i in range(1, DEPTH):
        size = high - low
        parts = np.clip(slabs[i - 1][owner], 1, size).astype(np.int64)
        part = (number - low) * parts // size
        low, high = low - (-part * size // parts), low - (-(part + 1) * size // parts)
        order = order[_sort_by_two(low.repeat(sizes), fine[i][order])]
    return order, np.append(first, len(group))


def _choose_depths(code: np.ndarray, runs: _Runs, base: int) -> np.ndarray:
    """Choose for each run how many leading attributes set it apart, so that an event opens the fewest chunks."""
    real = _count_leading(code, base)
    best = _count_slabs(runs, real)[0]
    steps = []
    for depth in range(DEPTH - 1, -1, -1):
        code, real = code // base, np.minimum(depth, real)
        first = _run_starts(code)
        parent = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(code))))
        above, code, real = runs.joined(first), code[first], real[first]
        joined = (_count_slabs(above, real)[0] / above.total)[parent] * runs.total
        is_apart = best < joined
        steps.append((is_apart, parent))
        best = np.bincount(parent, np.minimum(best, joined))
        runs = above
    depth_of = np.zeros(1, np.int64)
    for depth, (is_apart, parent) in enumerate(reversed(steps)):
        depth_of = depth_of[parent]
        depth_of = depth_of + (is_apart & (depth_of == depth))
    return depth_of


def _count_slabs(runs: _Runs, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many chunks an event opens if runs are cut by `used` attributes, and the number of slabs by each."""
    chunks = -(-runs.total // CHUNK)
    is_used = np.arange(DEPTH)[:, None] < used
    width = np.minimum(1.0, runs.width / runs.total)
    spread = (runs.high - runs.low).astype(np.float64)
    # One more slab narrows a zone in proportion to spread / (slabs * width + spread): make that equal for all.
    ratio = np.where(is_used, (spread + _NARROW**2) / (width + _NARROW), 1.0)
    slabs = np.ones((DEPTH, len(chunks)))
    left = chunks.astype(np.float64)
    for i in range(DEPTH):
        others = np.maximum(1, used - i)
        wanted = np.rint(ratio[i] * (left / ratio[i:].prod(axis=0)) ** (1.0 / others))
        slabs[i] = np.where(is_used[i], np.where(others == 1, left, np.clip(wanted, 1.0, left)), 1.0)
        left /= slabs[i]
    zones = np.where(is_used, np.minimum(1.0, width + spread / slabs), 1.0)
    return chunks * (CLOSED + zones.prod(axis=0)), np.ceil(slabs)


def _count_leading(code: np.ndarray, base: int) -> np.ndarray:
    """Count the leading attributes of each code, its digits; the digit base - 1 stands for none."""
    digits = [code // base**i % base for i in range(DEPTH)]
    return np.asarray(sum(digit != base - 1 for digit in digits), np.int64)


def _run_starts(values: np.ndarray) -> np.ndarray:
    """Where runs of equal values begin."""
    return np.flatnonzero(np.concatenate([np.ones(1, bool), values[1:] != values[:-1]]))


def _sort_by_two(major: np.ndarray, minor: np.ndarray) -> np.ndarray:
    """Sort by two numbers; return the order. Both are packed into one integer with the place, which sorts fastest."""
    number_bits, major_bits = len(major).bit_length(), int(major.max()).bit_length()
    minor_bits = int(minor.max()).bit_length()
    spare = 63 - number_bits - major_bits
    if spare < 0:
        return np.lexsort((minor, major))
    kept = min(minor_bits, spare)
    keys = (major.astype(np.int64) << kept) | (minor >> (minor_bits - kept))
    keys = (keys << number_bits) | np.arange(len(major))
    keys.sort()
    return np.asarray(keys & ((1 << number_bits) - 1))


@kernel
def _find_leading(
    mine: Int64s, items: Items, place: Int64s, none: int, total: Int64s, places: Int32Matrix,
    middles: Float32Matrix, widths: Float32Matrix,
) -> None:  # fmt: skip
    """Write the most used attributes of each conjunction, and the middle and the width of its range on each.

    Middles and widths are shares of the attribute's ranks.
    """
    start, attr, kind, low, high, set_start, set_low, set_high = items
    for i in range(mine.size):
        for j in range(DEPTH):
            places[j, i] = none
            middles[j, i] = np.float32(0.0)
            widths[j, i] = np.float32(1.0)
        for k in range(start[mine[i]], start[mine[i] + 1]):
            where = place[attr[k]]
            if kind[k] > SET or where >= places[DEPTH - 1, i]:
                continue
            if kind[k] == RANGE:
                first, last = np.int64(low[k]), np.int64(high[k])
            else:
                first, last = np.int64(set_low[set_start[low[k]]]), np.int64(set_high[set_start[low[k] + 1] - 1])
            ranks = np.float32(total[attr[k]])
            middle = np.float32(first + last) / (np.float32(2.0) * ranks)
            width = np.float32(last - first + 1) / ranks
            for j in range(DEPTH):
                if where == places[j, i]:  # a second test of the attribute
                    break
                if where < places[j, i]:
                    where, places[j, i] = places[j, i], where
                    middle, middles[j, i] = middles[j, i], middle
                    width, widths[j, i] = widths[j, i], width


@helper
def ask_ahead(p: int, mine: Int64s, items: Items, shares: Float32s) -> None:
    """Prefetch the items of the conjunction AHEAD places behind p: items lie in the order of subscriptions."""
    if p + 2 * AHEAD < mine.size:
        prefetch(items.start, mine[p + 2 * AHEAD])
        at = items.start[mine[p + AHEAD]]
        prefetch(items.attr, at)
        prefetch(items.kind, at)
        prefetch(items.low, at)
        prefetch(items.high, at)
        prefetch(shares, at)


@kernel
def _plan_chunks(
    mine: Int64s, chunk_first: Int64s, items: Items, shares: Float32s, compact: Int32s, total: Int64s
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Find the attributes of each chunk that get bits, strongest first, and its zones: `ChunkPlan.column_start` on."""
    start, attr, kind, low, high, set_start, set_low, set_high = items
    count, chunks = total.size, chunk_first.size - 1
    column_start = np.zeros(chunks + 1, np.int32)
    column_attr = np.empty(chunks * min(COLUMNS, count), np.int32)
    zone_attr = np.full((chunks, ZONES), -1, np.int32)
    zone_low = np.zeros((chunks, ZONES), np.int32)
    zone_high = np.zeros((chunks, ZONES), np.int32)
    several = np.zeros(chunks, np.bool_)
    narrowest = np.empty(ZONES, np.float64)
    power = np.zeros(count, np.float64)
    having, lowest, highest = np.zeros(count, np.int32), np.zeros(count, np.int32), np.zeros(count, np.int32)
    touched = np.empty(count, np.int32)
    seen = np.full(count, -1, np.int64)  # the last conjunction that asks for a value of the attribute
    at = 0
    for chunk in range(chunks):
        first, last = chunk_first[chunk], chunk_first[chunk + 1]
        n = 0
        for p in range(first, last):
            ask_ahead(p, mine, items, shares)
            c = mine[p]
            for k in range(start[c], start[c + 1]):
                if kind[k] > SET:
                    continue
                a = compact[attr[k]]
                if power[a] == 0.0:
                    touched[n] = a
                    n += 1
                    having[a] = 0
                    lowest[a] = 2147483647
                    highest[a] = -1
                power[a] += 1.0001 - shares[k]
                if seen[a] == p:
                    several[chunk] = True
                    continue
                seen[a] = p
                having[a] += 1
                if kind[k] == RANGE:
                    lowest[a] = min(lowest[a], low[k])
                    highest[a] = max(highest[a], high[k])
                else:
                    lowest[a] = min(lowest[a], set_low[set_start[low[k]]])
                    highest[a] = max(highest[a], set_high[set_start[low[k] + 1] - 1])
        _strongest_first(touched, n, power)
        narrowest[:] = ZONE_BELOW
        for a in touched[: min(COLUMNS, n)]:
            column_attr[at] = a
            at += 1
            if having[a] < last - first or lowest[a] == 0:
                continue
            width = (highest[a] - lowest[a] + 1) / max(1, total[a] - 8)
            _insert_zone(a, lowest[a], highest[a], width, chunk, narrowest, zone_attr, zone_low, zone_high)
        column_start[chunk + 1] = at
        for a in touched[:n]:
            power[a] = 0.0
    return column_start, column_attr[:at].copy(), zone_attr, zone_low, zone_high, several


@helper
def _strongest_first(touched: Int32s, n: int, power: Floats) -> None:
    """Move the COLUMNS strongest of the first n attributes to the front."""
    for i in range(min(COLUMNS, n)):
        best_at = i
        for j in range(i + 1, n):
            if power[touched[j]] > power[touched[best_at]]:
                best_at = j
        touched[i], touched[best_at] = touched[best_at], touched[i]


@helper
def _insert_zone(
    zone: int, bottom: int, top: int, width: float, chunk: int, narrowest: Floats, zone_attr: Int32Matrix,
    zone_low: Int32Matrix, zone_high: Int32Matrix,
) -> None:  # fmt: skip
    """Insert a zone (attribute, first and last rank) into the zones of its chunk, by width, if it is narrow enough."""
    for z in range(ZONES):
        if width < narrowest[z]:
            width, narrowest[z] = narrowest[z], width
            zone, zone_attr[chunk, z] = zone_attr[chunk, z], zone
            bottom, zone_low[chunk, z] = zone_low[chunk, z], bottom
            top, zone_high[chunk, z] = zone_high[chunk, z], top
