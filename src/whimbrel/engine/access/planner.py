"""The planner: under which access key each conjunction is filed.

Every conjunction gets the key that costs an event least:

* HASH: up to three items whose values are looked up in a hash table (see keys.py): equalities, members of an IN,
  buckets of a range;
* PRESENT: an attribute that few events have at all;
* SORTED: a one-sided range alone, or with one range more: candidates are a run of a sorted array, and what is left
  to check is one comparison per candidate on columns beside it;
* BITMAP: in chunks of up to 512 with "certainly dead in this bucket" bits, where many conjunctions ask for dense
  ranges of the same attributes;
* SIGNATURE: as 128 bits, where the attributes have few values.

Expectations come from an event sample when there is one, else every rank of an attribute is taken as equally likely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whimbrel.compiled.jit import helper, kernel
from whimbrel.engine.access.bitmap.plan import BUCKETS, IDENTITY, WORDS, Chunked, plan_chunks, used_attributes
from whimbrel.engine.access.bitmap.tiles import CHUNK
from whimbrel.engine.access.hash.candidates import CANDIDATE_NS
from whimbrel.engine.access.hash.key_shapes import UNKEYED_NS
from whimbrel.engine.access.hash.plan import Choice, choose_keys, count_equals
from whimbrel.engine.access.shared.weights import Weights, between, products
from whimbrel.engine.access.signature.plan import RANKS, Signatures, plan_signatures
from whimbrel.ranks.clauses.clauses import RANGE, SET, Clauses

HASH, PRESENT, SORTED, BITMAP, SIGNATURE = 0, 1, 2, 3, 4
KINDS = ("hash", "present", "sorted", "bitmap", "signature")

SORTED_ABOVE = 0.05
"""Share of events above which a second range is worth one comparison per candidate rather than bits."""
PRESENT_BELOW = 0.01
"""Share of events that may have an attribute for its presence to be a key."""
CHUNK_ABOVE_NS = 0.04
"""What a conjunction must cost by its key for a chunk to be considered."""
NEARLY_ALL = 0.95
"""Share of conjunctions that must be costly for the others to be planned with them."""
ZONE_NS, OPEN_NS, NEAR_NS, FAR_NS, PAIR_NS = 1.5, 80.0, 6.0, 0.8, 25.0
"""What a chunk costs an event: its zones, opening it, each attribute whose bits are near in the cache, the square of
the number of attributes where they are not, and a match; measured."""
LOAD_NS = 20.0
"""What it costs an event per attribute that there are chunks at all."""
ALL_SIGNATURES, EQUALS = 5_000, 1.5
"""From so many conjunctions on, with so many equal ones on average, signatures are tried before keys."""
SIGNATURES_ABOVE_NS = 400.0
"""What an event must cost for signatures to be considered."""
CHUNKED_NS = 1.0
"""What a conjunction of a chunk costs an event, where its chunk is not known."""
NEAR_BYTES = 1 << 15
"""Bytes of a chunk's bits up to which they are near."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The choice per conjunction: its kind, and the items (numbers within the clauses) that make its key, or -1."""

    kind: np.ndarray  # uint8[m]
    keys: np.ndarray  # int64[m, 3]
    signatures: Signatures | None
    chunks: Chunked | None  # of all that have kind BITMAP, if they were planned on the way


def make_plan(clauses: Clauses, weights: Weights, shares: np.ndarray) -> Plan:
    """The access key of every conjunction."""
    m = len(clauses.row)
    kind = np.full(m, BITMAP, np.uint8)
    keys = np.full((m, 3), -1, np.int64)
    cost = np.full(m, np.inf)
    _sort_and_rare(
        clauses.start, clauses.attr, clauses.kind, clauses.low, clauses.high, clauses.flags,
        clauses.dictionary.rank_base, weights.present, weights.total, weights.start, weights.cumulative,
        kind, keys, cost,
    )  # fmt: skip
    mine = np.flatnonzero(kind != SORTED)
    signatures = _all_signatures(clauses, weights, shares, mine, kind)
    if signatures is not None:
        kind[mine] = SIGNATURE
        return Plan(kind, keys, signatures, None)
    hashed = choose_keys(clauses, weights, shares, mine, keys, cost)
    kind[hashed.schema > 0] = HASH
    in_chunk = np.full(m, CHUNKED_NS)
    costly = mine[cost[mine] > CHUNK_ABOVE_NS]
    if len(costly) > NEARLY_ALL * len(mine):
        costly = mine  # so that the plan of the chunks holds if all go into them
    chunks = None
    if len(costly):
        chunks = plan_chunks(clauses, weights, shares, costly)
        kind[_denser_in_chunks(clauses, weights, shares, chunks, cost, in_chunk)] = BITMAP
        in_chunk[np.isinf(cost)] = CHUNKED_NS
        if 2 * len(costly) > len(mine):  # then the others would be as they are
            in_chunk[cost <= CHUNK_ABOVE_NS] = np.median(in_chunk[costly])
    if (kind == BITMAP).any():
        kind[_unpaid(hashed, cost, np.flatnonzero(kind == HASH), in_chunk)] = BITMAP
    signatures = _as_signatures(clauses, weights, shares, mine, kind, hashed, cost, in_chunk)
    keys[(kind == BITMAP) | (kind == SIGNATURE)] = -1
    if chunks is not None and ((kind == BITMAP).sum() != len(chunks.mine) or (kind[chunks.mine] != BITMAP).any()):
        chunks = None
    return Plan(kind, keys, signatures, chunks)


