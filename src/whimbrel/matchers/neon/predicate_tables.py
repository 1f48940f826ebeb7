"""The tables of Neon as arrays: operations by event type, their predicates, and the kernel that evaluates them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import inlined, kernel
from whimbrel.matchers.shared.conjunction_rows import ATTR, EQUAL, HIGH, KIND, LOW, POINTS, RANGE, ConjunctionRows
from whimbrel.matchers.shared.runs import offsets
from whimbrel.model.values import NUMBER
from whimbrel.ranks.links import HOLDS

EQUALS, UNEQUAL, BELOW, AT_MOST, ABOVE, AT_LEAST = range(6)
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
ANY_KIND = -1
"""The kind of a comparison of ranks across types."""
ANY_TYPE = -1
"""The event type of conjunctions that name none."""

_COMPARISON_OF = np.full((5, 5), -1, np.int64)  # by the first and the last value of a derived attribute that satisfies
for _number, _comparison in enumerate(COMPARISONS):
    _COMPARISON_OF[HOLDS[_comparison][0], HOLDS[_comparison][-1]] = _number  # type: ignore[index]


class NeonTables(NamedTuple):
    """The operations, event type after event type, and the predicates, operation after operation.

    The operations of type t are from type_start[t] to type_start[t + 1], the predicates of operation o from start[o] to
    start[o + 1]. A derived attribute that says how two others compare is `is_pair`; its predicates compare with 0.
    """

    types: Int32s  # the ranks of event types, sorted; ANY_TYPE comes first
    type_start: Int64s
    attr: Int32s  # of each operation
    comparison: Int32s  # of each operation
    start: Int64s
    kind: npt.NDArray[np.int8]  # of each predicate
    value: Int32s  # of each predicate
    sub: Int32s  # of each predicate, the row of its conjunction
    needed: Int32s  # how many predicates each row has
    is_pair: npt.NDArray[np.bool_]  # of each attribute
    first_rank: Int32s  # [attributes, 5]: where the ranks of each type of value begin


def neon_tables(rows: ConjunctionRows, event_type: int) -> NeonTables:
    """The tables of rows; `event_type` is the number of the attribute whose equality names the type, or -1."""
    is_pair = np.zeros(len(rows.dictionary.names), np.bool_)
    is_pair[[attr for attr, _, _ in rows.dictionary.meta.links]] = True
    own, kept = _event_types(rows, event_type)
    cells, owner = _predicate_rows(rows, kept, is_pair)
    order = np.lexsort((owner, cells[:, 1], cells[:, 0], own[owner]))
    cells, owner = cells[order], owner[order]
    key = np.stack([own[owner], cells[:, 0], cells[:, 1]], 1)
    first = np.flatnonzero(np.append(True, np.any(key[1:] != key[:-1], axis=1)[: len(key)])) if len(key) else key[:, 0]
    operations = key[first]
    types = np.unique(np.append(ANY_TYPE, operations[:, 0]))
    return NeonTables(
        types.astype(np.int32),
        np.append(np.searchsorted(operations[:, 0], types), len(operations)).astype(np.int64),
        np.ascontiguousarray(operations[:, 1].astype(np.int32)),
        np.ascontiguousarray(operations[:, 2].astype(np.int32)),
        np.append(first, len(cells)).astype(np.int64),
        np.ascontiguousarray(cells[:, 2].astype(np.int8)),
        np.ascontiguousarray(cells[:, 3].astype(np.int32)),
        owner.astype(np.int32),
        np.bincount(owner, minlength=len(rows)).astype(np.int32),
        is_pair,
        rows.dictionary.rank_base,
    )


def _event_types(rows: ConjunctionRows, event_type: int) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """The event type of each row, and which items are predicates: the type is one only if there is no other."""
    own, kept = np.full(len(rows), ANY_TYPE, np.int64), np.ones(len(rows.items), np.bool_)
    names = np.flatnonzero((rows.items[:, ATTR] == event_type) & (rows.items[:, KIND] == EQUAL))
    named, first = np.unique(rows.item_rows()[names], return_index=True)
    own[named] = rows.items[names[first], LOW]
    kept[names[first]] = np.diff(rows.start)[named] == 1
    return own, kept


def _predicate_rows(
    rows: ConjunctionRows, kept: npt.NDArray[np.bool_], is_pair: npt.NDArray[np.bool_]
) -> tuple[Int64s, Int64s]:
    """(attribute, comparison, kind, value) of each predicate as a matrix, and the row that it belongs to."""
    items, row = rows.items[kept].astype(np.int64), rows.item_rows()[kept]
    first = rows.dictionary.rank_base.astype(np.int64)[items[:, ATTR]]
    is_pair = is_pair[items[:, ATTR]]
    parts: list[tuple[Int64s, Int64s]] = []

    def put(chosen: Int64s, comparison: Int64s | int, kind: Int64s | int, value: Int64s | int) -> None:
        attribute = items[chosen, ATTR]
        columns = np.broadcast_arrays(attribute, np.asarray(comparison), np.asarray(kind), np.asarray(value))
        parts.append((np.stack(columns, 1).astype(np.int64), row[chosen]))

    pairs = np.flatnonzero(is_pair)
    put(pairs, _pair_comparisons(rows, items[pairs], first[pairs, NUMBER]), 0, 0)
    equal = np.flatnonzero(~is_pair & (items[:, KIND] == EQUAL))
    put(equal, EQUALS, _kinds(first[equal], items[equal, LOW]), items[equal, LOW])
    sets = np.flatnonzero(~is_pair & (items[:, KIND] >= POINTS))
    holder, excluded = _excluded(rows, items[sets, LOW], first[sets])
    others = sets[holder]
    put(others, UNEQUAL, _kinds(first[others], excluded), excluded)
    ranges = np.flatnonzero(~is_pair & (items[:, KIND] == RANGE))
    low, high = items[ranges, LOW], items[ranges, HIGH]
    below, above = _kinds(first[ranges], low), _kinds(first[ranges], high)
    kind = np.where(below == above, below, ANY_KIND)
    each = np.arange(len(ranges))
    bottom, top = first[ranges][each, below], first[ranges][each, above + 1] - 1
    has_upper = high < np.where(kind == ANY_KIND, first[ranges, 4] - 1, top)
    has_lower = (low > np.where(kind == ANY_KIND, first[ranges, 0], bottom)) | ~has_upper
    is_constant = (high - first[ranges][each, above]) % 2 == 1
    upper = np.where(is_constant, high, high + 1)
    put(ranges[has_upper], np.where(is_constant, AT_MOST, BELOW)[has_upper], kind[has_upper], upper[has_upper])
    inclusive = ((low - bottom) % 2 == 1) | (low == bottom)
    lower = np.where(inclusive, low, low - 1)
    put(ranges[has_lower], np.where(inclusive, AT_LEAST, ABOVE)[has_lower], kind[has_lower], lower[has_lower])
    return np.concatenate([cells for cells, _ in parts]), np.concatenate([owner for _, owner in parts])


def _pair_comparisons(rows: ConjunctionRows, items: Int64s, base: Int64s) -> Int64s:
    """The comparison that each item of a derived attribute stands for: its first and last value tell."""
    low, high = items[:, LOW].copy(), items[:, HIGH].copy()
    sets = np.flatnonzero(items[:, KIND] >= POINTS)
    number = items[sets, LOW]
    low[sets], high[sets] = rows.sets.low[rows.sets.start[number]], rows.sets.high[rows.sets.start[number + 1] - 1]
    found: Int64s = _COMPARISON_OF[(low - base) >> 1, (high - base) >> 1]
    return found


def _excluded(rows: ConjunctionRows, sets: Int64s, first: Int64s) -> tuple[Int64s, Int64s]:
    """The ranks that lie outside of sets, with the place of their set: few, as only exclusions are sets here."""
    start, length = rows.sets.start[sets], np.diff(rows.sets.start)[sets]
    place = np.repeat(np.arange(len(sets)), length + 1)  # between and around n intervals lie n + 1 gaps
    gap = np.arange(len(place)) - np.repeat(offsets(length + 1)[:-1], length + 1)
    at = start[place] + gap
    low, high = first[place, 0].copy(), first[place, 4] - 1
    inner, outer = gap > 0, gap < length[place]
    low[inner] = rows.sets.high[at[inner] - 1] + 1
    high[outer] = rows.sets.low[at[outer]] - 1
    sizes = np.maximum(high - low + 1, 0)
    within = np.arange(sizes.sum()) - np.repeat(offsets(sizes)[:-1], sizes)
    return np.repeat(place, sizes), np.repeat(low, sizes) + within


def _kinds(first: Int64s, rank: Int64s) -> Int64s:
    """The type whose block holds each rank."""
    kinds: Int64s = (first[:, 1:4] <= rank[:, None]).sum(axis=1)
    return kinds


@inlined
def _holds(rank: int, own: int, comparison: int, kind: int, value: int) -> bool:
    """Whether a rank of a kind satisfies one predicate."""
    if comparison == EQUALS:
        return rank == value
    if comparison == UNEQUAL:
        return rank != value
    if kind not in (own, ANY_KIND):
        return False
    if comparison == BELOW:
        return rank < value
    if comparison == AT_MOST:
        return rank <= value
    return rank > value if comparison == ABOVE else rank >= value


@kernel
def evaluate(
    first: Int32s,
    event: int,
    event_type: int,
    tables: NeonTables,
    satisfied: Int32s,
    reached: Int32s,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
    """Match the events of a block from `event` on, until `out` may not hold the rows of the next one."""
    found = 0
    while event < len(first) and found + satisfied.size <= out.size:
        count = 0
        own_type = first[event, event_type] if event_type >= 0 else -1
        place = np.searchsorted(tables.types, own_type) if own_type >= 0 else 0
        if place == tables.types.size or tables.types[place] != own_type:
            place = 0
        for part in range(1 + (place > 0)):
            chosen = place * part
            for operation in range(tables.type_start[chosen], tables.type_start[chosen + 1]):
                attr, comparison = tables.attr[operation], tables.comparison[operation]
                rank = first[event, attr]
                if rank < 0:
                    continue
                own = 0
                if tables.is_pair[attr]:  # -1, 0, 1 in order; where there is no order, kind 1 and 0 or 1
                    code = (rank - tables.first_rank[attr, NUMBER]) >> 1
                    own = 1 if code > 2 else 0
                    rank = 4 - code if code > 2 else code - 1
                else:
                    while rank >= tables.first_rank[attr, own + 1]:
                        own += 1
                additions = 0
                for row in range(tables.start[operation], tables.start[operation + 1]):
                    sub = tables.sub[row]
                    if _holds(rank, own, comparison, tables.kind[row], tables.value[row]):
                        if satisfied[sub] == 0:
                            reached[count] = sub
                            count += 1
                        satisfied[sub] += 1
                        additions += 1
                if counters is not None:
                    counters[0] += 1
                    counters[1] += tables.start[operation + 1] - tables.start[operation]
                    counters[2] += additions
        for number in range(count):
            out[found] = reached[number]
            found += satisfied[reached[number]] == tables.needed[reached[number]]
            satisfied[reached[number]] = 0
        if counters is not None:
            counters[3] += count
        ends[event] = found
        event += 1
    return event
