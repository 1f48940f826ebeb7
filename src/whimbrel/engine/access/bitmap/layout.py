"""Writing the chunks down: per attribute and bucket of ranks a row of bits, 1 for "certainly dead", and the items.

Row 0 is for events that lack the attribute, row b + 1 for ranks of bucket b. Row by row a bit changes where the range
of its conjunction begins and ends.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.helpers import lower_bound
from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.bitmap.plan import BUCKETS, IDENTITY, WORDS, Chunked, ask_ahead
from whimbrel.engine.access.bitmap.tiles import CHUNK
from whimbrel.engine.access.shared.packing import KIND_SHIFT
from whimbrel.engine.access.shared.weights import Weights
from whimbrel.ranks.clauses.clauses import RANGE, SET, Clauses

UNCHECKED, RANGES, CHECKED = 0, 1, 2
"""What bits leave to check in a chunk: nothing, ranges only, or items of any kind."""

Arrays = dict[str, np.ndarray]


def build_chunks(clauses: Clauses, weights: Weights, chunked: Chunked, slot: np.ndarray, shares: np.ndarray) -> Arrays:
    """The bits_* arrays of a segment, for conjunctions in the order of their chunks."""
    mine, first, attrs, compact, slot_start, slot_attr, zone_attr, zone_low, zone_high = chunked
    bucket_start, bucket_high, identity = _buckets(clauses, weights, attrs)
    rows = np.diff(bucket_start)[slot_attr] + 1
    offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows.astype(np.int64) * WORDS)])
    bits = _lines(int(offset[-1]))
    checked = np.zeros(len(first) - 1, np.uint8)
    items = int(np.diff(clauses.start)[mine].sum())
    place = np.zeros((len(mine) + 1, 2), np.int32)
    item = np.empty((items, 3), np.int32)
    _fill_chunks(
        mine, first, clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, shares, clauses.set_start,
        clauses.set_low, clauses.set_high, compact, bucket_start, bucket_high, identity, slot_start, slot_attr, offset,
        bits, checked, place, item,
    )  # fmt: skip
    return {
        "bits_attrs": attrs.astype(np.int32),
        "bits_first": first.astype(np.int32),
        "bits_bucket_start": bucket_start,
        "bits_bucket_high": bucket_high,
        "bits_slot_start": slot_start,
        "bits_slot_attr": slot_attr,
        "bits_slot_offset": offset[:-1],
        "bits_words": bits,
        "bits_zone_attr": zone_attr,
        "bits_zone_low": zone_low,
        "bits_zone_high": zone_high,
        "bits_checked": checked,
        "bits_slot": slot[mine],
        "bits_place": place,
        "bits_items": item,
    }


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


def _lines(words: int) -> np.ndarray:
    """Zeros that begin with a line of the cache, as every row of eight words then does."""
    room = np.zeros(words + WORDS, np.uint64)
    start = -room.ctypes.data // 8 % WORDS
    return room[start : start + words]


@helper
def bucket_of(rank, first, last, bucket_high):  # type: ignore[no-untyped-def]
    """The bucket of a rank: the first whose last rank is not below it, counted from `first`."""
    if bucket_high[last - 1] == last - first - 1:  # as many buckets as ranks
        return rank
    return lower_bound(bucket_high, first, last, rank) - first


@kernel
def _fill_chunks(  # type: ignore[no-untyped-def]
    mine, chunk_first, start, attr, kind, low, high, shares, set_start, set_low, set_high, compact, bucket_start,
    bucket_high, identity, slot_start, slot_attr, offset, bits, checked, place, item,
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
        first, last = chunk_first[chunk], chunk_first[chunk + 1]
        for p in range(first, last):
            ask_ahead(p, mine, start, attr, kind, low, high, shares)
            c = mine[p]
            word, bit = (p - first) >> 6, np.uint64(1) << np.uint64((p - first) & 63)
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
                    _insert(order, n, k, shares)
                    n += 1
                    checked[chunk] = max(checked[chunk], RANGES if kind[k] == RANGE else CHECKED)
                if not has_bits:
                    continue
                seen[a] = p
                b0, b1 = bucket_start[a], bucket_start[a + 1]
                base = offset[s] + word
                bits[base] |= bit  # row 0: the attribute is missing
                if kind[k] == RANGE:
                    x, y = _near(low[k], b0, b1, bucket_high), _near(high[k], b0, b1, bucket_high)
                    _toggle(bits, base, bit, x, y, b1 - b0)
                else:
                    done = 0  # buckets that are written
                    for i in range(set_start[low[k]], set_start[low[k] + 1]):
                        x = max(done, _near(set_low[i], b0, b1, bucket_high))
                        y = _near(set_high[i], b0, b1, bucket_high)
                        if x <= y:
                            _toggle(bits, base, bit, x, y, b1 - b0)
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
            _spread(bits, offset[s], bucket_start[slot_attr[s] + 1] - bucket_start[slot_attr[s]], last - first)


@helper
def _insert(order, n, k, shares):  # type: ignore[no-untyped-def]
    """Puts item k among the first n, which are ordered by their shares."""
    j = n
    while j > 0 and shares[order[j - 1]] > shares[k]:
        order[j] = order[j - 1]
        j -= 1
    order[j] = k


@helper
def _spread(bits, start, buckets, size):  # type: ignore[no-untyped-def]
    """Makes rows of what changes from row to row; bits beyond the size of a chunk are those of nobody, and dead."""
    for p in range(size, CHUNK):
        bits[start + (p >> 6)] |= np.uint64(1) << np.uint64(p & 63)
    for word in range(start + WORDS, start + (buckets + 1) * WORDS):
        bits[word] ^= bits[word - WORDS]


@helper
def _toggle(bits, base, bit, first, last, buckets):  # type: ignore[no-untyped-def]
    """Marks the rows of the first bucket of a range and of the one behind its last."""
    bits[base + (first + 1) * WORDS] ^= bit
    if last + 1 < buckets:
        bits[base + (last + 2) * WORDS] ^= bit


@helper
def _near(rank, first, last, bucket_high):  # type: ignore[no-untyped-def]
    """What `bucket_of` says, from where the bucket would be if all were equally wide."""
    b = np.int64(rank * ((last - first) / (bucket_high[last - 1] + 1.0)))
    while bucket_high[first + b] < rank:
        b += 1
    while b > 0 and bucket_high[first + b - 1] >= rank:
        b -= 1
    return b
