"""Chunks: how conjunctions with dense ranges of the same attributes are put together, and what they cost there.

A chunk has up to 512 conjunctions. They are ordered so that neighbours constrain the same attributes with near values
(tiles.py). Per chunk up to three *zones* say which ranks of an attribute all of its conjunctions need, so most chunks
are skipped by comparisons; in the others, an event's bucket of each attribute with bits, a *column* of the chunk,
selects eight words of dead bits, which are OR-ed. The conjunctions that survive are checked exactly. An attribute with
few ranks has one bucket per rank: then its items need no check.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.intrinsics import prefetch
from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.bitmap.tiles import CHUNK, DEPTH, tiled
from whimbrel.engine.access.shared.arrays import Items
from whimbrel.engine.access.shared.plan import NO_KEY, UNKEYED_NS, Plan, match_shares
from whimbrel.ranks.clauses.clauses import RANGE, SET

ZONES = DEPTH
WORDS = CHUNK // 64
BUCKETS = 32
"""Buckets of an attribute with many ranks."""
IDENTITY = 80
"""Ranks up to which every rank has a bucket of its own."""
COLUMNS = 40
"""Attributes of a chunk that have dead bits; the others are only checked."""
ZONE_BELOW = 0.9
"""Share of an attribute's ranks that a zone may cover to be worth its comparison."""
AHEAD = 6
"""Conjunctions between asking for one and coming to it: without, waiting for memory took half of the time."""
CANDIDATE_NS = 1.3
"""What a conjunction costs an event that opens its chunk, measured."""
ZONE_NS, OPEN_NS, NEAR_NS, FAR_NS, PAIR_NS = 1.5, 80.0, 6.0, 0.8, 25.0
"""What a chunk costs an event: its zones, opening it, each attribute whose bits are near in the cache, the square of
the number of attributes where they are not, and a conjunction that the bits leave; measured."""
SEVERAL_NS = 900.0
"""What opening a chunk costs an event that has several values for an attribute of it, measured."""
NEAR_BYTES = 1 << 15
"""Bytes of a chunk's bits up to which they are near."""
CHUNK_ABOVE_NS = 0.04
"""What a conjunction must cost by its key for a chunk to be considered."""
NEARLY_ALL = 0.95
"""Share of conjunctions that must be costly for the others to be planned with them."""
LOAD_NS = 20.0
"""What it costs an event per attribute that there are chunks at all."""
CHUNKED_NS = 1.0
"""What a conjunction of a chunk costs an event, where its chunk is not known."""


class ChunkPlan(NamedTuple):
    """Conjunctions in the order of their chunks, and per chunk its columns and its zones."""

    mine: np.ndarray  # the conjunctions
    first: np.ndarray  # int64[chunks + 1]: where each chunk begins
    attrs: np.ndarray  # the attributes that they use; their places here are their compact numbers
    compact: np.ndarray  # int32[A]: the compact number of each attribute, or -1
    column_start: np.ndarray  # int32[chunks + 1]: the columns of each chunk
    column_attr: np.ndarray  # int32: the compact attribute of each column
    zone_attr: np.ndarray  # int32[chunks, ZONES]: compact attributes, -1 for none
    zone_low: np.ndarray  # int32[chunks, ZONES]
    zone_high: np.ndarray  # int32[chunks, ZONES]
    several: np.ndarray  # bool[chunks]: whether a conjunction wants several values of one attribute


