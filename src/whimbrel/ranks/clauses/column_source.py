"""Bulk loads: filters of a few shapes with their literals in columns, compiled without a filter object for each.

A walk over the shapes writes a few numbers for each term (a descriptor) and collects the literal columns in pools, one
for each attribute and type. Ranks are then found pool by pool, and one kernel writes the items of all rows. So a load
of many small groups costs little more than one of a few large groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.jit import helper, kernel
from whimbrel.language.columnar import Conjunctions, Operand, ShapeGroup, Term
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP
from whimbrel.ranks.clauses.clauses import RANGE, SET, SHARED
from whimbrel.ranks.clauses.compiler import ClauseItems, FilterSource, attribute_number
from whimbrel.ranks.clauses.interval_sets import IntervalSets
from whimbrel.ranks.clauses.literal_pools import LiteralPool
from whimbrel.ranks.constants import Constants
from whimbrel.ranks.dictionary import Dictionary

_TYPES = {"number": NUMBER, "string": STRING, "timestamp": TIMESTAMP}
_BLOCK_END, _CONSTANT = -1, -2
_BOOLEAN_RANKS = {False: 2, True: 4}
_EXCLUDED = 2


Items = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Arrays: attribute, kind, low and high of each item."""
_Places = dict[tuple[int, int], tuple[int, int]]
_Place = Callable[[int, Operand], tuple[int, int]]
"""Gives the pool of the operand of an attribute, and where its column begins there."""


def column_sources(
    groups: Sequence[ShapeGroup], index_rows: np.ndarray
) -> tuple[list[ColumnSource | FilterSource], list[int]]:
    """The sources of parsed groups, and the rows of filters that are always true; input row r is index_rows[r]."""
    sources: list[ColumnSource | FilterSource] = []
    always: list[int] = []
    plain: list[ShapeGroup] = []
    for group in groups:
        if any(not terms for terms in group.shape.conjunctions):
            always += index_rows[group.rows].tolist()
        elif any(term.kind == "prefix" for terms in group.shape.conjunctions for term in terms):
            filters = [group.filter(row) for row in range(len(group.rows))]
            sources.append(FilterSource(index_rows[group.rows].tolist(), filters))
        else:
            plain.append(group)
    if plain:
        sources.append(ColumnSource(plain, index_rows))
    return sources, always


