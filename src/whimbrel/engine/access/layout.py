"""The layout: planned clauses to the flat arrays of a segment, one group of arrays per kind of access key.

hash_*   one open-addressing table of exact 64-bit keys (see hashed.py)
sorted_* runs of bounds and slots per (attribute, side, second attribute), the second range in columns beside them
bits_*   chunks of up to 512 conjunctions: zones, dead bits per attribute and bucket, residual items (see chunks.py)
signature_*  conjunctions over attributes of few values as bits (see signatures.py); their records follow those of keys
set_*    sets of several rank intervals, which items of kind SET name
An entry's slot carries its flags in its two high bits; an item's attribute carries its kind in bits 28-29.
"""

from __future__ import annotations

import numpy as np

from whimbrel.engine.access.bitmap.layout import build_chunks
from whimbrel.engine.access.bitmap.plan import plan_chunks
from whimbrel.engine.access.hash.layout import hash_arrays
from whimbrel.engine.access.planner import BITMAP, SIGNATURE, SORTED, Plan
from whimbrel.engine.access.shared.packing import SHARED_BIT, VERIFY_BIT
from whimbrel.engine.access.shared.weights import Weights
from whimbrel.engine.access.signature.plan import signature_arrays
from whimbrel.ranks.clauses.clauses import SHARED, VERIFY, Clauses

Arrays = dict[str, np.ndarray]


def lay_out(clauses: Clauses, plan: Plan, weights: Weights, shares: np.ndarray) -> Arrays:
    """All arrays that matching touches, for one segment."""
    slot = packed_slots(clauses)
    hashed = hash_arrays(clauses, plan, slot, shares, weights)
    mine = np.flatnonzero(plan.kind == SIGNATURE)
    signatures, records = signature_arrays(clauses, plan.signatures, mine, slot, shares, len(hashed["hash_records"]))
    hashed["hash_records"] = np.concatenate([hashed["hash_records"], records])
    chunked = plan.chunks
    if chunked is None:
        chunked = plan_chunks(clauses, weights, shares, np.flatnonzero(plan.kind == BITMAP))
    return {
        "set_start": clauses.set_start.astype(np.int32),
        "set_low": clauses.set_low,
        "set_high": clauses.set_high,
        "always": clauses.always,
        **hashed,
        **signatures,
        **_sorted_arrays(clauses, plan, slot),
        **build_chunks(clauses, weights, chunked, slot, shares),
    }


def packed_slots(clauses: Clauses) -> np.ndarray:
    """The slot of every conjunction with its flags in the high bits."""
    packed = clauses.row.astype(np.int32)
    packed = packed | np.where(clauses.flags & VERIFY, np.int32(VERIFY_BIT), np.int32(0))
    return packed | np.where(clauses.flags & SHARED, np.int32(SHARED_BIT), np.int32(0))


def _sorted_arrays(clauses: Clauses, plan: Plan, slot: np.ndarray) -> Arrays:
    mine = np.flatnonzero(plan.kind == SORTED)
    k, other = plan.keys[mine, 0], plan.keys[mine, 1]
    attr, low, high = clauses.attr[k], clauses.low[k], clauses.high[k]
    has_other = other >= 0
    second = np.where(has_other, clauses.attr[other], -1)
    blocks = clauses.dictionary.rank_base[attr]
    is_upper = (low[:, None] == blocks[:, :4]).any(axis=1)  # bounded above only
    bound, fixed = np.where(is_upper, high, low), np.where(is_upper, low, high)
    order = np.lexsort((np.where(is_upper, -bound, bound), second, fixed, is_upper, attr))
    groups = np.stack([attr, fixed, is_upper, second], axis=1)[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(mine)), bool), (groups[1:] != groups[:-1]).any(axis=1)]))
    heads = groups[starts].astype(np.int32)
    return {
        "sorted_start": np.append(starts, len(mine)).astype(np.int32),
        "sorted_first": np.searchsorted(heads[:, 0], np.arange(len(clauses.attributes) + 1)).astype(np.int32),
        "sorted_upper": heads[:, 2].astype(np.uint8),
        "sorted_fixed": heads[:, 1].copy(),
        "sorted_second": heads[:, 3].copy(),
        "sorted_bound": bound[order].astype(np.int32),
        "sorted_low": np.where(has_other, clauses.low[other], 0)[order].astype(np.int32),
        "sorted_high": np.where(has_other, clauses.high[other], 0)[order].astype(np.int32),
        "sorted_slot": slot[mine][order],
    }
