"""Checks conjunctions in the ranks of a segment that does not hold them: those of the head.

A constant of such a conjunction is seldom a constant of the segment. It lies in a gap between two of them, and the rank
of an event value in the same gap does not say on which side of the constant the value lies. So a check has two rank
intervals: the outer one has all values that may pass, the inner one those that pass for certain. A conjunction fails if
some value is outside its outer interval. It matches if all values are inside the inner ones and the checks are all that
it asks. Else its filter must be evaluated. A table may grow while other threads search it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Int32Matrix, Int32s, Int64s
from whimbrel.compiled.jit import inlined, kernel
from whimbrel.compiled.views import tuple_of_arrays, view, words_of
from whimbrel.engine.access.kernel import SCRATCH_AT, TASK_AT
from whimbrel.engine.access.shared.arrays import SCRATCH, TASK
from whimbrel.engine.access.shared.packing import VERIFY_BIT
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import NULL_KEY, Constraint
from whimbrel.model.intervals import STRINGS, Cut, IntervalSet
from whimbrel.model.values import BOOLEAN, NUMBER, STRING, SortKey
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.lookup import Lookup

MOST_INTERVALS = 64
"""Intervals of one check, at most; a set of more becomes one interval around all."""

ATTR, LOW, HIGH, SURE_LOW, SURE_HIGH, IS_LAST = range(6)
"""Columns of `checks`. A value must be in one of the intervals up to the next that is the last one of its check."""
FIRST, END, ENTRY, ROW, IS_EXACT = range(5)
"""Columns of `conjunctions`: its checks (FIRST .. END), the number and row of its entry, whether checks decide it."""


class Checks(NamedTuple):
    """The arrays of a table."""

    conjunctions: Int32Matrix  # [c, 5]
    checks: Int32Matrix  # [k, 6]


CHECKS = tuple_of_arrays(Checks, True)

Span = tuple[int, int, int, int]
"""The ends of an outer and of an inner rank interval."""


class Shown(NamedTuple):
    """The state of a table that searches see; a later one has more conjunctions."""

    words: np.ndarray
    arrays: Checks  # keeps the arrays alive to which the words point
    size: int


class CheckTable:
    """Conjunctions in the ranks of one dictionary. One thread at a time appends; any number search."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        arrays = Checks(np.zeros((16, 5), np.int32), np.zeros((64, 6), np.int32))
        self.shown = Shown(np.array(words_of(CHECKS, arrays), np.int64), arrays, 0)
        self._used = 0

    def append(self, entry: int, row: int, conjunctions: Iterable[Conjunction]) -> None:
        """Append the conjunctions of an entry; numbers of entries ascend."""
        words, arrays, count = self.shown
        for conjunction in conjunctions:
            checks, is_exact = checks_of(self._dictionary, conjunction)
            end = self._used + len(checks)
            larger = Checks(grown(arrays.conjunctions, count + 1), grown(arrays.checks, end))
            if larger[0] is not arrays[0] or larger[1] is not arrays[1]:
                arrays, words = larger, np.array(words_of(CHECKS, larger), np.int64)
            if checks:
                arrays.checks[self._used : end] = checks
            arrays.conjunctions[count] = self._used, end, entry, row, is_exact
            self._used, count = end, count + 1
        self.shown = Shown(words, arrays, count)


def grown(rows: np.ndarray, need: int) -> np.ndarray:
    """The array if it has `need` rows, else a larger copy, with zeros behind."""
    if need <= len(rows):
        return rows
    larger = np.zeros((max(need, 2 * len(rows)), *rows.shape[1:]), rows.dtype)
    larger[: len(rows)] = rows
    return larger


def checks_of(dictionary: Dictionary, conjunction: Conjunction) -> tuple[list[tuple[int, ...]], bool]:
    """The checks of a conjunction as rows of `Checks.checks`, narrowest first, and whether they decide it."""
    found: list[tuple[int, int, list[Span]]] = []
    is_exact = not conjunction.links
    for name, constraint in conjunction.constraints:
        attr = dictionary.sources.get(name)
        is_exact = is_exact and _is_decided(constraint) and attr is not None
        if attr is not None:
            for values in _wanted(constraint):
                spans = _spans(dictionary, attr, values)
                found.append((sum(span[1] - span[0] for span in spans), attr, spans))
    rows: list[tuple[int, ...]] = []
    for _, attr, spans in sorted(found):
        rows += [(attr, *span, int(place == len(spans) - 1)) for place, span in enumerate(spans)]
    return rows, is_exact


def _wanted(constraint: Constraint) -> list[IntervalSet]:
    """Sets of values: the attribute must have a value in each."""
    if constraint.missing or constraint.null:
        return []
    groups = [IntervalSet.points(group) for group in constraint.required if NULL_KEY not in group]
    return groups if groups and not constraint.bound else [constraint.values, *groups]


def _is_decided(constraint: Constraint) -> bool:
    """Whether `_wanted` is all that a constraint asks."""
    asks_states = constraint.missing or constraint.null or any(NULL_KEY in group for group in constraint.required)
    return not (asks_states or constraint.include or constraint.exclude or constraint.forbidden)


def _spans(dictionary: Dictionary, attr: int, values: IntervalSet) -> list[Span]:
    """The rank intervals of a set of values."""
    lookup = dictionary.lookup(attr)
    pairs = list(values.pairs())
    if len(pairs) > MOST_INTERVALS:
        return [(*_span(dictionary, lookup, pairs[0][0], pairs[-1][1])[:2], 1, 0)]
    lacked = None if lookup.ordered else STRINGS.minus(values).as_points()
    if lacked:
        return [*_spans(dictionary, attr, values.minus(STRINGS)), *_spans_without(lookup, lacked)]
    spans: list[Span] = []
    for low, high in pairs:
        points = IntervalSet((low, high)).as_points()
        if points is None:
            spans.append(_span(dictionary, lookup, low, high))
        else:
            places = (_place(lookup, point) for point in points)
            spans += ((rank, rank, rank, rank) if is_constant else (rank, rank, 1, 0) for rank, is_constant in places)
    return spans


