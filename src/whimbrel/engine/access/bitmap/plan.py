"""Chunks of up to 512 conjunctions with "certainly dead in this bucket" bits: the access path of dense ranges.

Conjunctions are ordered so that neighbours constrain the same attributes with near values (tiles.py). Per chunk up to
three *zones* say which ranks of an attribute all of its conjunctions need, so most chunks are skipped by comparisons;
in the others, an event's bucket per attribute selects eight words of dead bits, which are OR-ed. What survives is
checked exactly. An attribute with few ranks has one bucket per rank: then its items need no check.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.intrinsics import prefetch
from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.bitmap.tiles import CHUNK, DEPTH, tiled
from whimbrel.engine.access.shared.weights import Weights
from whimbrel.ranks.clauses.clauses import RANGE, SET, Clauses

ZONES = DEPTH
WORDS = CHUNK // 64
BUCKETS = 32
"""Buckets of an attribute with many ranks."""
IDENTITY = 80
"""Ranks up to which every rank has a bucket of its own."""
SLOTS = 40
"""Attributes per chunk that have dead bits; the others are only checked."""
ZONE_BELOW = 0.9
"""Share of an attribute's ranks that a zone may cover to be worth its comparison."""
AHEAD = 6
"""Conjunctions between asking for one and coming to it: without, waiting for memory took half of the time."""


class Chunked(NamedTuple):
    """Conjunctions in the order of their chunks, and per chunk its attributes with bits and its zones."""

    mine: np.ndarray
    first: np.ndarray  # where each chunk begins, and the end
    attrs: np.ndarray  # the attributes that they use, by compact number
    compact: np.ndarray  # the compact number of each attribute, or -1
    slot_start: np.ndarray
    slot_attr: np.ndarray
    zone_attr: np.ndarray
    zone_low: np.ndarray
    zone_high: np.ndarray


def plan_chunks(clauses: Clauses, weights: Weights, shares: np.ndarray, mine: np.ndarray) -> Chunked:
    """Order these conjunctions into chunks."""
    attrs, compact = used_attributes(clauses, mine)
    mine, first = tiled(clauses, weights, mine)
    sizing = _plan_chunks(
        mine, first, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, clauses.set_start,
        clauses.set_low, clauses.set_high, shares, compact, weights.total[attrs],
    )  # fmt: skip
    return Chunked(mine, first, attrs, compact, *sizing)


def used_attributes(clauses: Clauses, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The attributes of these conjunctions, and the number of each among them."""
    uses = np.zeros(len(clauses.attributes), bool)
    _mark(mine, clauses.start, clauses.attr, uses)
    attrs = np.flatnonzero(uses)
    compact = np.full(len(uses), -1, np.int32)
    compact[attrs] = np.arange(len(attrs), dtype=np.int32)
    return attrs, compact


@kernel
def _mark(mine, start, attr, uses):  # type: ignore[no-untyped-def]
    for c in mine:
        for k in range(start[c], start[c + 1]):
            uses[attr[k]] = True


@helper
def ask_ahead(p, mine, start, attr, kind, low, high, shares):  # type: ignore[no-untyped-def]
    """Asks for the items of a conjunction that comes soon: they lie in the order of subscriptions, not of chunks."""
    if p + 2 * AHEAD < mine.size:
        prefetch(start, mine[p + 2 * AHEAD])  # type: ignore[call-arg]
        at = start[mine[p + AHEAD]]
        prefetch(attr, at)
        prefetch(kind, at)
        prefetch(low, at)
        prefetch(high, at)
        prefetch(shares, at)


@kernel
def _plan_chunks(  # type: ignore[no-untyped-def]
    mine, chunk_first, start, attr, kind, low, high, set_start, set_low, set_high, shares, compact, total
):
    """Per chunk the attributes that get bits, strongest first, and the narrowest zones."""
    count, chunks = total.size, chunk_first.size - 1
    slot_start = np.zeros(chunks + 1, np.int32)
    slot_attr = np.empty(chunks * min(SLOTS, count), np.int32)
    zone_attr = np.full((chunks, ZONES), -1, np.int32)
    zone_low = np.zeros((chunks, ZONES), np.int32)
    zone_high = np.zeros((chunks, ZONES), np.int32)
    narrowest = np.empty(ZONES, np.float64)
    power = np.zeros(count, np.float64)
    having = np.zeros(count, np.int32)
    lowest = np.zeros(count, np.int32)
    highest = np.zeros(count, np.int32)
    touched = np.empty(count, np.int32)
    seen = np.full(count, -1, np.int64)  # the last conjunction that asks for a value of the attribute
    at = 0
    for chunk in range(chunks):
        first, last = chunk_first[chunk], chunk_first[chunk + 1]
        n = 0
        for p in range(first, last):
            ask_ahead(p, mine, start, attr, kind, low, high, shares)
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
                    continue
                seen[a] = p
                having[a] += 1
                if kind[k] == RANGE:
                    lowest[a] = min(lowest[a], low[k])
                    highest[a] = max(highest[a], high[k])
                else:
                    lowest[a] = min(lowest[a], set_low[set_start[low[k]]])
                    highest[a] = max(highest[a], set_high[set_start[low[k] + 1] - 1])
        for i in range(min(SLOTS, n)):  # the strongest to the front
            best_at = i
            for j in range(i + 1, n):
                if power[touched[j]] > power[touched[best_at]]:
                    best_at = j
            touched[i], touched[best_at] = touched[best_at], touched[i]
        narrowest[:] = ZONE_BELOW
        for a in touched[: min(SLOTS, n)]:
            slot_attr[at] = a
            at += 1
            if having[a] < last - first or lowest[a] == 0:
                continue
            zone, bottom, top = a, lowest[a], highest[a]
            width = (top - bottom + 1) / max(1, total[a] - 8)
            for z in range(ZONES):
                if width < narrowest[z]:
                    width, narrowest[z] = narrowest[z], width
                    zone, zone_attr[chunk, z] = zone_attr[chunk, z], zone
                    bottom, zone_low[chunk, z] = zone_low[chunk, z], bottom
                    top, zone_high[chunk, z] = zone_high[chunk, z], top
        slot_start[chunk + 1] = at
        for a in touched[:n]:
            power[a] = 0.0
    return slot_start, slot_attr[:at].copy(), zone_attr, zone_low, zone_high
