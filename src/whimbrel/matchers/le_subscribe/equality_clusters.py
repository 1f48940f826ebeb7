"""Clusters of conjunctions by the attributes and constants of their equalities, found by hash.

Le Subscribe, Figure 4. The key shape of a conjunction is the set of attributes that it compares with `=` (the paper
calls it a schema). Within a shape the tuple of constants leads to a bucket of rows. Every row is in exactly one bucket,
and rows without an equality come last. An event asks each shape whose attributes it all has, at most 2^n of them, for
its tuple of values; where an attribute has several values, for every combination.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.matchers.shared.conjunction_rows import ATTR, LOW, ConjunctionRows
from whimbrel.matchers.shared.event_ranks import EventGrid
from whimbrel.matchers.shared.runs import offsets, take_runs, unique_runs

EMPTY = -1


class ClusterBuffers(NamedTuple):
    """The buffers of `find_buckets`: two ranks for each attribute of the longest shape, and the buckets found."""

    ranks: Int32s
    buckets: Int32s


class Clusters(NamedTuple):
    """s shapes and b buckets; rows are numbered in the order of buckets."""

    mask: npt.NDArray[np.uint64]  # [s]: a bit for each attribute number modulo 64
    attr_start: Int64s  # [s + 1]: the attributes of each shape
    attr: Int32s
    bucket_start: Int64s  # [s + 1]: the buckets of each shape
    row_start: Int64s  # [b + 1]: the rows of each bucket
    key_start: Int64s  # [b + 1]: the constants of each bucket, in the order of the shape's attributes
    key: Int32s
    table: Int32s  # open addressing: hash of shape and constants -> bucket

    @property
    def clustered(self) -> int:
        """How many rows have an equality: rows 0 to clustered - 1."""
        return int(self.row_start[-1])

    def sizes(self, rows: int) -> dict[str, int]:
        """The counts of clusters for `stats()`; `rows` is the number of all rows."""
        shapes, buckets = len(self.mask), len(self.row_start) - 1
        return {"key_shapes": shapes, "buckets": buckets, "without_equality": rows - self.clustered}

    def buffers(self) -> ClusterBuffers:
        """New buffers for `find_buckets`."""
        widest = int(np.diff(self.attr_start).max(initial=0))
        return ClusterBuffers(np.zeros(2 * widest, dtype=np.int32), np.zeros(len(self.row_start), dtype=np.int32))

    def check(self) -> None:
        """Assert that every bucket has rows, is in the table once, and belongs to a shape of its own attributes."""
        buckets = len(self.row_start) - 1
        assert self.bucket_start[-1] == buckets == len(self.key_start) - 1
        assert np.all(np.diff(self.row_start) > 0) and np.all(np.diff(self.bucket_start) > 0)
        filed = self.table[self.table != EMPTY]
        assert len(filed) == buckets and len(set(filed.tolist())) == buckets
        shapes = [tuple(self.attr[i:j]) for i, j in zip(self.attr_start[:-1], self.attr_start[1:], strict=True)]
        assert len(set(shapes)) == len(shapes)
        for shape, attrs in enumerate(shapes):
            widths = np.diff(self.key_start)[self.bucket_start[shape] : self.bucket_start[shape + 1]]
            assert np.all(widths == len(attrs))


def build_clusters(rows: ConjunctionRows, is_equal: npt.NDArray[np.bool_]) -> tuple[Clusters, Int64s]:
    """Cluster rows by the equalities that `is_equal` marks among their items.

    Returns the clusters, and the rows in the order in which the clusters number them.
    """
    counts = np.bincount(rows.item_rows()[is_equal], minlength=len(rows))
    keyed = np.flatnonzero(counts)
    start = offsets(counts[keyed])
    cells = np.ascontiguousarray(rows.items[is_equal][:, [ATTR, LOW]])
    shape, shape_first = unique_runs(start, np.ascontiguousarray(cells[:, :1]))
    bucket, bucket_first = unique_runs(start, cells)
    by_shape = np.argsort(shape[bucket_first], kind="stable")  # the buckets, shape after shape
    place = np.argsort(by_shape)
    order = np.concatenate([keyed[np.argsort(place[bucket], kind="stable")], np.flatnonzero(counts == 0)])
    attr_start, attrs = take_runs(start, np.ascontiguousarray(cells[:, 0]), shape_first)
    key_start, keys = take_runs(start, np.ascontiguousarray(cells[:, 1]), bucket_first[by_shape])
    bucket_start = offsets(np.bincount(shape[bucket_first], minlength=len(shape_first)))
    bits = np.uint64(1) << (attrs % 64).astype(np.uint64)
    mask = np.bitwise_or.reduceat(bits, attr_start[:-1]) if len(attrs) else np.zeros(0, dtype=np.uint64)
    row_start = offsets(np.bincount(place[bucket], minlength=len(place)))
    table = np.full(1 << int(2 * len(place) + 1).bit_length(), EMPTY, dtype=np.int32)
    _fill(table, bucket_start, key_start, keys)
    return Clusters(mask, attr_start, attrs, bucket_start, row_start, key_start, keys, table), order


@helper
def _mix(mixed: np.uint64, rank: int) -> np.uint64:
    mixed = (mixed ^ np.uint64(rank)) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(29))


@helper
def _seed(shape: int) -> np.uint64:
    return np.uint64(shape + 1) * np.uint64(0x9E3779B97F4A7C15)


@kernel
def _fill(table: Int32s, bucket_start: Int64s, key_start: Int64s, keys: Int32s) -> None:
    last = np.uint64(table.size - 1)
    for shape in range(bucket_start.size - 1):
        for bucket in range(bucket_start[shape], bucket_start[shape + 1]):
            mixed = _seed(shape)
            for place in range(key_start[bucket], key_start[bucket + 1]):
                mixed = _mix(mixed, keys[place])
            slot = mixed & last
            while table[slot] != EMPTY:
                slot = (slot + np.uint64(1)) & last
            table[slot] = bucket


@inlined
def _probe(c: Clusters, shape: int, mixed: np.uint64, ranks: Int32s, width: int, out: Int32s, found: int) -> int:
    """Add the buckets of a shape whose constants are ranks[:width] to `out`. Return how many it holds then."""
    last = np.uint64(c.table.size - 1)
    slot = mixed & last
    low, high = c.bucket_start[shape], c.bucket_start[shape + 1]
    while c.table[slot] != EMPTY:
        bucket = c.table[slot]
        if low <= bucket < high:
            start = c.key_start[bucket]
            place = 0
            while place < width and c.key[start + place] == ranks[place]:
                place += 1
            if place == width:  # the search goes on: equal keys may lie in two buckets
                out[found] = bucket
                found += 1
        slot = (slot + np.uint64(1)) & last
    return found


@helper
def _event_mask(values: Int32s) -> np.uint64:
    """A bit for the number modulo 64 of each attribute that is there."""
    mask = np.uint64(0)
    for attr in range(values.size):
        if values[attr] >= 0:
            mask |= np.uint64(1) << np.uint64(attr % 64)
    return mask


@helper
def find_buckets(c: Clusters, grid: EventGrid, event: int, buffers: ClusterBuffers, counters: Int64s | None) -> int:
    """Write the buckets whose equalities the event satisfies to the buffer, and return their number."""
    mask, attr_start, attr = c.mask, c.attr_start, c.attr
    ranks, out = buffers
    values, starts = grid.first[event], grid.starts
    absent = ~_event_mask(values)
    found = int(np.int64(0))  # callees would be compiled twice, the first time for a literal 0
    for shape in range(mask.size):
        if mask[shape] & absent:
            continue
        mixed = _seed(shape)
        lists = False
        width = rank = 0
        for place in range(attr_start[shape], attr_start[shape + 1]):
            rank = values[np.uint32(attr[place])]
            if rank < 0:
                break
            mixed = _mix(mixed, rank)
            ranks[width] = rank
            width += 1
            if starts.size:
                cell = event * values.size + attr[place]
                lists = lists or starts[cell] < starts[cell + 1]
        if rank < 0:
            continue
        if counters is not None:
            counters[0] += 1
        if lists:
            found = _combine(c, shape, grid, event, ranks, out, found)
        else:
            found = _probe(c, shape, mixed, ranks, width, out, found)
    return found


@helper
def _combine(c: Clusters, shape: int, grid: EventGrid, event: int, ranks: Int32s, out: Int32s, found: int) -> int:
    """Look up every combination of the values of a shape's attributes, or compare every bucket, whichever are fewer."""
    values, starts, more = grid.first[event], grid.starts, grid.more
    cells = event * values.size
    begin = c.attr_start[shape]
    width = c.attr_start[shape + 1] - begin
    combinations = 1
    for place in range(begin, begin + width):
        cell = cells + c.attr[place]
        combinations = min(combinations * (1 + starts[cell + 1] - starts[cell]), out.size + 1)
    if combinations > c.bucket_start[shape + 1] - c.bucket_start[shape]:
        for bucket in range(c.bucket_start[shape], c.bucket_start[shape + 1]):
            held = 0
            for place in range(width):
                attr = c.attr[begin + place]
                rank = c.key[c.key_start[bucket] + place]
                same = values[attr] == rank
                for other in range(starts[cells + attr], starts[cells + attr + 1]):
                    same = same or more[other] == rank
                held += same
            if held == width:
                out[found] = bucket
                found += 1
        return found
    turn = ranks[width : 2 * width]  # the value that is chosen of each attribute: 0 is the first
    turn[:] = 0
    for _ in range(combinations):
        mixed = _seed(shape)
        for place in range(width):
            attr = c.attr[begin + place]
            ranks[place] = values[attr] if turn[place] == 0 else more[starts[cells + attr] + turn[place] - 1]
            mixed = _mix(mixed, ranks[place])
        found = _probe(c, shape, mixed, ranks, width, out, found)
        place = 0
        while place < width:
            attr = c.attr[begin + place]
            turn[place] += 1
            if turn[place] <= starts[cells + attr + 1] - starts[cells + attr]:
                break
            turn[place] = 0
            place += 1
    return found