def _spans_without(lookup: Lookup, lacked: Sequence[SortKey]) -> list[Span]:
    """The rank intervals of all strings but `lacked`, if strings are not ordered: unknown ones have the last rank."""
    places = [_place(lookup, key) for key in lacked]
    known = sorted(rank for rank, is_constant in places if is_constant)
    last = lookup.time_base - 1
    firsts, lasts = [lookup.string_base, *(rank + 1 for rank in known)], [*(rank - 1 for rank in known), last]
    sure_lasts = [*lasts[:-1], last if len(known) == len(places) else last - 1]
    return [(low, high, low, sure) for low, high, sure in zip(firsts, lasts, sure_lasts, strict=True)]


def _span(dictionary: Dictionary, lookup: Lookup, low: Cut, high: Cut) -> Span:
    """The rank intervals of the values between two cuts. If strings are not ordered, the outer one has all of them."""
    first = sure_first = dictionary.base(lookup.attr, low[0])
    last = sure_last = dictionary.base(lookup.attr, high[0]) - 1
    if low[2] is not None and low[0] == STRING and not lookup.ordered:
        sure_first = lookup.time_base
    elif low[2] is not None:
        rank, is_constant = _place(lookup, (low[0], low[2]))
        first, sure_first = (rank + low[3], rank + low[3]) if is_constant else (rank, rank + 1)
    if high[2] is not None and high[0] == STRING and not lookup.ordered:
        last, sure_last = lookup.time_base - 1, lookup.string_base - 1
    elif high[2] is not None:
        rank, is_constant = _place(lookup, (high[0], high[2]))
        last, sure_last = (rank + high[3] - 1, rank + high[3] - 1) if is_constant else (rank, rank - 1)
    return first, last, sure_first, sure_last


def _place(lookup: Lookup, key: SortKey) -> tuple[int, bool]:
    """The rank of a value, and whether it is one of the constants."""
    kind, value = key
    if kind == STRING:
        rank = np.empty(1, np.int32)
        data = str(value).encode()
        lookup.rank_strings(np.array((0, len(data)), np.int64), np.frombuffer(data + b"\0", np.uint8), rank)
        return int(rank[0]), bool((int(rank[0]) - lookup.string_base) & 1)
    place = lookup.rank(key)
    base = lookup.number_base if kind == NUMBER else lookup.time_base
    return place, kind == BOOLEAN or bool((place - base) & 1)


_checks, _scratch, _task = map(view, (CHECKS, SCRATCH, TASK))


@kernel
def search_checks(table: Int64s, words: Int64s, count: int, size: int, events: int, ends: Int64s, out: Int32s) -> int:
    """Find the entries with numbers below `size` that the first `events` events of a task may match.

    `table` has the words of a table of `count` conjunctions, `words` those of `match`; the events have ranks already.
    Writes rows to `out`, those of event e up to ends[e + 1], with VERIFY_BIT if ranks do not decide. Returns the number
    of rows, or -1 if `out` is full.
    """
    conjunctions, checks = _checks(table, 0)
    scratch, task = _scratch(words, SCRATCH_AT), _task(words, TASK_AT)
    value, attrs, ranks = scratch.value, task.attrs, task.ranks
    n = 0
    ends[0] = 0
    for e in range(events):
        begin, end = task.offsets[e], task.offsets[e + 1]
        for i in range(end - 1, begin - 1, -1):
            is_several = i + 1 < end and attrs[i + 1] == attrs[i]
            value[attrs[i]] = -2 - i if is_several else ranks[i]
        last = -1
        for c in range(count):
            entry = conjunctions[c, ENTRY]
            if entry >= size:
                break
            if entry == last and out[n - 1] & VERIFY_BIT == 0:
                continue  # another conjunction of the same filter matches already
            found = _holds(checks, conjunctions[c, FIRST], conjunctions[c, END], value, attrs, ranks, end)
            if found == 0:
                continue
            if entry != last:
                if n == out.size:
                    n = -1
                    break
                n += 1
                last = entry
            is_sure = found == 2 and conjunctions[c, IS_EXACT]
            out[n - 1] = conjunctions[c, ROW] | (0 if is_sure else VERIFY_BIT)
        for i in range(begin, end):
            value[attrs[i]] = -1
        if n < 0:
            return -1
        ends[e + 1] = n
    return n


@inlined
def _holds(checks: Int32Matrix, first: int, last: int, value: Int32s, attrs: Int32s, ranks: Int32s, end: int) -> int:
    """Whether the event, whose entries end at `end`, passes checks first .. last: 0 no, 1 perhaps, 2 for certain."""
    held, one = 2, 0
    for k in range(first, last):
        rank = value[checks[k, ATTR]]
        if rank >= 0:
            one = max(one, _is_inside(checks, k, rank))
        elif rank < -1:
            i = -2 - rank
            attr = attrs[i]
            while i < end and attrs[i] == attr:
                one = max(one, _is_inside(checks, k, ranks[i]))
                i += 1
        if checks[k, IS_LAST]:
            if one == 0:
                return 0
            held, one = min(held, one), 0
    return held


@inlined
def _is_inside(checks: Int32Matrix, k: int, rank: int) -> int:
    if rank < checks[k, LOW] or rank > checks[k, HIGH]:
        return 0
    return 2 if checks[k, SURE_LOW] <= rank <= checks[k, SURE_HIGH] else 1