def bid(plan: Plan) -> None:
    """Take the conjunctions that have no key, and those that cost less in chunks."""
    mine = np.flatnonzero(plan.open)
    plan.take("bitmap", plan.kind == NO_KEY)
    in_chunk = np.full(len(plan.kind), CHUNKED_NS)
    costly = mine[plan.cost[mine] > CHUNK_ABOVE_NS]
    if len(costly) > NEARLY_ALL * len(mine):
        costly = mine  # so that the plan of the chunks holds if all go into them
    if len(costly):
        chunks = plan_chunks(plan, costly)
        plan.notes["bitmap"] = chunks
        plan.take("bitmap", _cheaper_in_chunks(plan, chunks, in_chunk))
        in_chunk[np.isinf(plan.cost)] = CHUNKED_NS
        if 2 * len(costly) > len(mine):  # then the others would be as they are
            in_chunk[plan.cost <= CHUNK_ABOVE_NS] = np.median(in_chunk[costly])
    if len(plan.of("bitmap")):
        plan.take("bitmap", plan.unpaid(in_chunk))
    chunked = plan.of("bitmap")
    plan.cost[chunked] = in_chunk[chunked]
    plan.rest[chunked] = True
    plan.load = LOAD_NS * len(plan.used_attributes(chunked)[0])


def _cheaper_in_chunks(plan: Plan, chunks: ChunkPlan, in_chunk: np.ndarray) -> np.ndarray:
    """The conjunctions that cost less in their chunks than with their keys; writes to `in_chunk` how much."""
    mine = chunks.mine
    spent = _chunk_costs(plan, chunks)
    starts, sizes = chunks.first[:-1], np.diff(chunks.first)
    in_chunk[mine] = np.repeat(spent / CHUNK, sizes)
    saved = np.add.reduceat(np.minimum(UNKEYED_NS, plan.cost[mine]), starts) - spent
    if saved[saved > 0].sum() < LOAD_NS * len(chunks.attrs):
        return mine[:0]
    cheaper: np.ndarray = mine[np.repeat(saved > 0, sizes)]
    return cheaper


def plan_chunks(plan: Plan, mine: np.ndarray) -> ChunkPlan:
    """Order these conjunctions into chunks."""
    attrs, compact = plan.used_attributes(mine)
    mine, first = tiled(plan, mine)
    sizing = _plan_chunks(mine, first, plan.items, plan.shares, compact, plan.weights.total[attrs])
    return ChunkPlan(mine, first, attrs, compact, *sizing)


def _chunk_costs(plan: Plan, chunks: ChunkPlan) -> np.ndarray:
    """What each chunk costs an event."""
    zones, total = chunks.zone_attr, plan.weights.total[chunks.attrs]
    widths = (chunks.zone_high - chunks.zone_low + 1) / np.maximum(1, total[zones] - 8)
    opened = np.where(zones >= 0, np.minimum(1.0, widths), 1.0).prod(axis=1)
    columns = np.diff(chunks.column_start)
    lines = np.where(total <= IDENTITY, total, BUCKETS)[chunks.column_attr]
    nbytes = np.add.reduceat(np.append(lines, 0), chunks.column_start[:-1]) * WORDS * 8
    opening = np.where(chunks.several, SEVERAL_NS, OPEN_NS)
    spent = ZONE_NS + opened * (opening + columns * np.where(nbytes <= NEAR_BYTES, NEAR_NS, FAR_NS * columns))
    left = match_shares(chunks.mine, plan.clauses.start, _shares_by_bits(plan))
    spent += np.add.reduceat(left, chunks.first[:-1]) * PAIR_NS
    return np.asarray(spent)


def _shares_by_bits(plan: Plan) -> np.ndarray:
    """The share of events that the bits of each item admit: the members of a long list fall into nearly all buckets."""
    clauses, weights, shares = plan.clauses, plan.weights, plan.shares
    lists = np.flatnonzero(clauses.kind == SET)
    lists = lists[weights.total[clauses.attr[lists]] > IDENTITY]
    members = np.diff(clauses.set_start)[clauses.low[lists]]
    covered = 1.0 - (1.0 - 1.0 / BUCKETS) ** members
    by_bits = shares.copy()
    by_bits[lists] = np.maximum(shares[lists], weights.present[clauses.attr[lists]] * covered)
    return by_bits


