"""The planner: under which access key each conjunction is filed.

Every conjunction gets the key that costs an event least:

* HASH: up to three items whose values are looked up in a hash table: equalities, members of an IN, buckets of a range;
* PRESENT: an attribute that few events have at all;
* SORTED: a one-sided range alone, or with one range more: candidates are a run of a sorted array, and what is left
  to check is one comparison per candidate on columns beside it;
* BITMAP: in chunks of up to 512 with "certainly dead in this bucket" bits, where many conjunctions ask for dense
  ranges of the same attributes;
* SIGNATURE: as 128 bits, where the attributes have few values.

What a key costs is estimated by its own `plan.py`; this module compares. Expectations come from an event sample when
there is one, else every rank of an attribute is taken as equally likely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whimbrel.engine.access.bitmap.plan import ChunkPlan, chunk_costs, plan_chunks, used_attributes
from whimbrel.engine.access.bitmap.tiles import CHUNK
from whimbrel.engine.access.hash.key_shapes import UNKEYED_NS
from whimbrel.engine.access.hash.plan import HashPlan, count_equals, plan_hash, plan_present
from whimbrel.engine.access.shared.weights import Weights
from whimbrel.engine.access.signature.classes import RANKS
from whimbrel.engine.access.signature.plan import SignaturePlan, plan_signatures
from whimbrel.engine.access.sorted.plan import plan_sorted
from whimbrel.ranks.clauses.clauses import Clauses

HASH, PRESENT, SORTED, BITMAP, SIGNATURE = 0, 1, 2, 3, 4
KINDS = ("hash", "present", "sorted", "bitmap", "signature")

CHUNK_ABOVE_NS = 0.04
"""What a conjunction must cost by its key for a chunk to be considered."""
NEARLY_ALL = 0.95
"""Share of conjunctions that must be costly for the others to be planned with them."""
LOAD_NS = 20.0
"""What it costs an event per attribute that there are chunks at all."""
CHUNKED_NS = 1.0
"""What a conjunction of a chunk costs an event, where its chunk is not known."""
ALL_SIGNATURES, EQUALS = 5_000, 1.5
"""Signatures are tried before keys from this number of conjunctions on, if at most so many are equal on average."""
SIGNATURES_ABOVE_NS = 400.0
"""What an event must cost for signatures to be considered."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The key of every conjunction."""

    kind: np.ndarray  # uint8[m]: HASH to SIGNATURE
    keys: np.ndarray  # int64[m, 3]: the items (numbers within the clauses) that make its key, or -1
    signatures: SignaturePlan | None
    chunks: ChunkPlan | None  # of all that have kind BITMAP, if they were planned on the way

    def of(self, *kinds: int) -> np.ndarray:
        """The conjunctions that have one of these kinds of key."""
        return np.flatnonzero(np.isin(self.kind, kinds))


def make_plan(clauses: Clauses, weights: Weights, shares: np.ndarray) -> Plan:
    """Choose the access key of every conjunction; `shares` says which share of events each item admits."""
    m = len(clauses.start) - 1
    kind = np.full(m, BITMAP, np.uint8)
    keys = np.full((m, 3), -1, np.int64)
    cost = np.full(m, np.inf)
    kind[plan_sorted(clauses, weights, keys)] = SORTED
    mine = np.flatnonzero(kind != SORTED)
    kind[plan_present(clauses, weights, mine, keys, cost)] = PRESENT
    signatures = _all_signatures(clauses, weights, shares, mine, kind)
    if signatures is not None:
        kind[mine] = SIGNATURE
        return Plan(kind, keys, signatures, None)
    hashed = plan_hash(clauses, weights, shares, mine, keys, cost)
    kind[hashed.shape > 0] = HASH
    in_chunk = np.full(m, CHUNKED_NS)
    costly = mine[cost[mine] > CHUNK_ABOVE_NS]
    if len(costly) > NEARLY_ALL * len(mine):
        costly = mine  # so that the plan of the chunks holds if all go into them
    chunks = None
    if len(costly):
        chunks = plan_chunks(clauses, weights, shares, costly)
        kind[_cheaper_in_chunks(clauses, weights, shares, chunks, cost, in_chunk)] = BITMAP
        in_chunk[np.isinf(cost)] = CHUNKED_NS
        if 2 * len(costly) > len(mine):  # then the others would be as they are
            in_chunk[cost <= CHUNK_ABOVE_NS] = np.median(in_chunk[costly])
    if (kind == BITMAP).any():
        kind[hashed.unpaid(np.flatnonzero(kind == HASH), cost, in_chunk)] = BITMAP
    signatures = _as_signatures(clauses, weights, shares, mine, kind, hashed, cost, in_chunk)
    keys[(kind == BITMAP) | (kind == SIGNATURE)] = -1
    if chunks is not None and ((kind == BITMAP).sum() != len(chunks.mine) or (kind[chunks.mine] != BITMAP).any()):
        chunks = None
    return Plan(kind, keys, signatures, chunks)


def _all_signatures(
    clauses: Clauses, weights: Weights, shares: np.ndarray, mine: np.ndarray, kind: np.ndarray
) -> SignaturePlan | None:
    """Signatures for all, where they decide all and hardly any are equal: then no key is worth looking for."""
    if len(mine) < ALL_SIGNATURES or (kind[mine] == PRESENT).any():
        return None
    if weights.total[used_attributes(clauses, mine)[0]].max() > RANKS or count_equals(clauses, mine).mean() > EQUALS:
        return None
    found = plan_signatures(clauses, weights, shares, mine)
    return found if found is not None and found.decides else None


def _as_signatures(
    clauses: Clauses, weights: Weights, shares: np.ndarray, mine: np.ndarray, kind: np.ndarray, hashed: HashPlan,
    cost: np.ndarray, in_chunk: np.ndarray,
) -> SignaturePlan | None:  # fmt: skip
    """Turn conjunctions with hash keys and in chunks to signatures, where that costs less; changes `kind`."""
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
    from_keys[hashed.unpaid(np.flatnonzero(is_hash), cost, as_signature)] = True
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


def _cheaper_in_chunks(
    clauses: Clauses, weights: Weights, shares: np.ndarray, plan: ChunkPlan, cost: np.ndarray, in_chunk: np.ndarray
) -> np.ndarray:
    """The planned conjunctions that cost less in their chunks than `cost` says; writes to `in_chunk` how much."""
    mine = plan.mine
    spent = chunk_costs(clauses, weights, shares, plan)
    starts, sizes = plan.first[:-1], np.diff(plan.first)
    in_chunk[mine] = np.repeat(spent / CHUNK, sizes)
    saved = np.add.reduceat(np.minimum(UNKEYED_NS, cost[mine]), starts) - spent
    if saved[saved > 0].sum() < LOAD_NS * len(plan.attrs):
        return mine[:0]
    cheaper: np.ndarray = mine[np.repeat(saved > 0, sizes)]
    return cheaper
