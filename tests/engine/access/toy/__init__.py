"""A toy access key: conjunctions that are one equality, in a list that every event reads through.

It is what CONTRIBUTING.md walks through, and `test_toy.py` adds it to the registry. A real key has a file each for its
plan, its arrays and its kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Int32s
from whimbrel.compiled.jit import inlined
from whimbrel.engine.access.shared.arrays import Arrays, EventState, EventValues, Scratch, SharedArrays
from whimbrel.engine.access.shared.key import AccessKey, Explained, KeyArrays, Packed
from whimbrel.engine.access.shared.packing import ROW_MASK, emit, holds
from whimbrel.engine.access.shared.plan import Plan
from whimbrel.ranks.clauses.clauses import RANGE

CANDIDATE_NS = 1.0


class ToyArrays(NamedTuple):
    """An attribute, a rank and a row for each conjunction."""

    attr: Int32s
    rank: Int32s
    row: Int32s  # with flags


TOY = KeyArrays(ToyArrays, "toy_")


def claim(plan: Plan) -> None:
    """Take the conjunctions that are one equality, for good."""
    items, first = plan.items, plan.items.start[:-1]
    is_mine = (np.diff(items.start) == 1) & (items.kind[first] == RANGE) & (items.low[first] == items.high[first])
    is_mine &= plan.open
    plan.take("toy", is_mine)
    plan.open &= ~is_mine


def lay_out(plan: Plan) -> dict[str, np.ndarray]:
    """The arrays of the conjunctions that have this key."""
    mine = plan.of("toy")
    item = plan.items.start[mine]
    return TOY.stored_arrays(ToyArrays(plan.items.attr[item], plan.items.low[item], plan.rows[mine]))


@inlined
def match_toy(
    keys: ToyArrays, shared: SharedArrays, values: EventValues, event: EventState, scratch: Scratch, out: np.ndarray,
    n: int,
) -> int:  # fmt: skip
    """Append the rows whose rank the event has; the new length, or -1 without room."""
    sets, value, attrs, ranks, stamp = values
    for i in range(keys.row.size):
        v, rank = value[keys.attr[i]], keys.rank[i]
        if n >= 0 and v != -1 and holds(sets, RANGE, rank, rank, v, attrs, ranks, event.end):
            n = emit(keys.row[i], event.several, stamp, event.epoch, out, n)
    return n


def decode(arrays: Arrays) -> Packed:
    """All conjunctions that have this key."""
    rank = arrays["toy_rank"]
    return Packed(arrays["toy_row"], np.ones(len(rank), np.int64), arrays["toy_attr"], rank, rank)


def explain(arrays: Arrays, names: Sequence[str], row: int) -> Iterator[Explained]:
    """The keys of a row."""
    for entry in np.flatnonzero((arrays["toy_row"] & ROW_MASK) == row).tolist():
        attr, rank = int(arrays["toy_attr"][entry]), int(arrays["toy_rank"][entry])
        yield Explained("toy", [attr], {}, [[(attr, rank, rank)]], CANDIDATE_NS)


KEY = AccessKey(("toy",), TOY, lay_out, decode, explain, claim=claim, match_event=match_toy)