def _all_signatures(
    clauses: Clauses, weights: Weights, shares: np.ndarray, mine: np.ndarray, kind: np.ndarray
) -> Signatures | None:
    """Signatures for all, where they decide all and hardly any are equal: then no key is worth looking for."""
    if len(mine) < ALL_SIGNATURES or (kind[mine] == PRESENT).any():
        return None
    if weights.total[used_attributes(clauses, mine)[0]].max() > RANKS or count_equals(clauses, mine).mean() > EQUALS:
        return None
    found = plan_signatures(clauses, weights, shares, mine)
    return found if found is not None and found.decides else None


def _unpaid(hashed: Choice, cost: np.ndarray, own: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Those of conjunctions with hash keys whose schema saves less than its probes cost, by what all cost otherwise."""
    schema = hashed.schema[own]
    saved = np.bincount(schema, otherwise[own] - cost[own], len(hashed.price))
    unpaid: np.ndarray = own[(saved < hashed.price)[schema]]
    return unpaid


def _as_signatures(
    clauses: Clauses, weights: Weights, shares: np.ndarray, mine: np.ndarray, kind: np.ndarray, hashed: Choice,
    cost: np.ndarray, in_chunk: np.ndarray,
) -> Signatures | None:  # fmt: skip
    """Makes signatures of what hash keys and chunks hold at a higher cost, where that pays."""
    is_hash, chunked = kind == HASH, kind == BITMAP
    spent = np.where(chunked, in_chunk, np.where(is_hash, cost, 0.0))
    load = LOAD_NS * len(used_attributes(clauses, np.flatnonzero(chunked))[0])
    if hashed.prices(is_hash) + float(spent.sum()) + load < SIGNATURES_ABOVE_NS:
        return None
    found = plan_signatures(clauses, weights, shares, mine)
    if found is None:
        return None
    as_signature = np.full(len(kind), np.inf)
    as_signature[mine] = found.cost
    from_keys = np.zeros(len(kind), bool)
    from_keys[_unpaid(hashed, cost, np.flatnonzero(is_hash), as_signature)] = True
    saved = spent - as_signature
    gain = float(saved[from_keys].sum()) + hashed.prices(from_keys) - found.overhead
    from_chunks = chunked & (saved > 0)
    if saved[chunked].sum() + load > saved[from_chunks].sum():
        from_chunks = chunked  # no chunks at all
        gain += load
    if gain + saved[from_chunks].sum() <= 0:
        return None
    kind[from_keys | from_chunks] = SIGNATURE
    return found


def _denser_in_chunks(
    clauses: Clauses, weights: Weights, shares: np.ndarray, plan: Chunked, cost: np.ndarray, in_chunk: np.ndarray
) -> np.ndarray:
    """Those of the costly conjunctions that cost less in the chunks that they would make; `in_chunk` says how much."""
    mine = plan.mine
    attrs, zones = plan.attrs, plan.zone_attr
    widths = (plan.zone_high - plan.zone_low + 1) / np.maximum(1, weights.total[attrs][zones] - 8)
    opened = np.where(zones >= 0, np.minimum(1.0, widths), 1.0).prod(axis=1)
    slots = np.diff(plan.slot_start)
    rows = np.where(weights.total[attrs] <= IDENTITY, weights.total[attrs], BUCKETS)[plan.slot_attr]
    nbytes = np.add.reduceat(np.append(rows, 0), plan.slot_start[:-1]) * WORDS * 8
    spent = ZONE_NS + opened * (OPEN_NS + slots * np.where(nbytes <= NEAR_BYTES, NEAR_NS, FAR_NS * slots))
    starts, sizes = plan.first[:-1], np.diff(plan.first)
    spent += np.add.reduceat(products(mine, clauses.start, shares), starts) * PAIR_NS
    in_chunk[mine] = np.repeat(spent / CHUNK, sizes)
    saved = np.add.reduceat(np.minimum(UNKEYED_NS, cost[mine]), starts) - spent
    if saved[saved > 0].sum() < LOAD_NS * len(attrs):
        return mine[:0]
    denser: np.ndarray = mine[np.repeat(saved > 0, sizes)]
    return denser


@helper
def _is_one_sided(k, attr, low, high, base):  # type: ignore[no-untyped-def]
    a = attr[k]
    one_sided = False
    for t in range(4):
        one_sided |= low[k] == base[a, t] or high[k] == base[a, t + 1] - 1
    return one_sided and 0 < low[k] < high[k]


@kernel
def _sort_and_rare(  # type: ignore[no-untyped-def]
    start, attr, kind, low, high, flags, base, present, total, wstart, cumulative, out_kind, keys, cost
):
    """Chooses SORTED where it applies, and PRESENT where an attribute is rare."""
    for c in range(start.size - 1):
        first, last = start[c], start[c + 1]
        if flags[c] == 0 and last - first <= 2 and kind[first] == RANGE and kind[last - 1] == RANGE:
            run, other = -1, -1
            run_share, other_share = 2.0, 1.0
            for k in range(first, last):
                s = between(attr[k], low[k], high[k], present, total, wstart, cumulative)
                if s < run_share and _is_one_sided(k, attr, low, high, base):
                    run, run_share = k, s
            if run >= 0 and last - first == 2:
                other = first + last - 1 - run
                other_share = between(attr[other], low[other], high[other], present, total, wstart, cumulative)
            if run >= 0 and other_share > SORTED_ABOVE and (other < 0 or attr[other] != attr[run]):
                out_kind[c] = SORTED
                keys[c, 0], keys[c, 1] = run, other
                continue
        rare, rare_share = -1, PRESENT_BELOW
        for k in range(first, last):
            if kind[k] <= SET and present[attr[k]] <= rare_share and (low[k] > 0 or kind[k] == SET):
                rare, rare_share = k, present[attr[k]]
        if rare >= 0:
            out_kind[c] = PRESENT
            keys[c, 0] = rare
            cost[c] = rare_share * CANDIDATE_NS
