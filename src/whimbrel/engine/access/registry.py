"""The access keys: a line for each in `KEYS`, `SegmentArrays` and `lay_out`.

A new key is a folder like the others and these lines. planner.py chooses it, and kernel.py calls its kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from whimbrel.engine.access.bitmap import layout as bitmap
from whimbrel.engine.access.bitmap.plan import plan_chunks
from whimbrel.engine.access.hash import decoding as hash_decoding
from whimbrel.engine.access.hash import layout as hashed
from whimbrel.engine.access.planner import BITMAP, HASH, PRESENT, SIGNATURE, SORTED, Plan
from whimbrel.engine.access.shared.arrays import SHARED, Arrays, Explained, KeyArrays, Packed, SharedArrays
from whimbrel.engine.access.shared.rows import packed_rows
from whimbrel.engine.access.shared.weights import Weights
from whimbrel.engine.access.signature import layout as signature
from whimbrel.engine.access.sorted import layout as sorted_layout
from whimbrel.ranks.clauses.clauses import Clauses
from whimbrel.ranks.kernel_arrays import END_AT


class AccessKey(NamedTuple):
    """One way for events to find conjunctions."""

    arrays: KeyArrays  # the arrays that kernels read
    decode: Callable[[Arrays], Packed]  # the conjunctions that have this key
    explain: Callable[[Arrays, Sequence[str], int], Iterator[Explained]]  # given the names of attributes, and a row


KEYS = (
    AccessKey(hashed.HASH, hash_decoding.decode, hash_decoding.explain),
    AccessKey(signature.SIGNATURE, signature.decode, signature.explain),
    AccessKey(sorted_layout.SORTED, sorted_layout.decode, sorted_layout.explain),
    AccessKey(bitmap.BITMAP, bitmap.decode, bitmap.explain),
)
"""All keys; what they share, and the presence of an attribute, which is a kind of hash key, have no line."""


class SegmentArrays(NamedTuple):
    """What the kernels of matching read of a segment."""

    shared: SharedArrays
    hash: hashed.HashArrays
    signature: signature.SignatureArrays
    sorted: sorted_layout.SortedArrays
    bitmap: bitmap.BitmapArrays


GROUPS = (SHARED, *(key.arrays for key in KEYS))
"""The arrays of a segment, in the order of `SegmentArrays`."""
PLACES = np.cumsum([END_AT, *(group.kind.words for group in GROUPS)]).tolist()
"""Where each group begins among the words of the kernel, and where they end."""


def segment_arrays(arrays: Arrays) -> SegmentArrays:
    """What kernels read, of stored arrays."""
    return SegmentArrays(*(group.of(arrays) for group in GROUPS))  # type: ignore[arg-type]


def lay_out(clauses: Clauses, plan: Plan, weights: Weights, shares: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays of planned conjunctions, by the names under which a segment stores them."""
    rows = packed_rows(clauses)
    mine = plan.of(HASH, PRESENT)
    by_hash = hashed.lay_out(clauses, weights, shares, mine, plan.kind[mine] == PRESENT, plan.keys, rows)
    records = by_hash["hash_records"]
    by_signature, more = signature.lay_out(
        clauses, plan.signatures, shares, plan.of(SIGNATURE), rows, start=len(records)
    )
    chunks = plan.chunks
    if chunks is None:
        chunks = plan_chunks(clauses, weights, shares, plan.of(BITMAP))
    return {
        "set_start": clauses.set_start.astype(np.int32),
        "set_low": clauses.set_low,
        "set_high": clauses.set_high,
        "always": clauses.always,
        **by_hash,
        "hash_records": np.concatenate([records, more]),
        **by_signature,
        **sorted_layout.lay_out(clauses, plan.of(SORTED), plan.keys, rows),
        **bitmap.lay_out(clauses, weights, shares, chunks, rows),
    }
