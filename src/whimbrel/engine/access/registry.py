"""The access keys, a line for each, and what is asked of all of them: to plan, to lay out, to give their arrays."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from whimbrel.engine.access.shared.arrays import Arrays, SharedArrays
from whimbrel.engine.access.shared.key import AccessKey, KeyArrays
from whimbrel.engine.access.shared.plan import Plan, Weights, item_shares
from whimbrel.ranks.clauses.clauses import Clauses
from whimbrel.ranks.kernel_arrays import END_AT

FOLDERS = (
    "sorted",
    "hash",
    "bitmap",  # takes what no key before it wants
    "signature",
)
"""The package of each key, in the order in which keys are asked to take conjunctions."""

KEYS: tuple[AccessKey, ...] = tuple(import_module(f"whimbrel.engine.access.{folder}").KEY for folder in FOLDERS)
KINDS = tuple(name for key in KEYS for name in key.names)
"""The names of keys in `Index.stats` and `Index.plan`."""
SHARED = KeyArrays(SharedArrays, "", stored={"records": "hash_records"})
GROUPS = (SHARED, *(key.arrays for key in KEYS))
"""The arrays of a segment that kernels read: what keys share, and those of each key."""
PLACES = np.cumsum([END_AT, *(group.kind.words for group in GROUPS)]).tolist()
"""Where each group begins among the words of the kernel, and where they end."""


def make_plan(clauses: Clauses, weights: Weights) -> Plan:
    """Give every conjunction the key that costs an event least."""
    plan = Plan(clauses, weights, item_shares(clauses, weights), KINDS)
    for key in KEYS:
        key.claim(plan)
    for key in KEYS:
        if plan.open.any():
            key.bid(plan)
    return plan


def lay_out(plan: Plan) -> dict[str, np.ndarray]:
    """The arrays of planned conjunctions, by the names under which a segment stores them."""
    clauses = plan.clauses
    arrays = {
        "set_start": clauses.set_start.astype(np.int32),
        "set_low": clauses.set_low,
        "set_high": clauses.set_high,
        "always": clauses.always,
    }
    for key in KEYS:
        arrays |= key.lay_out(plan)
    arrays["hash_records"] = np.concatenate(plan.records)
    return arrays


def kernel_arrays(arrays: Arrays) -> list[tuple[np.ndarray, ...]]:
    """Make the tuples that kernels read, one for each of `GROUPS`, from stored arrays."""
    return [group.of(arrays) for group in GROUPS]
