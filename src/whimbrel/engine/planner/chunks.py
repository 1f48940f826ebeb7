"""Chunks of 512 conjunctions with "certainly dead in this bucket" bits: the access path of dense ranges.

Conjunctions are sorted so that neighbours constrain the same attributes with near values. Per chunk a *zone* says
which ranks of one attribute all of its conjunctions need, so most chunks are skipped with one comparison; in the
others, an event's bucket per attribute selects eight words of dead bits, OR-ed until all are dead. What survives is
checked exactly. An attribute with few ranks has one bucket per rank: then its items need no check.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.engine.compiled.intrinsics import prefetch
from whimbrel.engine.compiled.jit import helper, kernel
from whimbrel.engine.intake.clauses import RANGE, SET, Clauses
from whimbrel.engine.planner.packing import KIND_SHIFT
from whimbrel.engine.planner.weights import Weights

CHUNK = 512
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

Arrays = dict[str, np.ndarray]


class Chunked(NamedTuple):
    """Conjunctions in the order of their chunks, and per chunk its attributes with bits and its two zones."""

    mine: np.ndarray
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
    mine = _in_order(clauses, weights, mine)
    sizing = _plan_chunks(
        mine, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, shares, compact,
        -(-len(mine) // CHUNK), weights.total[attrs],
    )  # fmt: skip
    return Chunked(mine, attrs, compact, *sizing)


def build_chunks(clauses: Clauses, weights: Weights, chunked: Chunked, slot: np.ndarray, shares: np.ndarray) -> Arrays:
    """The bits_* arrays of a segment, for conjunctions in the order of their chunks."""
    mine, attrs, compact, slot_start, slot_attr, zone_attr, zone_low, zone_high = chunked
    bucket_start, bucket_high, identity = _buckets(clauses, weights, attrs)
    chunks = len(slot_start) - 1
    rows = np.diff(bucket_start)[slot_attr] + 1
    offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows.astype(np.int64) * WORDS)])
    bits = np.zeros(int(offset[-1]), np.uint64)
    items = int(np.diff(clauses.start)[mine].sum())
    place = np.zeros((len(mine) + 1, 2), np.int32)
    item = np.empty((items, 3), np.int32)
    _fill_chunks(
        mine, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, shares,
        clauses.set_start, clauses.set_low, clauses.set_high, compact, bucket_start, bucket_high, identity,
        slot_start, slot_attr, offset, bits, place, item,
    )  # fmt: skip
    return {
        "bits_attrs": attrs.astype(np.int32),
        "bits_bucket_start": bucket_start,
        "bits_bucket_high": bucket_high,
        "bits_slot_start": slot_start,
        "bits_slot_attr": slot_attr,
        "bits_slot_offset": offset[:-1],
        "bits_words": bits,
        "bits_zone_attr": zone_attr,
        "bits_zone_low": zone_low,
        "bits_zone_high": zone_high,
        "bits_checked": _any_checks(place, chunks),
        "bits_slot": slot[mine],
        "bits_place": place,
        "bits_items": item,
    }


def used_attributes(clauses: Clauses, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The attributes of these conjunctions, and the number of each among them."""
    uses = np.zeros(len(clauses.attributes), bool)
    _mark(mine, clauses.start, clauses.attr, uses)
    attrs = np.flatnonzero(uses)
    compact = np.full(len(uses), -1, np.int32)
    compact[attrs] = np.arange(len(attrs), dtype=np.int32)
    return attrs, compact


