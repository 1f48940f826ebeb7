"""Which conjunctions get a signature, and what it costs: conjunctions over attributes of few values as 128 bits each.

The ranks of an attribute fall into *classes*: ranks that no conjunction tells apart (classes.py). An event sets the bit
of its class for every attribute; a conjunction has the bits that are its death. So that an event sees few conjunctions,
they are sorted by their classes of a few attributes, the *key*, which a conjunction may leave open: with k of them an
event looks at 2 ** k runs, found in a table without hashing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.shared.arrays import Items, items_of
from whimbrel.engine.access.shared.weights import Weights, match_shares
from whimbrel.engine.access.signature.classes import CLASSES, RankClasses, admitted, find_classes
from whimbrel.ranks.clauses.clauses import SET, Clauses

KEYS = 1 << 20
"""Entries of the table of runs, at most."""
KEY_ATTRIBUTES = 10
SAMPLE = 40_000
"""Conjunctions on which the key is chosen."""
TEST_NS, RUN_NS, CLASS_NS, MATCH_NS, VISIT_NS = 0.6, 8.0, 2.5, 3.0, 15.0
"""What a signature, a run, an attribute with bits, a match and a visited record cost an event, measured."""


class SignaturePlan(NamedTuple):
    """How conjunctions become signatures, and what each would cost an event."""

    classes: RankClasses
    key: np.ndarray  # int32[k]: the attributes of the key
    cost: np.ndarray  # float64: of each conjunction
    overhead: float  # what an event costs before it sees a signature
    decides: bool  # no conjunction must be visited


def plan_signatures(clauses: Clauses, weights: Weights, shares: np.ndarray, mine: np.ndarray) -> SignaturePlan | None:
    """Signatures for these conjunctions, or None where no attribute has few enough classes."""
    classes, sizes = find_classes(clauses, weights, mine)
    if not len(sizes):
        return None
    first = classes.first
    with_bits = np.flatnonzero(first[:, 0] >= 0)
    with_bits = with_bits[np.argsort(first[with_bits, 1], kind="stable")]
    step = max(1, len(mine) // SAMPLE)
    sampled, visits = _reached(clauses, shares, mine[::step].copy(), classes, with_bits)
    key = _choose_key(sampled, sizes, step)
    if step > 1:
        reached, visits = _reached(clauses, shares, mine, classes, with_bits[key])
    else:
        reached = sampled[key]
    cost = TEST_NS * reached.prod(axis=0, dtype=np.float64) + MATCH_NS * match_shares(mine, clauses.start, shares)
    overhead = RUN_NS * 2.0 ** len(key) + CLASS_NS * len(sizes)
    attrs = with_bits[key].astype(np.int32)
    return SignaturePlan(classes, attrs, cost + VISIT_NS * visits, overhead, not visits.any())


def _reached(
    clauses: Clauses, shares: np.ndarray, mine: np.ndarray, classes: RankClasses, attrs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The share of events that each of some attributes lets through to a conjunction, and how often one is visited."""
    share = np.ones((len(attrs), len(mine)), np.float32)
    visits = np.empty(len(mine))
    place = np.full(len(classes.first), -1, np.int32)
    place[attrs] = np.arange(len(attrs))
    _point_shares(mine, items_of(clauses), shares, classes, place, share, visits)
    return share, visits


def _choose_key(share: np.ndarray, sizes: np.ndarray, step: int) -> list[int]:
    """The attributes of the key, one after the other, while each saves more tests than it adds runs."""
    reach = np.ones(share.shape[1], np.float32)
    key: list[int] = []
    keys = 1
    while len(key) < KEY_ATTRIBUTES:
        left = np.einsum("ai,i->a", share, reach)  # threads of BLAS would spin longer than this takes
        left[[at in key or keys * size > KEYS for at, size in enumerate(sizes)]] = np.inf
        best = int(np.argmin(left))
        if RUN_NS * 2 ** len(key) >= TEST_NS * step * (reach.sum(dtype=np.float64) - left[best]):
            break
        key.append(best)
        keys *= int(sizes[best])
        reach = reach * share[best]
    return key


@kernel
def _point_shares(
    mine: np.ndarray, items: Items, shares: np.ndarray, classes: RankClasses, place: np.ndarray, share: np.ndarray,
    visits: np.ndarray,
) -> None:  # fmt: skip
    """Write, by the place of their attribute, the shares of items that admit one class; and how often bits fail.

    Bits fail to decide a conjunction that tests an attribute without bits.
    """
    start, attr, kind, low, high, set_start, set_low, set_high = items
    first, table = classes
    alive = np.zeros(CLASSES, np.bool_)
    for i in range(mine.size):
        passed, decided = 1.0, True
        for k in range(start[mine[i]], start[mine[i] + 1]):
            a = attr[k]
            if first[a, 0] < 0 or kind[k] > SET:
                decided = False
                continue
            passed *= shares[k]
            if place[a] < 0:
                continue
            alive[:] = False
            own = table[first[a, 0] :]
            count, _ = admitted(k, kind, low, high, set_start, set_low, set_high, own, first[a, 1], alive)
            if count == 1 and not alive[0]:
                share[place[a], i] = min(share[place[a], i], shares[k])
        visits[i] = 0.0 if decided else passed
