"""Classes of ranks: the ranks of an attribute that no conjunction tells apart are one class, which has one bit.

Class 0 of an attribute is what no conjunction asks for; an event that lacks the attribute is in it too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.shared.arrays import Items, items_of
from whimbrel.engine.access.shared.weights import Weights
from whimbrel.ranks.clauses.clauses import RANGE, SET, Clauses

BITS = 128
"""Bits of a signature: classes of all attributes, at most."""
RANKS = 1_024
"""Ranks that an attribute may have for its classes to be looked for."""
CLASSES = 33
"""Classes that an attribute may have to get bits."""
SAMPLE = 4_096
"""Conjunctions that tell which attributes have too many classes."""


class RankClasses(NamedTuple):
    """The classes of attributes that have bits."""

    first: np.ndarray  # int32[A, 2]: where the ranks of an attribute begin in `table`, or -1, and its class 0
    table: np.ndarray  # int32: the class of each rank, counted through all attributes

    def sizes(self) -> np.ndarray:
        """How many classes each attribute has."""
        owners = np.flatnonzero(self.first[:, 0] >= 0)
        owners = owners[np.argsort(self.first[owners, 1], kind="stable")]
        sizes = np.zeros(len(self.first), np.int64)
        sizes[owners] = np.diff(np.append(self.first[owners, 1], int(self.table.max(initial=-1)) + 1))
        return sizes


def find_classes(clauses: Clauses, weights: Weights, mine: np.ndarray) -> tuple[RankClasses, np.ndarray]:
    """Classes for the attributes that these conjunctions use most, while there are bits, and how many each has."""
    uses = np.zeros(len(clauses.attributes), np.int64)
    _count_uses(mine, items_of(clauses), uses)
    attrs = np.flatnonzero((uses > 0) & (weights.total <= RANKS))
    attrs = attrs[np.argsort(-uses[attrs], kind="stable")][: 4 * BITS]
    step = max(1, len(mine) // SAMPLE)
    if step > 1:  # an attribute with many classes mostly has many in a sample too
        sampled = _sums(clauses, weights, mine[::step].copy(), attrs)
        few = [attr for attr, sums in zip(attrs, sampled, strict=True) if len({*sums.tolist(), 0}) <= CLASSES]
        attrs = np.array(few, np.int64)
    attrs = attrs[:BITS]
    first = np.full((len(clauses.attributes), 2), -1, np.int32)
    tables: list[np.ndarray] = []
    sizes: list[int] = []
    ranks = used = 0
    for attr, sums in zip(attrs, _sums(clauses, weights, mine, attrs), strict=True):
        known, inverse = np.unique(np.append(sums, np.uint64(0)), return_inverse=True)
        if len(known) > CLASSES or used + len(known) > BITS:
            continue
        first[attr] = ranks, used
        tables.append(used + inverse[:-1])  # 0 is the smallest: class 0 is what no conjunction asks for
        sizes.append(len(known))
        ranks += len(sums)
        used += len(known)
    table = np.concatenate([np.empty(0, np.int32), *tables]).astype(np.int32)
    return RankClasses(first, table), np.array(sizes, np.int64)


def _sums(clauses: Clauses, weights: Weights, mine: np.ndarray, attrs: np.ndarray) -> list[np.ndarray]:
    """Per attribute a number for each rank, equal for ranks that these conjunctions do not tell apart."""
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(weights.total[attrs] + 1)])
    begin = np.full(len(clauses.attributes), -1, np.int64)
    begin[attrs] = start[:-1]
    marks = np.zeros(int(start[-1]), np.uint64)
    _mark(mine, items_of(clauses), begin, marks)
    return [np.cumsum(marks[start[at] : start[at + 1] - 1]) for at in range(len(attrs))]


@kernel
def _count_uses(mine: np.ndarray, items: Items, uses: np.ndarray) -> None:
    for c in mine:
        for k in range(items.start[c], items.start[c + 1]):
            if items.kind[k] <= SET:
                uses[items.attr[k]] += 1


@helper
def _hash(one: int, two: int) -> np.uint64:
    h = (np.uint64(one) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(29)) ^ (np.uint64(two) + np.uint64(1))) * np.uint64(0xBF58476D1CE4E5B9)
    return h ^ (h >> np.uint64(32))


@kernel
def _mark(mine: np.ndarray, items: Items, begin: np.ndarray, marks: np.ndarray) -> None:
    """Add a number of each item where its ranges begin, and take it away behind their ends."""
    start, attr, kind, low, high, set_start, set_low, set_high = items
    for c in mine:
        for k in range(start[c], start[c + 1]):
            at = begin[attr[k]]
            if at < 0 or kind[k] > SET:
                continue
            if kind[k] == RANGE:
                h = _hash(low[k], high[k])
                marks[at + low[k]] += h
                marks[at + high[k] + 1] -= h
                continue
            h = _hash(-1 - low[k], 0)
            for i in range(set_start[low[k]], set_start[low[k] + 1]):
                marks[at + set_low[i]] += h
                marks[at + set_high[i] + 1] -= h


@helper
def admitted(
    k: int, kind: np.ndarray, low: np.ndarray, high: np.ndarray, set_start: np.ndarray, set_low: np.ndarray,
    set_high: np.ndarray, table: np.ndarray, zero: int, alive: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Mark the classes that an item admits; return how many they are, and how many ranks it admits.

    `table` has the classes of the item's attribute, from the rank 0 on, and `zero` is its class 0.
    """
    first, last = (0, 1) if kind[k] == RANGE else (set_start[low[k]], set_start[low[k] + 1])
    count = ranks = 0
    for i in range(first, last):
        one, two = (low[k], high[k]) if kind[k] == RANGE else (set_low[i], set_high[i])
        ranks += two - one + 1
        for rank in range(one, two + 1):
            c = table[rank] - zero
            count += not alive[c]
            alive[c] = True
    return count, ranks
