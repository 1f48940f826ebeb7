"""Chooses the conjunctions that go into chunks (chunks.py), estimates their cost, and lays out the arrays of chunks.

Most chunks are skipped by comparing zones. In the others, each attribute with bits is a *column*: the bucket of the
event's value selects a line of eight words, in which a bit says "this conjunction is certainly dead". The lines of all
columns are OR-ed, and the conjunctions that survive are checked exactly. An attribute with few ranks has one bucket per
rank: then its items need no check.

Line 0 of a column is for events that lack the attribute, line b + 1 for ranks of bucket b. From line to line a bit
changes where the range of its conjunction begins and ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bools, Bytes, Float32s, Int32Matrix, Int32s, Int64s, Uint64s
from whimbrel.compiled.helpers import lower_bound
from whimbrel.compiled.jit import helper, kernel
from whimbrel.compiled.views import at_line_start
from whimbrel.engine.access.bitmap.chunks import CHUNK, ChunkPlan, ask_ahead, plan_chunks
from whimbrel.engine.access.shared.arrays import Arrays, Items
from whimbrel.engine.access.shared.key import KeyArrays
from whimbrel.engine.access.shared.packing import KIND_SHIFT
from whimbrel.engine.access.shared.plan import NO_KEY, UNKEYED_NS, Plan, Weights, match_shares
from whimbrel.ranks.clauses.clauses import RANGE, SET

UNCHECKED, RANGES, CHECKED = 0, 1, 2
"""What bits leave to check in a chunk: nothing, ranges only, or items of any kind."""
WORDS = CHUNK // 64
BUCKETS = 32
"""Buckets of an attribute with many ranks."""
IDENTITY = 80
"""Ranks up to which every rank has a bucket of its own."""
CANDIDATE_NS = 1.3
"""What a conjunction costs an event that opens its chunk, measured."""
ZONE_NS, OPEN_NS, NEAR_NS, FAR_NS, PAIR_NS = 1.5, 80.0, 6.0, 0.8, 25.0
"""What a chunk costs an event, measured: its zones; opening it; each attribute if the bits are near in the cache, or
else the square of the number of attributes; each conjunction that survives the bits."""
SEVERAL_NS = 900.0
"""What opening a chunk costs an event that has several values for an attribute of it, measured."""
NEAR_BYTES = 1 << 15
"""The bits of a chunk are near in the cache up to so many bytes."""
CHUNK_ABOVE_NS = 0.04
"""Chunks are considered for conjunctions whose present key costs more."""
NEARLY_ALL = 0.95
"""If a larger share of conjunctions is that costly, all are planned as chunks."""
LOAD_NS = 20.0
"""What an event costs for each attribute that chunks use, before it comes to a chunk."""
CHUNKED_NS = 1.0
"""Assumed cost of a conjunction in a chunk that is not planned yet."""


class BitmapArrays(NamedTuple):
    """The chunks. The attributes that chunks use have compact numbers here."""

    compact: Int32s  # [A + 1]: the compact number of each attribute, or -1; derived
    bucket_start: Int32s  # [attributes + 1]: the buckets of each attribute
    bucket_high: Int32s  # the last rank of each bucket
    first: Int32s  # [chunks + 1]: the conjunctions of each chunk
    column_start: Int32s  # [chunks + 1]: the columns of each chunk
    column_attr: Int32s  # the attribute of each column
    column_offset: Int64s  # where its lines begin in `words`
    words: Uint64s  # the dead bits
    zone_attr: Int32Matrix  # [chunks, ZONES]
    zone_low: Int32Matrix  # [chunks, ZONES]
    zone_high: Int32Matrix  # [chunks, ZONES]
    checked: Bytes  # [chunks]: what bits leave to check
    row: Int32s  # [m]: the row of each conjunction, with flags
    place: Int32Matrix  # [m + 1, 2]: where its items begin, and where those that must be checked end
    items: Int32Matrix  # [items, 3]: attribute with kind, low, high


def _derived(arrays: Arrays) -> dict[str, np.ndarray]:
    compact = np.full(len(arrays["rank_base"]) + 1, -1, np.int32)
    compact[arrays["bits_attrs"]] = np.arange(len(arrays["bits_attrs"]), dtype=np.int32)
    return {"compact": compact}


BITMAP = KeyArrays(
    BitmapArrays,
    "bits_",
    stored={
        "row": "slot", "column_start": "slot_start", "column_attr": "slot_attr", "column_offset": "slot_offset",
    },
    derive=_derived,
)  # fmt: skip


class _Buckets(NamedTuple):
    """The buckets of the attributes of chunks."""

    start: Int32s  # [attributes + 1]
    high: Int32s  # the last rank of each bucket
    identity: Bools  # [attributes]: whether every rank has a bucket of its own


class _Written(NamedTuple):
    """The arrays that `_fill_chunks` writes."""

    offset: Int64s
    words: Uint64s
    checked: Bytes
    place: Int32Matrix
    items: Int32Matrix


def bid(plan: Plan) -> None:
    """Take the conjunctions that have no key, and those that cost less in chunks."""
    mine = np.flatnonzero(plan.open)
    plan.take("bitmap", plan.kind == NO_KEY)
    in_chunk = np.full(len(plan.kind), CHUNKED_NS)
    costly = mine[plan.cost[mine] > CHUNK_ABOVE_NS]
    if len(costly) > NEARLY_ALL * len(mine):
        costly = mine  # if all go into chunks, `lay_out` can use the plan as it is
    if len(costly):
        chunks = plan_chunks(plan, costly)
        plan.notes["bitmap"] = chunks
        plan.take("bitmap", _cheaper_in_chunks(plan, chunks, in_chunk))
        in_chunk[np.isinf(plan.cost)] = CHUNKED_NS
        if 2 * len(costly) > len(mine):  # then the others would cost about the same in chunks
            in_chunk[plan.cost <= CHUNK_ABOVE_NS] = np.median(in_chunk[costly])
    if len(plan.of("bitmap")):
        plan.take("bitmap", plan.unpaid(in_chunk))
    chunked = plan.of("bitmap")
    plan.cost[chunked] = in_chunk[chunked]
    plan.rest[chunked] = True
    plan.load = LOAD_NS * len(plan.used_attributes(chunked)[0])


def _cheaper_in_chunks(plan: Plan, chunks: ChunkPlan, in_chunk: np.ndarray) -> np.ndarray:
    """Return the conjunctions that cost less in their chunks than with their keys; write all costs to `in_chunk`."""
    mine = chunks.mine
    spent = _chunk_costs(plan, chunks)
    starts, sizes = chunks.first[:-1], np.diff(chunks.first)
    in_chunk[mine] = np.repeat(spent / CHUNK, sizes)
    saved = np.add.reduceat(np.minimum(UNKEYED_NS, plan.cost[mine]), starts) - spent
    if saved[saved > 0].sum() < LOAD_NS * len(chunks.attrs):
        return mine[:0]
    cheaper: np.ndarray = mine[np.repeat(saved > 0, sizes)]
    return cheaper


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
    """The share of events that the bits of each item admit: nearly all for a long IN, which falls into all buckets."""
    clauses, weights, shares = plan.clauses, plan.weights, plan.shares
    lists = np.flatnonzero(clauses.kind == SET)
    lists = lists[weights.total[clauses.attr[lists]] > IDENTITY]
    members = np.diff(clauses.set_start)[clauses.low[lists]]
    covered = 1.0 - (1.0 - 1.0 / BUCKETS) ** members
    by_bits = shares.copy()
    by_bits[lists] = np.maximum(shares[lists], weights.present[clauses.attr[lists]] * covered)
    return by_bits


def lay_out(plan: Plan) -> dict[str, np.ndarray]:
    """The arrays of the conjunctions in chunks, in the order of their chunks."""
    mine = plan.of("bitmap")
    chunks = plan.notes.get("bitmap")  # still valid if the conjunctions are the same
    if not isinstance(chunks, ChunkPlan) or len(chunks.mine) != len(mine) or not plan.has("bitmap", chunks.mine):
        chunks = plan_chunks(plan, mine)
    buckets = _buckets(plan.weights, chunks.attrs)
    lines = np.diff(buckets.start)[chunks.column_attr] + 1
    offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(lines.astype(np.int64) * WORDS)])
    written = _Written(
        offset, at_line_start(int(offset[-1])).view(np.uint64), np.zeros(len(chunks.first) - 1, np.uint8),
        np.zeros((len(mine) + 1, 2), np.int32),
        np.empty((int(np.diff(plan.clauses.start)[mine].sum()), 3), np.int32),
    )  # fmt: skip
    _fill_chunks(plan.items, plan.shares, chunks, buckets, written)
    return {
        "bits_attrs": chunks.attrs.astype(np.int32),
        "bits_first": chunks.first.astype(np.int32),
        "bits_bucket_start": buckets.start,
        "bits_bucket_high": buckets.high,
        "bits_slot_start": chunks.column_start,
        "bits_slot_attr": chunks.column_attr,
        "bits_slot_offset": offset[:-1],
        "bits_words": written.words,
        "bits_zone_attr": chunks.zone_attr,
        "bits_zone_low": chunks.zone_low,
        "bits_zone_high": chunks.zone_high,
        "bits_checked": written.checked,
        "bits_slot": plan.rows[chunks.mine],
        "bits_place": written.place,
        "bits_items": written.items,
    }


def _buckets(weights: Weights, attrs: np.ndarray) -> _Buckets:
    """Cut the ranks of each attribute into buckets that expect equally many events; bucket 0 is for null alone."""
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
    return _Buckets(
        np.cumsum(lengths).astype(np.int32),
        (np.concatenate(highs) if highs else np.empty(0)).astype(np.int32),
        identity,
    )


@helper
def bucket_of(rank: int, first: int, last: int, bucket_high: Int32s) -> int:
    """The bucket of a rank: the first whose last rank is not below it, counted from `first`."""
    if bucket_high[last - 1] == last - first - 1:  # as many buckets as ranks
        return rank
    found: int = lower_bound(bucket_high, first, last, rank)
    return found - first


@kernel
def _fill_chunks(source: Items, shares: Float32s, plan: ChunkPlan, buckets: _Buckets, written: _Written) -> None:
    """Set the dead bits and write the items: first those to check, most selective first, then those that bits decide.

    First only the lines are marked at which a conjunction dies or comes to life; then each line is XOR-ed with the one
    before it. So a range costs two bits instead of one for every bucket where it is dead.
    """
    start, attr, kind, low, high, set_start, set_low, set_high = source
    mine, chunk_first, _, compact, column_start, column_attr, _, _, _, _ = plan
    bucket_start, bucket_high, identity = buckets
    offset, bits, checked, place, item = written
    column_of = np.full(bucket_start.size - 1, -1, np.int32)
    seen = np.full(bucket_start.size - 1, -1, np.int64)  # the last conjunction that has bits for the attribute
    order = np.empty(64, np.int64)
    at = 0
    for chunk in range(column_start.size - 1):
        for s in range(column_start[chunk], column_start[chunk + 1]):
            column_of[column_attr[s]] = s
        first, last = chunk_first[chunk], chunk_first[chunk + 1]
        for p in range(first, last):
            ask_ahead(p, mine, source, shares)
            c = mine[p]
            word, bit = (p - first) >> 6, np.uint64(1) << np.uint64((p - first) & 63)
            n = decided = 0
            if start[c + 1] - start[c] > order.size:
                order = np.empty(2 * (start[c + 1] - start[c]), np.int64)
            for k in range(start[c], start[c + 1]):
                a = compact[attr[k]]
                s = column_of[a]
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
                spans = (low[k : k + 1], high[k : k + 1])
                if kind[k] != RANGE:
                    first_span, last_span = set_start[low[k]], set_start[low[k] + 1]
                    spans = (set_low[first_span:last_span], set_high[first_span:last_span])
                _set_bits(bits, offset[s] + word, bit, spans, bucket_start[a], bucket_start[a + 1], bucket_high)
            place[p, 1] = at + n
            for i in range(n + decided):
                k = order[i]
                item[at, 0] = compact[attr[k]] | (np.int32(kind[k]) << KIND_SHIFT)
                item[at, 1], item[at, 2] = low[k], high[k]
                at += 1
            place[p + 1, 0] = at
        for s in range(column_start[chunk], column_start[chunk + 1]):
            column_of[column_attr[s]] = -1
            _xor_lines(bits, offset[s], bucket_start[column_attr[s] + 1] - bucket_start[column_attr[s]], last - first)


@helper
def _insert(order: Int64s, n: int, k: int, shares: Float32s) -> None:
    """Insert item k into the first n, which are ordered by their shares."""
    j = n
    while j > 0 and shares[order[j - 1]] > shares[k]:
        order[j] = order[j - 1]
        j -= 1
    order[j] = k


@helper
def _xor_lines(bits: Uint64s, start: int, buckets: int, size: int) -> None:
    """XOR each line with the one before it: changes become dead bits. Bits beyond the size of a chunk are dead."""
    for p in range(size, CHUNK):
        bits[start + (p >> 6)] |= np.uint64(1) << np.uint64(p & 63)
    for word in range(start + WORDS, start + (buckets + 1) * WORDS):
        bits[word] ^= bits[word - WORDS]


@helper
def _set_bits(
    bits: Uint64s, base: int, bit: np.uint64, spans: tuple[Int32s, Int32s], b0: int, b1: int,
    bucket_high: Int32s,
) -> None:  # fmt: skip
    """Mark the lines where a conjunction dies or comes to life, given the ranges of ranks that it admits."""
    lows, highs = spans
    bits[base] |= bit  # line 0: the attribute is missing
    done = 0  # buckets that are written
    for i in range(lows.size):
        x = max(done, _bucket_near(lows[i], b0, b1, bucket_high))
        y = _bucket_near(highs[i], b0, b1, bucket_high)
        if x <= y:
            _toggle(bits, base, bit, x, y, b1 - b0)
            done = y + 1


@helper
def _toggle(bits: Uint64s, base: int, bit: np.uint64, first: int, last: int, buckets: int) -> None:
    """Mark two lines: that of the first bucket of a range, and the one behind its last bucket."""
    bits[base + (first + 1) * WORDS] ^= bit
    if last + 1 < buckets:
        bits[base + (last + 2) * WORDS] ^= bit


@helper
def _bucket_near(rank: int, first: int, last: int, bucket_high: Int32s) -> int:
    """Return what `bucket_of` does, searching from where the bucket would be if all were equally wide."""
    b = np.int64(rank * ((last - first) / (bucket_high[last - 1] + 1.0)))
    while bucket_high[first + b] < rank:
        b += 1
    while b > 0 and bucket_high[first + b - 1] >= rank:
        b -= 1
    return b  # type: ignore[return-value]
