"""Finds the near misses of an event: the subscriptions that fail the fewest constraints.

One pass over the items of every segment counts, per conjunction, the attributes that have a failing item: each
attribute has one constraint, so that is the number of failed constraints. A derived attribute counts as its source. The
count is a lower bound if a filter must be verified, or if the segment holds a conjunction that the normal form drops as
unsatisfiable. So filters are evaluated, the most promising first, until no other can be among the best.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable

import numpy as np

from whimbrel.compiled.array_types import Bools, Int32s, Int64s, Uint16s
from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.decoding import packed_parts
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.shared.packing import ATTR_MASK, KIND_SHIFT, ROW_MASK, VERIFY_BIT, holds
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.matching.array_rows import linked_rows
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.model.explain import explain_conjunction
from whimbrel.model.filter import Filter
from whimbrel.model.near_misses import NearMiss, nearest_conjunction
from whimbrel.model.subscription import Id
from whimbrel.ranks.clauses.clauses import RANGE
from whimbrel.ranks.patterns.event_fragments import SEVERAL

NO_MISS = 65_535
"""The count of a row that matches or is not there; no conjunction has so many constraints."""


def nearest(
    snapshot: Snapshot, event: Event, limit: int, filter_of: Callable[[int], Filter], name: Callable[[int], Id]
) -> list[NearMiss]:
    """The `limit` subscriptions that fail the fewest constraints, then in order of addition."""
    if limit < 1:
        return []
    fails = np.full(snapshot.rows, NO_MISS, np.uint16)
    doubtful = np.zeros(snapshot.rows, bool)
    for segment in snapshot.segments:
        _count_failures(segment, event, snapshot, fails, doubtful)
    fails[fails == 0] = np.where(doubtful[fails == 0], 1, NO_MISS)  # a doubtful row matches or fails at least one
    best: list[tuple[int, int, int, Conjunction]] = []  # failed, place, row and the conjunction that fails least
    for level in np.flatnonzero(np.bincount(fails, minlength=NO_MISS + 1)[:NO_MISS]).tolist():
        if len(best) == limit and best[-1][0] < level:
            break
        rows = snapshot.in_order(np.flatnonzero(fails == level).astype(np.int32))
        for place, row in zip(snapshot.places(rows), rows, strict=True):
            if len(best) == limit and best[-1][:2] < (level, place):
                break
            found = nearest_conjunction(filter_of(int(row)), event, None)
            if found is not None:
                insort(best, (found[0], int(place), int(row), found[1]))
                del best[limit:]
    return [
        NearMiss(name(row), failed, explain_conjunction(conjunction, event, filter_of(row).schema))
        for failed, _, row, conjunction in best
    ]


def _count_failures(segment: Segment, event: Event, snapshot: Snapshot, fails: Uint16s, doubtful: np.ndarray) -> None:
    """Write how many constraints each row of a segment fails, and whether that is only a lower bound."""
    encoded = segment.encoder.encode_event(event)
    value = np.full(len(segment.attributes) + 1, -1, np.int32)
    attrs, ranks = encoded.attrs, encoded.ranks
    i = 0
    while i < len(attrs):
        j = i + 1
        while j < len(attrs) and attrs[j] == attrs[i]:
            j += 1
        value[attrs[i]] = ranks[i] if j == i + 1 else -2 - i
        i = j
    source = np.arange(len(value), dtype=np.int32)
    for derived, (its_source, _) in segment.derived.items():
        source[derived] = its_source
    source[[link for link, _, _ in segment.meta.links]] = -1  # each counts by itself
    sets = (segment.arrays["set_start"], segment.arrays["set_low"], segment.arrays["set_high"])
    for packed, counts, attr, low, high in packed_parts(segment.arrays):
        _count_items(packed, counts, attr, low, high, sets, value, source, attrs, ranks, fails, doubtful)
    rows = segment.rows
    if encoded.coupled[0] & SEVERAL:
        doubtful[rows] = True
    elif encoded.coupled[0]:  # constraints may hold one by one, but not together
        doubtful[rows[fails[rows] == 0]] = True
        if segment.meta.links:
            doubtful[linked_rows(segment)] = True
    dead = snapshot.dead(rows)
    if dead is not None:
        fails[rows[dead]] = NO_MISS


@kernel
def _count_items(
    packed: Int32s, counts: Int64s, attr: Int32s, low: Int32s, high: Int32s,
    sets: tuple[Int32s, Int32s, Int32s], value: Int32s, source: Int32s, attrs: Int32s,
    ranks: Int32s, fails: Uint16s, doubtful: Bools,
) -> None:  # fmt: skip
    """Count the attributes that fail per conjunction; write the least count of each row, and mark doubtful rows.

    The first five arguments are the fields of `Packed`; value[a] is as in `EventValues`; source[a] is the attribute
    from which a is derived, or a, or -1 for a link.
    """
    counted = np.full(value.size, -1, np.int64)  # the last conjunction in which the attribute failed
    k = 0
    for c in range(packed.size):
        failed = np.int64(0)
        for i in range(k, k + counts[c]):
            a = attr[i] & ATTR_MASK
            kind = attr[i] >> KIND_SHIFT
            v = value[a]
            if kind == RANGE and v >= -1:  # nearly all items: no branch on the outcome, which no processor predicts
                bad = 1 - (np.int64(low[i] <= v) & np.int64(v <= high[i]))
            else:
                bad = 1 - np.int64(holds(sets, kind, low[i], high[i], v, attrs, ranks, attrs.size))
            a = source[a]
            failed += bad & np.int64(a < 0 or counted[a] != c)
            if bad and a >= 0:
                counted[a] = c
        k += counts[c]
        row = packed[c] & ROW_MASK
        if packed[c] & VERIFY_BIT:  # in an older segment a comparison of attributes is two items
            failed = (failed + 1) // 2
            doubtful[row] = True
        fails[row] = min(np.int64(fails[row]), failed)