def _buckets(clauses: Clauses, weights: Weights, attrs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per attribute the last rank of each bucket; null is alone in bucket 0."""
    highs: list[np.ndarray] = []
    identity = np.zeros(len(attrs), bool)
    for i, attr in enumerate(attrs):
        total = int(weights.total[attr])
        if total <= IDENTITY:
            identity[i] = True
            highs.append(np.arange(total))
        elif weights.cumulative.size:
            below = weights.cumulative[weights.start[attr] : weights.start[attr] + total + 1]
            marks = np.searchsorted(below, below[-1] * np.arange(1, BUCKETS) / BUCKETS) - 1
            highs.append(np.unique(np.concatenate([[0], np.clip(marks, 1, total - 1), [total - 1]])))
        else:
            highs.append(np.unique(np.concatenate([[0], np.linspace(0, total - 1, BUCKETS + 1)[1:].astype(np.int64)])))
    lengths = np.array([0, *map(len, highs)])
    return (
        np.cumsum(lengths).astype(np.int32),
        (np.concatenate(highs) if highs else np.empty(0)).astype(np.int32),
        identity,
    )


def _any_checks(place: np.ndarray, chunks: int) -> np.ndarray:
    """Whether some conjunction of each chunk has items that bits do not decide."""
    checks = np.zeros(chunks * CHUNK, bool)
    checks[: len(place) - 1] = place[:-1, 1] > place[:-1, 0]
    return np.asarray(checks.reshape(chunks, CHUNK).any(axis=1), np.uint8)


def _in_order(clauses: Clauses, weights: Weights, mine: np.ndarray) -> np.ndarray:
    """Sorts by the three most used attributes of each conjunction and the ranks that they start at.

    As far as they fit into one integer with the number of the conjunction: sorting such takes a seventh of `lexsort`.
    """
    uses = np.bincount(clauses.attr, minlength=len(clauses.attributes))
    place = np.empty(len(uses), np.int64)
    place[np.argsort(-uses, kind="stable")] = np.arange(len(uses))
    rank_bits = int(weights.total.max(initial=1)).bit_length()
    key_bits, number_bits = len(uses).bit_length() + rank_bits, len(mine).bit_length()
    widths = np.zeros(3, np.int64)
    for i in range(3):
        widths[i] = min(key_bits, 63 - number_bits - widths.sum())
    keys = np.empty(len(mine), np.int64)
    _sort_keys(
        mine, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.set_start, clauses.set_low, place,
        rank_bits, number_bits, key_bits - widths, widths, keys,
    )  # fmt: skip
    keys.sort()
    return np.asarray(mine[keys & ((1 << number_bits) - 1)])


@kernel
def _mark(mine, start, attr, uses):  # type: ignore[no-untyped-def]
    for c in mine:
        for k in range(start[c], start[c + 1]):
            uses[attr[k]] = True


@kernel
def _sort_keys(  # type: ignore[no-untyped-def]
    mine, start, attr, kind, low, set_start, set_low, place, rank_bits, number_bits, cut, widths, keys
):
    """Per conjunction the three smallest of (place of the attribute, first rank), some bits cut off, and a number."""
    for i in range(mine.size):
        c = mine[i]
        first = second = third = np.int64(place.size) << rank_bits
        for k in range(start[c], start[c + 1]):
            if kind[k] > SET:
                continue
            key = (place[attr[k]] << rank_bits) | np.int64(low[k] if kind[k] == RANGE else set_low[set_start[low[k]]])
            if key < first:
                first, key = key, first
            if key < second:
                second, key = key, second
            third = min(third, key)
        key = ((first >> cut[0]) << widths[1]) | (second >> cut[1])
        keys[i] = (((key << widths[2]) | (third >> cut[2])) << number_bits) | i


@helper
def _ask_ahead(p, mine, start, attr, kind, low, high, shares):  # type: ignore[no-untyped-def]
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
def _plan_chunks(mine, start, attr, kind, low, high, shares, compact, chunks, total):  # type: ignore[no-untyped-def]
    """Per chunk the attributes that get bits, strongest first, and the two narrowest zones."""
    count = total.size
    slot_start = np.zeros(chunks + 1, np.int32)
    slot_attr = np.empty(chunks * min(SLOTS, count), np.int32)
    zone_attr = np.full((chunks, 2), -1, np.int32)
    zone_low = np.zeros((chunks, 2), np.int32)
    zone_high = np.zeros((chunks, 2), np.int32)
    power = np.zeros(count, np.float64)
    having = np.zeros(count, np.int32)
    lowest = np.zeros(count, np.int32)
    highest = np.zeros(count, np.int32)
    touched = np.empty(count, np.int32)
    seen = np.full(count, -1, np.int64)  # the last conjunction that has the attribute
    at = 0
    for chunk in range(chunks):
        first, last = chunk * CHUNK, min((chunk + 1) * CHUNK, mine.size)
        n = 0
        for p in range(first, last):
            _ask_ahead(p, mine, start, attr, kind, low, high, shares)
            c = mine[p]
            for k in range(start[c], start[c + 1]):
                a = compact[attr[k]]
                earlier = seen[a] == p
                seen[a] = p
                if kind[k] > SET:
                    continue
                if power[a] == 0.0:
                    touched[n] = a
                    n += 1
                    having[a] = 0
                    lowest[a] = 2147483647
                    highest[a] = -1
                power[a] += 1.0001 - shares[k]
                if kind[k] == RANGE and not earlier:
                    having[a] += 1
                    lowest[a] = min(lowest[a], low[k])
                    highest[a] = max(highest[a], high[k])
        for i in range(min(SLOTS, n)):  # the strongest to the front
            best_at = i
            for j in range(i + 1, n):
                if power[touched[j]] > power[touched[best_at]]:
                    best_at = j
            touched[i], touched[best_at] = touched[best_at], touched[i]
        best, second = ZONE_BELOW, ZONE_BELOW
        for a in touched[: min(SLOTS, n)]:
            slot_attr[at] = a
            at += 1
            if having[a] < last - first or lowest[a] == 0:
                continue
            width = (highest[a] - lowest[a] + 1) / max(1, total[a] - 8)
            if width < best:
                second, best = best, width
                zone_attr[chunk, 1] = zone_attr[chunk, 0]
                zone_low[chunk, 1] = zone_low[chunk, 0]
                zone_high[chunk, 1] = zone_high[chunk, 0]
                zone_attr[chunk, 0], zone_low[chunk, 0], zone_high[chunk, 0] = a, lowest[a], highest[a]
            elif width < second:
                second = width
                zone_attr[chunk, 1], zone_low[chunk, 1], zone_high[chunk, 1] = a, lowest[a], highest[a]
        slot_start[chunk + 1] = at
        for a in touched[:n]:
            power[a] = 0.0
    return slot_start, slot_attr[:at].copy(), zone_attr, zone_low, zone_high


@helper
def bucket_of(rank, first, last, bucket_high):  # type: ignore[no-untyped-def]
    """The bucket of a rank: the first whose last rank is not below it, counted from `first`."""
    if bucket_high[last - 1] == last - first - 1:  # as many buckets as ranks
        return rank
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if bucket_high[middle] < rank:
            low = middle + 1
        else:
            high = middle
    return low - first


@kernel
def _fill_chunks(  # type: ignore[no-untyped-def]
    mine, start, attr, kind, low, high, shares, set_start, set_low, set_high, compact, bucket_start, bucket_high,
    identity, slot_start, slot_attr, offset, bits, place, item,
):  # fmt: skip
    """Sets the dead bits and writes the items: first those to check, most selective first, then those bits decide.

    Of a conjunction's bits those are set where it dies or comes to life from one bucket to the next, and at last each
    row is XOR-ed with the one before it: two bits for a range instead of one for every bucket where it is dead.
    """
    slot_of = np.full(bucket_start.size - 1, -1, np.int32)
    seen = np.full(bucket_start.size - 1, -1, np.int64)  # the last conjunction that has bits for the attribute
    order = np.empty(64, np.int64)
    at = 0
    for chunk in range(slot_start.size - 1):
        for s in range(slot_start[chunk], slot_start[chunk + 1]):
            slot_of[slot_attr[s]] = s
        for p in range(chunk * CHUNK, min((chunk + 1) * CHUNK, mine.size)):
            _ask_ahead(p, mine, start, attr, kind, low, high, shares)
            c = mine[p]
            word, bit = (p % CHUNK) >> 6, np.uint64(1) << np.uint64(p & 63)
            n = decided = 0
            if start[c + 1] - start[c] > order.size:
                order = np.empty(2 * (start[c + 1] - start[c]), np.int64)
            for k in range(start[c], start[c + 1]):
                a = compact[attr[k]]
                s = slot_of[a]
                has_bits = kind[k] <= SET and s >= 0 and seen[a] != p
                if has_bits and identity[a]:
                    decided += 1
                    order[start[c + 1] - start[c] - decided] = k
                else:
                    j = n
                    while j > 0 and shares[order[j - 1]] > shares[k]:
                        order[j] = order[j - 1]
                        j -= 1
                    order[j] = k
                    n += 1
                if not has_bits:
                    continue
                seen[a] = p
                b0, b1 = bucket_start[a], bucket_start[a + 1]
                base = offset[s] + word
                bits[base] |= bit  # row 0: the attribute is missing
                if kind[k] == RANGE:
                    x, y = _near(low[k], b0, b1, bucket_high), _near(high[k], b0, b1, bucket_high)
                    bits[base + (x + 1) * WORDS] ^= bit
                    if y + 1 < b1 - b0:
                        bits[base + (y + 2) * WORDS] ^= bit
                else:
                    done = 0  # buckets that are written
                    for i in range(set_start[low[k]], set_start[low[k] + 1]):
                        x = max(done, _near(set_low[i], b0, b1, bucket_high))
                        y = _near(set_high[i], b0, b1, bucket_high)
                        if x <= y:
                            bits[base + (x + 1) * WORDS] ^= bit
                            if y + 1 < b1 - b0:
                                bits[base + (y + 2) * WORDS] ^= bit
                            done = y + 1
            place[p, 1] = at + n
            for i in range(n + decided):
                k = order[i]
                item[at, 0] = compact[attr[k]] | (np.int32(kind[k]) << KIND_SHIFT)
                item[at, 1], item[at, 2] = low[k], high[k]
                at += 1
            place[p + 1, 0] = at
        for s in range(slot_start[chunk], slot_start[chunk + 1]):
            slot_of[slot_attr[s]] = -1
            rows = bucket_start[slot_attr[s] + 1] - bucket_start[slot_attr[s]]
            for word in range(offset[s] + WORDS, offset[s] + (rows + 1) * WORDS):
                bits[word] ^= bits[word - WORDS]


@helper
def _near(rank, first, last, bucket_high):  # type: ignore[no-untyped-def]
    """What `bucket_of` says, from where the bucket would be if all were equally wide."""
    b = np.int64(rank * ((last - first) / (bucket_high[last - 1] + 1.0)))
    while bucket_high[first + b] < rank:
        b += 1
    while b > 0 and bucket_high[first + b - 1] >= rank:
        b -= 1
    return b
