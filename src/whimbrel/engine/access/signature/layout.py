"""The arrays of signatures: conjunctions as 128 bits of death, sorted by their key, and the bits of events.

Where the bits do not say all, or an attribute has none, the record of the conjunction is visited. Every signature has
a record of its own; those follow the records of hash keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.shared.arrays import Arrays, Items
from whimbrel.engine.access.shared.key import Explained, KeyArrays, Packed, RankRange
from whimbrel.engine.access.shared.plan import Plan
from whimbrel.engine.access.shared.records import (
    HEAD,
    items_at,
    make_groups,
    record_sizes,
    record_starts,
    records_with,
    split_records,
    write_records,
)
from whimbrel.engine.access.signature.plan import BITS, CLASSES, TEST_NS, RankClasses, SignaturePlan, admitted
from whimbrel.ranks.clauses.clauses import SET

CHECK_BIT = -(1 << 31)
"""The sign of a row: bits do not say all about the conjunction."""


class SignatureArrays(NamedTuple):
    """The classes, the key, and the signatures run by run."""

    first: np.ndarray  # int32[A, 2]: where the ranks of an attribute begin in `classes`, or -1, and its class 0
    classes: np.ndarray  # int32: the class of each rank
    bits: np.ndarray  # uint64[classes + 1, 2]: the bit of each class, and at last those of an event without attributes
    key: np.ndarray  # int32[k]: the attributes of the key
    radix: np.ndarray  # int32[k]: what the class of each is multiplied by
    start: np.ndarray  # int32[runs + 1]: the signatures of a run
    dead: np.ndarray  # uint64[m, 2]: the signatures
    row: np.ndarray  # int32[m]: the row of each, with flags
    record: np.ndarray  # int32[m]: where its record begins


SIGNATURE = KeyArrays(
    SignatureArrays,
    "signature_",
    {"int32[,]": "first", "uint64[,]": "bits dead"},
    stored={"row": "slot"},
)


def lay_out(plan: Plan) -> dict[str, np.ndarray]:
    """The arrays of the conjunctions with signatures; their records follow those that there are."""
    clauses, mine, rows = plan.clauses, plan.of("signature"), plan.rows
    noted = plan.notes.get("signature")
    if not isinstance(noted, SignaturePlan) or not len(mine):
        none = np.empty(0, np.int32)
        first = np.full((len(clauses.attributes), 2), -1, np.int32)
        bits = np.zeros((1, 2), np.uint64)
        return SIGNATURE.stored_arrays(
            SignatureArrays(first, none, bits, none, none, np.zeros(2, np.int32), bits[:0], none, none)
        )
    classes, key = noted.classes, noted.key
    counts = classes.sizes()
    radix = np.ones(len(key), np.int64)
    for at in range(1, len(radix)):
        radix[at] = radix[at - 1] * counts[key[at - 1]]
    keys = int(radix[-1] * counts[key[-1]]) if len(radix) else 1
    dead = np.zeros((len(mine), 2), np.uint64)
    code = np.zeros(len(mine), np.int64)
    checked = np.zeros(len(mine), np.bool_)
    in_key = np.zeros(len(clauses.attributes), np.int64)
    in_key[key] = radix
    _fill(mine, plan.items, classes, counts, in_key, dead, code, checked)
    order = np.argsort(code, kind="stable")
    alone = np.arange(len(mine))
    no_key = np.full((len(mine), 3), -1, np.int64)
    groups = make_groups(plan, mine[order], no_key, alone, in_key, keep_key=True)
    start = sum(map(len, plan.records))
    ends = start + np.cumsum(record_sizes(groups.first, groups.item_start))
    plan.records.append(write_records(groups.first, groups.item_start, groups.items, rows[mine[order]]))
    packed = rows[mine[order]] | np.where(checked[order], np.int32(CHECK_BIT), np.int32(0))
    runs = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(code, minlength=keys))])
    first, table = classes
    arrays = SignatureArrays(
        first, table, _class_bits(int(counts.sum()), first[first[:, 0] >= 0, 1]), key, radix.astype(np.int32),
        runs.astype(np.int32), dead[order], packed, np.concatenate([np.array([start]), ends])[:-1].astype(np.int32),
    )  # fmt: skip
    return SIGNATURE.stored_arrays(arrays)


def _class_bits(count: int, zeros: np.ndarray) -> np.ndarray:
    """The bit of each class, in two words, and at last those of an event without attributes."""
    bits = np.zeros((count + 1, 2), np.uint64)
    number = np.arange(count)
    bits[number, number >> 6] = np.uint64(1) << (number & 63).astype(np.uint64)
    bits[-1] = np.bitwise_or.reduce(bits[zeros], axis=0)
    return bits


@kernel
def _fill(
    mine: np.ndarray, items: Items, classes: RankClasses, counts: np.ndarray, in_key: np.ndarray, dead: np.ndarray,
    code: np.ndarray, checked: np.ndarray,
) -> None:  # fmt: skip
    """Write the dead bits of each conjunction, its place in the table of runs, and whether items must be checked."""
    start, attr, kind, low, high, set_start, set_low, set_high = items
    first, table = classes
    alive = np.zeros(CLASSES, np.bool_)
    widths = np.bincount(table, minlength=BITS)
    for i in range(mine.size):
        for k in range(start[mine[i]], start[mine[i] + 1]):
            a = attr[k]
            if first[a, 0] < 0 or kind[k] > SET:
                checked[i] = True
                continue
            alive[:] = False
            zero = first[a, 1]
            own = table[first[a, 0] :]
            count, ranks = admitted(k, kind, low, high, set_start, set_low, set_high, own, zero, alive)
            covered, only = 0, 0
            for c in range(counts[a]):
                if alive[c]:
                    covered += widths[zero + c]
                    only = c
                else:
                    bit = zero + c
                    dead[i, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
            if covered != ranks or alive[0]:
                checked[i] = True
            if count == 1 and only > 0 and in_key[a] > 0 and (code[i] // in_key[a]) % counts[a] == 0:
                code[i] += only * in_key[a]


def decode(arrays: Arrays) -> Packed:
    """All conjunctions with signatures; each has a record with one row."""
    _, records = split_records(arrays)
    starts = record_starts(records)[:-1]
    counts = records[starts].astype(np.int64)
    is_item = np.ones(len(records), bool)
    rows = starts + HEAD + 3 * counts
    is_item[np.concatenate([starts, starts + 1, rows])] = False
    items = records[is_item].reshape(-1, 3)
    return Packed(records[rows], counts, items[:, 0].copy(), items[:, 1].copy(), items[:, 2].copy())


def explain(arrays: Arrays, names: Sequence[str], row: int) -> Iterator[Explained]:
    """The signatures of a row."""
    hashed, records = split_records(arrays)
    for place in records_with(records, row):
        items = items_at(records, place)
        entry = int(np.flatnonzero(arrays["signature_record"] == place + len(hashed))[0])
        in_key = np.isin(items[:, 0], arrays["signature_key"])
        ranges: list[RankRange] = [(int(attr), int(low), int(high)) for attr, low, high in items[in_key]]
        checks = len(items) if arrays["signature_slot"][entry] < 0 else 0
        yield Explained("signature", [attr for attr, _, _ in ranges], {"checks": checks}, [ranges], TEST_NS)