class ColumnSource:
    """Filters of many shapes, their literals in columns."""

    def __init__(self, groups: Sequence[ShapeGroup], index_rows: np.ndarray) -> None:
        self._groups = groups  # until their constants are given
        self._rows = [group.rows for group in groups]
        self._index_rows = index_rows
        self._pools: list[LiteralPool] = []
        self._blocks: list[tuple[int, int, int, int]] = []  # first row, rows, items per row, flags
        self._items: list[tuple[int, ...]] = []
        self._members: list[tuple[int, int]] = []  # pool and place of each member of a list

    def constants(self, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Number the attributes, and add the constants of each to the gathered ones."""
        pools: dict[tuple[int, int], int] = {}
        first = 0
        for group in self._groups:
            rows = len(group.rows)
            flags = SHARED if len(group.shape.conjunctions) > 1 else 0
            places: _Places = {}

            def place(
                attr: int, operand: Operand, group: ShapeGroup = group, places: _Places = places
            ) -> tuple[int, int]:
                """The pool of an operand's column, and where the column begins in it."""
                if operand.slot is None:
                    return _CONSTANT, _BOOLEAN_RANKS[bool(operand.value)]
                known = places.get((attr, operand.slot))
                if known is None:
                    type = _TYPES[group.shape.slot_types[operand.slot]]
                    pool = pools.setdefault((attr, type), len(pools))
                    if pool == len(self._pools):
                        self._pools.append(LiteralPool(attr, type))
                    known = places[attr, operand.slot] = pool, self._pools[pool].add(group.columns[operand.slot])
                return known

            for terms in group.shape.conjunctions:
                width = 0
                for term in terms:
                    attr = attribute_number(term.attribute, attributes, gathered)
                    width += self._describe(attr, term, place, width, group, gathered)
                self._blocks.append((first, rows, width, flags))
            first += rows
        self._groups = ()
        for pool in self._pools:
            pool.give(gathered[pool.attr])

    def _describe(
        self, attr: int, term: Term, place: _Place, width: int, group: ShapeGroup, gathered: list[Constants]
    ) -> int:
        """Write the descriptors of a term; return its number of items."""
        block = len(self._blocks)
        if term.kind == "range":
            some = term.lower or term.upper
            assert some is not None and some.slot is not None
            type = _TYPES[group.shape.slot_types[some.slot]]
            gathered[attr].ordered = gathered[attr].ordered or type == STRING
            low = place(attr, term.lower) if term.lower else (_BLOCK_END, type)
            high = place(attr, term.upper) if term.upper else (_BLOCK_END, type + 1)
            above = int(term.lower is not None and not term.lower_inclusive)
            below = int(term.upper is None or not term.upper_inclusive)
            self._items.append((block, width, attr, RANGE, *low, above, *high, below))
            return 1
        if term.kind == "required" or (term.kind == "points" and len(term.operands) == 1):
            for i, operand in enumerate(term.operands):
                point = place(attr, operand)
                self._items.append((block, width + i, attr, RANGE, *point, 0, *point, 0))
            return len(term.operands)
        begin = len(self._members)
        self._members += [place(attr, operand) for operand in term.operands]
        kind = SET if term.kind == "points" else _EXCLUDED
        self._items.append((block, width, attr, kind, begin, len(term.operands), 0, 0, 0, 0))
        return 1

    def parts(self, dictionary: Dictionary, sets: IntervalSets) -> list[ClauseItems]:
        """The conjunctions in rank space."""
        blocks = np.array(self._blocks, np.int64).reshape(-1, 4)
        items, _ = self._assembled(blocks, dictionary, sets, np.empty(0, np.int32))
        rows = self._index_rows[np.concatenate(self._rows)].astype(np.int32, copy=False)
        return [_satisfiable(blocks, rows, items)]

    def _assembled(
        self, blocks: np.ndarray, dictionary: Dictionary, sets: IntervalSets, places: np.ndarray
    ) -> tuple[Items, int]:
        """The items of all groups, at the given places or one after the other, and how many ranges are empty."""
        base = np.cumsum([0, *(pool.size for pool in self._pools)])
        pooled = np.empty(int(base[-1]), np.int32)
        for pool, begin in zip(self._pools, base.tolist(), strict=False):
            pooled[begin : begin + pool.size] = pool.ranks(dictionary)
        items = np.array(self._items, np.int64).reshape(-1, 10)
        members = np.array(self._members, np.int64).reshape(-1, 2)
        sizes = blocks[:, 1] * blocks[:, 2]
        total = int(sizes.sum())
        attr, low, high = (np.empty(total, np.int32) for _ in range(3))
        kind = np.empty(total, np.uint8)
        in_lists = items[items[:, 3] != RANGE]
        spans = int((blocks[in_lists[:, 0], 1] * (in_lists[:, 5] + 1)).sum())
        set_start = np.zeros(int(blocks[in_lists[:, 0], 1].sum()) + 1, np.int64)
        set_low, set_high = np.empty(spans, np.int32), np.empty(spans, np.int32)
        used, empty = _assemble(
            blocks, np.cumsum(sizes) - sizes, items, members, base, pooled, dictionary.rank_base, places,
            sets.count, attr, kind, low, high, set_start, set_low, set_high,
        )  # fmt: skip
        sets.add_ragged(set_start, set_low[:used], set_high[:used])
        return (attr, kind, low, high), empty


class PredicateSource(ColumnSource):
    """Filters of one conjunction each, given predicate by predicate instead of shape by shape."""

    def __init__(self, conjunctions: Sequence[Conjunctions], index_rows: np.ndarray) -> None:
        super().__init__([group for one in conjunctions for group in one.groups], index_rows)
        self._counts = [one.counts for one in conjunctions]
        self._subscriptions = [one.rows for one in conjunctions]
        self._predicates = [len(one.groups) for one in conjunctions]

    def parts(self, dictionary: Dictionary, sets: IntervalSets) -> list[ClauseItems]:
        """The conjunctions in rank space: items are written predicate by predicate, each to its place."""
        blocks = np.array(self._blocks, np.int64).reshape(-1, 4)
        items, empty = self._assembled(blocks, dictionary, sets, self._places())
        counts = np.concatenate(self._counts)
        rows = self._index_rows[np.concatenate(self._subscriptions)].astype(np.int32, copy=False)
        if not empty:
            return [ClauseItems(rows, np.zeros(len(rows), np.uint8), counts, *items)]
        each = np.stack([np.arange(len(rows)), np.ones_like(rows), counts, np.zeros_like(rows)], axis=1)
        return [_satisfiable(each.astype(np.int64), rows, items)]

    def _places(self) -> np.ndarray:
        """The place of each predicate among the items of all rows."""
        places = np.empty(sum(map(len, self._rows)), np.int32)
        first = at = 0
        every = iter(self._rows)
        for counts, predicates in zip(self._counts, self._predicates, strict=True):
            for rows in islice(every, predicates):
                np.add(rows, first, out=places[at : at + len(rows)], casting="same_kind")
                at += len(rows)
            first += int(counts.sum())
        return places


def _satisfiable(blocks: np.ndarray, rows: np.ndarray, items: Items) -> ClauseItems:
    """The conjunctions that have no empty range."""
    conjunctions = int(blocks[:, 1].sum())
    kept_rows = np.empty(conjunctions, np.int32)
    flags = np.empty(conjunctions, np.uint8)
    counts = np.empty(conjunctions, np.int64)
    attr, kind, low, high = items
    kept, kept_items = _keep_satisfiable(blocks, rows, attr, kind, low, high, kept_rows, flags, counts)
    return ClauseItems(kept_rows[:kept], flags[:kept], counts[:kept], *(array[:kept_items] for array in items))


@helper
def _rank(pool: int, at: int, row: int, base: np.ndarray, pooled: np.ndarray) -> Integer:  # pragma: no cover
    return np.int64(at) if pool == _CONSTANT else np.int64(pooled[base[pool] + at + row])


@helper
def _end(
    pool: int, at: int, step: int, a: int, base: np.ndarray, rank_base: np.ndarray
) -> tuple[Integer, Integer]:  # pragma: no cover
    """Where the ranks of one end of a range begin in the pools, and what to add to each; or -1 and one rank for all."""
    if pool == _BLOCK_END:
        return np.int64(-1), rank_base[a, at] + step
    return (np.int64(-1), at + step) if pool == _CONSTANT else (base[pool] + at, step)


@helper
def _sort(points: np.ndarray, n: int) -> None:  # pragma: no cover
    """Shell sort: short lists are the rule, and NumPy's sort takes seconds to compile."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            x = points[i]
            j = i
            while j >= gap and points[j - gap] > x:
                points[j] = points[j - gap]
                j -= gap
            points[j] = x
        gap //= 3


@kernel
def _assemble(
    blocks: np.ndarray, begin: np.ndarray, items: np.ndarray, members: np.ndarray, base: np.ndarray, pooled: np.ndarray,
    rank_base: np.ndarray, places: np.ndarray, sets: int, attr: np.ndarray, kind: np.ndarray, low: np.ndarray,
    high: np.ndarray, set_start: np.ndarray, set_low: np.ndarray, set_high: np.ndarray,
) -> tuple[int, int]:  # fmt: skip  # pragma: no cover
    """Write the items of every row, and the sets they name, numbered from `sets` on.

    Returns the number of intervals of the sets, and the number of ranges that are empty.
    """
    first_set = sets
    spans = empty = 0
    points = np.empty(64, np.int32)
    for d in range(items.shape[0]):
        block, a, what = items[d, 0], items[d, 2], items[d, 3]
        width, at = blocks[block, 2], begin[block] + items[d, 1]
        if what == RANGE:
            low_from, low_more = _end(items[d, 4], items[d, 5], items[d, 6], a, base, rank_base)
            high_from, high_more = _end(items[d, 7], items[d, 8], -items[d, 9], a, base, rank_base)
            for row in range(blocks[block, 1]):
                k = np.int64(places[at]) if places.size else at
                one = low_more if low_from < 0 else pooled[low_from + row] + low_more
                two = high_more if high_from < 0 else pooled[high_from + row] + high_more
                attr[k], kind[k], low[k], high[k] = a, RANGE, one, two
                empty += int(one > two)
                at += width
            continue
        n = items[d, 5]
        if n > points.size:
            points = np.empty(2 * n, np.int32)
        for row in range(blocks[block, 1]):
            k = np.int64(places[at]) if places.size else at
            at += width
            for i in range(n):
                member = items[d, 4] + i
                points[i] = _rank(members[member, 0], members[member, 1], row, base, pooled)
            _sort(points, n)
            attr[k], kind[k], low[k], high[k] = a, SET, sets, 0
            previous = 0
            for i in range(n):
                if i > 0 and points[i] == points[i - 1]:
                    continue
                if what == SET:
                    set_low[spans] = points[i]
                    set_high[spans] = points[i]
                else:
                    set_low[spans] = previous + 1
                    set_high[spans] = points[i] - 1
                    previous = points[i]
                spans += 1
            if what != SET:
                set_low[spans] = previous + 1
                set_high[spans] = rank_base[a, 4] - 1
                spans += 1
            sets += 1
            set_start[sets - first_set] = spans
    return spans, empty


@kernel
def _keep_satisfiable(
    blocks: np.ndarray, rows: np.ndarray, attr: np.ndarray, kind: np.ndarray, low: np.ndarray, high: np.ndarray,
    kept_rows: np.ndarray, flags: np.ndarray, counts: np.ndarray,
) -> tuple[int, int]:  # fmt: skip  # pragma: no cover
    """Drop conjunctions with an empty range, in place; return how many conjunctions and items are left."""
    read = write = kept = 0
    for b in range(blocks.shape[0]):
        width = blocks[b, 2]
        for row in range(blocks[b, 1]):
            good = True
            for k in range(read, read + width):
                good &= kind[k] != RANGE or low[k] <= high[k]
            if good:
                for k in range(read, read + width):
                    attr[write], kind[write], low[write], high[write] = attr[k], kind[k], low[k], high[k]
                    write += 1
                kept_rows[kept] = rows[blocks[b, 0] + row]
                flags[kept] = blocks[b, 3]
                counts[kept] = width
                kept += 1
            read += width
    return kept, write
