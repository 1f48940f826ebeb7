"""The predicate clusters of the matchers that count: every different predicate once, found by attribute and operator.

Le Subscribe, Figure 2. Predicates are numbered by (attribute, operator, constant), so that the satisfied predicates
of an ordered operator are one run of numbers and their subscriptions one run of memory. X < c is satisfied by a suffix
of the sorted constants, X > c by a prefix (ERR-11a), within the type of c. An interval with two ends is two predicates,
FROM in the order of low ends and TO in the order of high ends: a value satisfies a prefix of one and a suffix of the
other. Of several values one must be between both ends (AMB-10d), so there the ends are compared pair by pair. IN is
found under each of its constants, `!=` is all but the equal one, and any other set is evaluated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.helpers import lower_bound
from whimbrel.compiled.jit import helper
from whimbrel.matchers.shared.conjunction_rows import (
    ATTR,
    EQUAL,
    HIGH,
    KIND,
    LOW,
    POINTS,
    RANGE,
    ConjunctionRows,
    SetArrays,
    in_set,
)
from whimbrel.matchers.shared.event_ranks import EventGrid
from whimbrel.matchers.shared.runs import offsets, take_runs

EQ, LT, LE, GT, GE, FROM, TO, NE, IN, OTHER = range(10)
OPERATORS = 10
LAST_STAMP = 2**31 - 1


class Predicates(NamedTuple):
    """p different predicates of a attributes with r ranks in all, and the rows that hold them."""

    cluster: Int64s  # [a * OPERATORS + 1]: the predicates of each attribute and operator
    constant: Int32s  # [p]: the rank that orders a cluster; a set's number for IN and OTHER
    other: Int32s  # [p]: the other end of FROM and TO, else 0
    partner: Int32s  # [p]: the TO predicate of each FROM, else -1
    rank_base: Int64s  # [a + 1]: where the ranks of an attribute start in the two tables below
    equal: Int32s  # [r]: the EQ predicate of each constant, or -1
    listed_start: Int64s  # [r + 1]: the IN predicates of each constant
    listed: Int32s
    row_start: Int64s  # [p + 1]: the rows of each predicate
    rows: Int32s
    first: Int32s  # [a, 5]: the first rank of each type
    sets: SetArrays

    @property
    def size(self) -> int:
        """How many different predicates there are."""
        return len(self.constant)

    def check(self) -> None:
        """Assert that clusters are sorted without repetition and that the tables lead back to their predicates."""
        assert self.cluster[0] == 0 and self.cluster[-1] == self.size and np.all(np.diff(self.cluster) >= 0)
        for cluster in range(len(self.cluster) - 1):
            run = slice(self.cluster[cluster], self.cluster[cluster + 1])
            keys = self.constant[run].astype(np.int64) << 32 | self.other[run]
            assert np.all(np.diff(keys) > 0), "a predicate is stored twice or out of order"
            attr, operator = divmod(cluster, OPERATORS)
            cells = self.rank_base[attr] + self.constant[run]
            if operator == EQ:
                assert np.array_equal(self.equal[cells], np.arange(run.start, run.stop))
            if operator == FROM:
                high = self.partner[run]
                assert np.array_equal(self.constant[high], self.other[run]) and np.array_equal(
                    self.other[high], self.constant[run]
                )
                assert len(set(high.tolist())) == len(high) == self.cluster[cluster + 2] - self.cluster[cluster + 1]
        assert np.count_nonzero(self.equal >= 0) == sum(np.diff(self.cluster)[EQ::OPERATORS])
        assert np.all(np.diff(self.row_start) > 0) and self.row_start[-1] == len(self.rows)


def build_predicates(rows: ConjunctionRows, chosen: npt.NDArray[np.bool_], number: Int64s) -> Predicates:
    """Store each different predicate of the chosen items once; `number` is the new number of each row."""
    items, holder = rows.items[chosen], number[rows.item_rows()[chosen]]
    attr = items[:, ATTR].astype(np.int64)
    operator, constant, other = _operators(rows, items)
    two = np.flatnonzero(operator == FROM)  # each end of an interval is a predicate
    attr, holder = np.append(attr, attr[two]), np.append(holder, holder[two])
    operator = np.append(operator, np.full(len(two), TO))
    constant, other = np.append(constant, other[two]), np.append(other, constant[two])
    order = np.lexsort((other, constant, attr * OPERATORS + operator))
    attr, operator, constant, other, holder = (c[order] for c in (attr, operator, constant, other, holder))
    cluster = attr * OPERATORS + operator
    is_new = np.ones(len(order), dtype=np.bool_)
    for column in (cluster, constant, other):
        is_new[1:] &= column[1:] == column[:-1]
    is_new[1:] = ~is_new[1:]
    attr, operator, constant, other, cluster = (c[is_new] for c in (attr, operator, constant, other, cluster))
    rank_base = offsets(rows.dictionary.rank_base[:, 4])
    pids = np.arange(len(constant), dtype=np.int32)
    is_equal = operator == EQ
    equal = np.full(rank_base[-1], -1, dtype=np.int32)
    equal[rank_base[attr[is_equal]] + constant[is_equal]] = pids[is_equal]
    partner = np.full(len(constant), -1, dtype=np.int32)
    highs = pids[operator == TO]
    partner[operator == FROM] = highs[np.lexsort((constant[highs], other[highs], attr[highs]))]
    listed_start, listed = _listed(rows, pids[operator == IN], constant, rank_base[attr])
    return Predicates(
        np.searchsorted(cluster, np.arange(len(rows.dictionary.rank_base) * OPERATORS + 1)).astype(np.int64),
        constant.astype(np.int32),
        other.astype(np.int32),
        partner,
        rank_base,
        equal,
        listed_start,
        listed,
        np.append(np.flatnonzero(is_new), len(order)).astype(np.int64),
        holder.astype(np.int32),
        rows.dictionary.rank_base,
        rows.sets,
    )


def _operators(rows: ConjunctionRows, items: Int32s) -> tuple[Int64s, Int64s, Int64s]:
    """The operator, the ordering constant and, for FROM, the high end of each item."""
    kind, low, high = (items[:, column].astype(np.int64) for column in (KIND, LOW, HIGH))
    first = rows.dictionary.rank_base[items[:, ATTR]].astype(np.int64)
    block = np.arange(len(items)), (first[:, 1:4] <= np.where(kind == RANGE, low, 0)[:, None]).sum(axis=1)
    bottom, top = first[block], first[block[0], block[1] + 1] - 1
    operator = np.full(len(items), OTHER, dtype=np.int64)
    constant, other = low.copy(), np.zeros(len(items), dtype=np.int64)
    operator[kind == EQUAL] = EQ
    operator[kind == POINTS] = IN
    is_range, is_below, is_above = kind == RANGE, low == bottom, high == top
    below = is_range & is_below & (high <= top)
    operator[below] = np.where((high - bottom)[below] % 2 == 1, LE, LT)  # constants have odd ranks
    constant[below] = high[below]
    above = is_range & is_above & ~is_below
    operator[above] = np.where((low - bottom)[above] % 2 == 1, GE, GT)
    between = is_range & ~below & ~above
    operator[between] = FROM
    other[between] = high[between]
    sets = np.where(kind >= POINTS, low, 0)
    starts, lows, highs = rows.sets
    if len(lows):
        last = starts[sets + 1] - 1
        before, after = highs[last - 1], lows[last]  # every set has two intervals or more
        whole = (lows[last - 1] == first[:, 0]) & (highs[last] == first[:, 4] - 1)
        one = (kind >= POINTS) & (np.diff(starts)[sets] == 2) & whole & (before + 2 == after)
        operator[one] = NE
        constant[one] = before[one] + 1
    return operator, constant, other


def _listed(rows: ConjunctionRows, pids: Int32s, constant: Int64s, base: Int64s) -> tuple[Int64s, Int32s]:
    """For each rank of each attribute the IN predicates that have it."""
    total = int(rows.dictionary.rank_base[:, 4].sum())
    start, ranks = take_runs(rows.sets.start, rows.sets.low, constant[pids])
    lengths = np.diff(start)
    cells = np.repeat(base[pids], lengths) + ranks
    order = np.argsort(cells, kind="stable")
    return offsets(np.bincount(cells, minlength=total)), np.repeat(pids, lengths)[order]


@helper
def _push(out: Int32s, found: int, start: int, end: int) -> int:
    out[found, 0] = start
    out[found, 1] = end
    return found + (start < end)


@helper
def _one_value(
    p: Predicates, attr: int, rank: int, alone: bool, out: Int32s, found: int, counters: Int64s | None
) -> int:
    """Add the runs of predicates that one value of an attribute satisfies, which is `alone` or one of several."""
    constant, cluster = p.constant, p.cluster
    at = attr * OPERATORS
    cell = p.rank_base[attr] + rank
    if p.equal[cell] >= 0:
        found = _push(out, found, p.equal[cell], p.equal[cell] + 1)
    for place in range(p.listed_start[cell], p.listed_start[cell + 1]):
        found = _push(out, found, p.listed[place], p.listed[place] + 1)
    kind = 0
    while rank >= p.first[attr, kind + 1]:
        kind += 1
    bottom, above = p.first[attr, kind], p.first[attr, kind + 1]
    searches = 1
    for operator in range(LT, GE + 1):
        start, end = cluster[at + operator], cluster[at + operator + 1]
        if start < end:
            searches += 1
            if operator <= LE:  # constants from the value up to the end of its type
                least, most = rank, above
            else:
                least, most = bottom, rank + 1
            first = lower_bound(constant, start, end, least)
            found = _push(out, found, first, lower_bound(constant, first, end, most))
    start, end = cluster[at + FROM], cluster[at + FROM + 1]
    evaluated = 0
    if start < end:
        searches += 1
        end = lower_bound(constant, start, end, rank + 1)
        if alone:
            searches += 1
            found = _push(out, found, start, end)
            start, end = cluster[at + TO], cluster[at + TO + 1]
            found = _push(out, found, lower_bound(constant, start, end, rank), end)
        else:
            evaluated += end - start
            for pid in range(start, end):
                if p.other[pid] >= rank:
                    found = _push(out, found, pid, pid + 1)
                    found = _push(out, found, p.partner[pid], p.partner[pid] + 1)
    start, end = cluster[at + NE], cluster[at + NE + 1]
    equal = lower_bound(constant, start, end, rank)
    found = _push(out, found, start, equal)
    found = _push(out, found, equal + (equal < end and constant[equal] == rank), end)
    evaluated += cluster[at + OTHER + 1] - cluster[at + OTHER]
    for pid in range(cluster[at + OTHER], cluster[at + OTHER + 1]):
        if in_set(rank, constant[pid], p.sets):
            found = _push(out, found, pid, pid + 1)
    if counters is not None:
        counters[0] += searches
        counters[1] += evaluated
    return found


@helper
def satisfied(
    p: Predicates, grid: EventGrid, event: int, out: Int32s, seen: Int32s, stamp: int, counters: Int64s | None
) -> int:
    """Write the runs of predicates that an event satisfies to `out`, no predicate twice. Return how many runs."""
    first, starts, more = grid
    found = int(np.int64(0))  # callees would be compiled twice, the first time for a literal 0
    for attr in range(first.shape[1]):
        if first[event, attr] < 0:
            continue
        cell = event * first.shape[1] + attr
        if starts.size == 0 or starts[cell] == starts[cell + 1]:
            found = _one_value(p, attr, first[event, attr], True, out, found, counters)
            continue
        kept = found
        for place in range(starts[cell] - 1, starts[cell + 1]):
            rank = first[event, attr] if place < starts[cell] else more[place]
            end = _one_value(p, attr, rank, False, out, kept, counters)
            fresh = out[kept:end].copy()
            for run in range(len(fresh)):
                for pid in range(fresh[run, 0], fresh[run, 1]):
                    if seen[pid] != stamp:
                        seen[pid] = stamp
                        kept = _push(out, kept, pid, pid + 1)
        found = kept
    return found


class CountArrays(NamedTuple):
    """The arrays with which kernels count."""

    hits: Int32s  # [rows]: the predicates that the present event satisfies, above its stamp
    needed: Int32s  # [rows]: the predicates of each row
    seen: Int32s  # [p]: the last stamp at which each predicate was satisfied
    runs: Int32s  # of `satisfied`: every predicate alone, then one value's runs, then the run that is not counted
    step: int  # between the stamps of two events


class HitCounts:
    """How many predicates of each row the present event satisfies.

    Every event has a stamp, `step` above the one before. A count that is not above it is 0, so that nothing is reset.
    """

    def __init__(self, predicates: Predicates, rows: int) -> None:
        needed: Int32s = np.bincount(predicates.rows, minlength=rows).astype(np.int32)
        runs = np.zeros((2 * predicates.size + OPERATORS * (len(predicates.first) + 2), 2), dtype=np.int32)
        hits, seen = np.zeros(rows, dtype=np.int32), np.zeros(predicates.size, dtype=np.int32)
        self.arrays = CountArrays(hits, needed, seen, runs, int(needed.max(initial=0)) + 1)
        self.stamp = 0

    def prepare(self, events: int) -> None:
        """Reset the stamps if they could overflow within the next `events` events."""
        if self.stamp + self.arrays.step * (events + 2) > LAST_STAMP:
            self.stamp = 0
            self.arrays.hits[:] = 0
            self.arrays.seen[:] = 0
