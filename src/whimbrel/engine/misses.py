"""Near misses over the whole index: which subscriptions fail the fewest constraints.

One pass over the decoded items counts, per conjunction, the attributes of which some item fails: as every attribute
has one constraint, that is the number of failed constraints (a lower bound where a filter needs verifying). Only the
best few are then explained by their filters.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from whimbrel.engine.clauses import VERIFY
from whimbrel.engine.decode import decode
from whimbrel.engine.kernels import holds
from whimbrel.engine.segment import Segment
from whimbrel.engine.snapshot import Snapshot
from whimbrel.matchers.explain import NearMiss, near_misses
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.subscription import Id, Subscription

DOUBTFUL = 2_000
"""Doubtful subscriptions whose filters are asked, at most."""


def nearest(
    snapshot: Snapshot,
    event: Event,
    limit: int,
    place: Callable[[int], int],
    filter_of: Callable[[int], Filter],
    name: Callable[[int], Id],
) -> list[NearMiss]:
    """The `limit` subscriptions that fail the fewest constraints, then in order of addition."""
    fails = np.full(snapshot.slots, 255, np.uint8)
    doubtful = np.zeros(snapshot.slots, bool)
    for segment in snapshot.segments:
        _count(segment, event, snapshot, fails, doubtful)
    chosen: list[int] = []
    level = 0 if doubtful.any() else 1
    while len(chosen) < limit and level < 255:
        slots = np.flatnonzero(fails == level)
        if level == 0:
            slots = slots[doubtful[slots]]
        ordered = sorted(slots.tolist(), key=place) if len(slots) < DOUBTFUL * 10 else slots.tolist()
        sure = [slot for slot in ordered if not doubtful[slot]][: limit - len(chosen)]
        asked = [slot for slot in ordered if doubtful[slot]][:DOUBTFUL]
        misses = near_misses(
            (Subscription(name(slot), filter_of(slot)) for slot in sorted([*sure, *asked], key=place)), event, limit
        )
        if level == 0:
            best = {miss.id for miss in misses}
            chosen += [slot for slot in asked if name(slot) in best]
        else:
            chosen += [*sure, *asked]
        level += 1
    subscriptions = (Subscription(name(slot), filter_of(slot)) for slot in sorted(set(chosen), key=place))
    return near_misses(subscriptions, event, limit)


def _count(segment: Segment, event: Event, snapshot: Snapshot, fails: np.ndarray, doubtful: np.ndarray) -> None:
    decoded = decode(segment, snapshot.dead)
    encoded = segment.codec.encode_event(event)
    value = np.full(len(segment.attributes) + 1, -1, np.int32)
    attrs, ranks = encoded.attrs, encoded.ranks
    i = 0
    while i < len(attrs):
        j = i + 1
        while j < len(attrs) and attrs[j] == attrs[i]:
            j += 1
        value[attrs[i]] = ranks[i] if j == i + 1 else -2 - i
        i = j
    sets = (segment.arrays["set_start"], segment.arrays["set_low"], segment.arrays["set_high"])
    _fails(
        decoded.slot, decoded.counts, decoded.attr, decoded.kind, decoded.low, decoded.high, sets, value, attrs, ranks,
        fails,
    )  # fmt: skip
    is_doubtful = decoded.slot if encoded.coupled[0] else decoded.slot[(decoded.flags & VERIFY) != 0]
    doubtful[is_doubtful] = True


@numba.njit(cache=True, nogil=True)
def _fails(slot, counts, attr, kind, low, high, sets, value, attrs, ranks, fails):  # type: ignore[no-untyped-def]
    k = 0
    for c in range(slot.size):
        failed = 0
        first, last = k, k + counts[c]
        for k in range(first, last):
            v = value[attr[k]]
            if not holds(sets, kind[k], low[k], high[k], v, attrs, ranks, attrs.size):
                again = False
                for earlier in range(first, k):
                    if attr[earlier] == attr[k]:
                        u = value[attr[earlier]]
                        again |= not holds(
                            sets, kind[earlier], low[earlier], high[earlier], u, attrs, ranks, attrs.size
                        )
                failed += not again
        k = last
        fails[slot[c]] = min(fails[slot[c]], failed, 254)