@helper
def ask_ahead(p: int, mine: np.ndarray, items: Items, shares: np.ndarray) -> None:
    """Ask the cache for the items of a conjunction that comes soon: they lie in the order of subscriptions."""
    if p + 2 * AHEAD < mine.size:
        prefetch(items.start, mine[p + 2 * AHEAD])
        at = items.start[mine[p + AHEAD]]
        prefetch(items.attr, at)
        prefetch(items.kind, at)
        prefetch(items.low, at)
        prefetch(items.high, at)
        prefetch(shares, at)


@kernel
def _plan_chunks(
    mine: np.ndarray, chunk_first: np.ndarray, items: Items, shares: np.ndarray, compact: np.ndarray, total: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Per chunk the attributes that get bits, strongest first, and the narrowest zones: the fields of the plan."""
    start, attr, kind, low, high, set_start, set_low, set_high = items
    count, chunks = total.size, chunk_first.size - 1
    column_start = np.zeros(chunks + 1, np.int32)
    column_attr = np.empty(chunks * min(COLUMNS, count), np.int32)
    zone_attr = np.full((chunks, ZONES), -1, np.int32)
    zone_low = np.zeros((chunks, ZONES), np.int32)
    zone_high = np.zeros((chunks, ZONES), np.int32)
    several = np.zeros(chunks, np.bool_)
    narrowest = np.empty(ZONES, np.float64)
    power = np.zeros(count, np.float64)
    having, lowest, highest = np.zeros(count, np.int32), np.zeros(count, np.int32), np.zeros(count, np.int32)
    touched = np.empty(count, np.int32)
    seen = np.full(count, -1, np.int64)  # the last conjunction that asks for a value of the attribute
    at = 0
    for chunk in range(chunks):
        first, last = chunk_first[chunk], chunk_first[chunk + 1]
        n = 0
        for p in range(first, last):
            ask_ahead(p, mine, items, shares)
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
                    several[chunk] = True
                    continue
                seen[a] = p
                having[a] += 1
                if kind[k] == RANGE:
                    lowest[a] = min(lowest[a], low[k])
                    highest[a] = max(highest[a], high[k])
                else:
                    lowest[a] = min(lowest[a], set_low[set_start[low[k]]])
                    highest[a] = max(highest[a], set_high[set_start[low[k] + 1] - 1])
        _strongest_first(touched, n, power)
        narrowest[:] = ZONE_BELOW
        for a in touched[: min(COLUMNS, n)]:
            column_attr[at] = a
            at += 1
            if having[a] < last - first or lowest[a] == 0:
                continue
            width = (highest[a] - lowest[a] + 1) / max(1, total[a] - 8)
            _insert_zone(a, lowest[a], highest[a], width, chunk, narrowest, zone_attr, zone_low, zone_high)
        column_start[chunk + 1] = at
        for a in touched[:n]:
            power[a] = 0.0
    return column_start, column_attr[:at].copy(), zone_attr, zone_low, zone_high, several


@helper
def _strongest_first(touched: np.ndarray, n: int, power: np.ndarray) -> None:
    """Bring the attributes that get bits to the front of the first n."""
    for i in range(min(COLUMNS, n)):
        best_at = i
        for j in range(i + 1, n):
            if power[touched[j]] > power[touched[best_at]]:
                best_at = j
        touched[i], touched[best_at] = touched[best_at], touched[i]


@helper
def _insert_zone(
    zone: int, bottom: int, top: int, width: float, chunk: int, narrowest: np.ndarray, zone_attr: np.ndarray,
    zone_low: np.ndarray, zone_high: np.ndarray,
) -> None:  # fmt: skip
    """Put a zone among those of its chunk, which are ordered by width, if it is narrow enough."""
    for z in range(ZONES):
        if width < narrowest[z]:
            width, narrowest[z] = narrowest[z], width
            zone, zone_attr[chunk, z] = zone_attr[chunk, z], zone
            bottom, zone_low[chunk, z] = zone_low[chunk, z], bottom
            top, zone_high[chunk, z] = zone_high[chunk, z], top
