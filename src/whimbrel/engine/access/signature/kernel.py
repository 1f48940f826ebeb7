"""The arrays of signatures: matches events against them, and reads them back for merges and for `Index.plan`.

An event tests the signatures in the runs of its key; those that share no bit with the event's bits are alive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Int32Matrix, Int32s, Int64s, Uint64Matrix
from whimbrel.compiled.jit import helper, inlined
from whimbrel.engine.access.shared.arrays import Arrays, EventState, EventValues, Scratch, SharedArrays
from whimbrel.engine.access.shared.key import Explained, KeyArrays, Packed, RankRange
from whimbrel.engine.access.shared.packing import SHARED_BIT, emit
from whimbrel.engine.access.shared.records import (
    HEAD,
    items_at,
    record_starts,
    records_with,
    split_records,
    visit,
)

TEST_NS = 0.6
"""What a signature costs an event, measured."""
CHECK_BIT = -(1 << 31)
"""The sign bit of a row: bits do not decide the conjunction, so its record must be visited."""
_ONE, _NONE = np.uint64(1), np.uint64(0)


class SignatureArrays(NamedTuple):
    """The classes, the key, and the signatures run by run."""

    first: Int32Matrix  # [A, 2]: where the ranks of an attribute begin in `classes`, or -1, and its class 0
    classes: Int32s  # the class of each rank
    bits: Uint64Matrix  # [classes + 1, 2]: the bit of each class; the last line is for an event without attributes
    key: Int32s  # [k]: the attributes of the key
    radix: Int32s  # [k]: what the class of each is multiplied by
    start: Int32s  # [runs + 1]: the signatures of a run
    dead: Uint64Matrix  # [m, 2]: the signatures
    row: Int32s  # [m]: the row of each, with flags
    record: Int32s  # [m]: where its record begins


SIGNATURE = KeyArrays(
    SignatureArrays,
    "signature_",
    stored={"row": "slot"},
)


@inlined
def match_signatures(
    keys: SignatureArrays, shared: SharedArrays, values: EventValues, event: EventState, scratch: Scratch,
    out: Int32s, n: int,
) -> int:  # fmt: skip
    """Append the rows whose signatures are alive for the event; return the new length, or -1 if `out` is full."""
    if n < 0 or keys.row.size == 0:
        return n
    first, classes, bits, _, _, start, dead, row, record = keys
    value, present, run, alive, counts = values.value, scratch.present, scratch.run, scratch.alive, scratch.counts
    runs = _runs(first, classes, keys.key, keys.radix, value, values.attrs, values.ranks, event.end, run)
    if runs < 0:
        return -1
    e0, e1 = bits[-1, 0], bits[-1, 1]  # the bits of the event, at first as if it had no attributes
    for x in range(event.attributes):
        a = present[x]
        if first[a, 0] < 0:
            continue
        e0 &= ~bits[first[a, 1], 0]
        e1 &= ~bits[first[a, 1], 1]
        v = value[a]
        if v >= 0:  # several values kill nothing
            c = classes[first[a, 0] + v]
            e0 |= bits[c, 0]
            e1 |= bits[c, 1]
    kept: int = np.int64(0)  # type: ignore[assignment]
    for r in range(runs):
        i, last = np.int64(start[run[r]]), np.int64(start[run[r] + 1])
        counts[0] += last - i
        while i < last:
            if kept == alive.size:
                n = _emit_all(row, record, shared.records, alive, kept, values, event, out, n)
                kept = np.int64(0)  # type: ignore[assignment]
                if n < 0:
                    return -1
            stop = min(last, i + alive.size - kept)
            for j in range(i, stop):  # append always, keep if alive: no branch to mispredict
                u = np.uint64(j)
                alive[np.uint64(kept)] = j
                kept += ((dead[u, 0] & e0) | (dead[u, 1] & e1)) == _NONE
            i = stop
    return _emit_all(row, record, shared.records, alive, kept, values, event, out, n)


@helper
def _runs(
    first: Int32Matrix, classes: Int32s, key: Int32s, radix: Int32s, value: Int32s, attrs: Int32s,
    ranks: Int32s, end: int, run: Int64s,
) -> int:  # fmt: skip
    """Write the runs that the event must test, with and without each attribute of the key; their number, or -1."""
    run[0] = 0
    n = 1
    for f in range(key.size):
        a = key[f]
        v = value[a]
        if v == -1:
            continue
        i = -2 - v if v < 0 else end - 1  # one value is like a list that ends with it
        seen = _ONE
        before = n
        while i < end and (v >= 0 or attrs[i] == a):
            c = classes[first[a, 0] + (v if v >= 0 else ranks[i])] - first[a, 1]
            i += 1
            if (seen >> np.uint64(c)) & _ONE != _NONE:
                continue
            seen |= _ONE << np.uint64(c)
            if n + before > run.size:
                return -1
            for j in range(before):
                run[n + j] = run[j] + np.int64(c) * radix[f]
            n += before
    return n


@helper
def _emit_all(
    rows: Int32s, record: Int32s, records: Int32s, alive: Int32s, kept: int, values: EventValues,
    event: EventState, out: Int32s, n: int,
) -> int:  # fmt: skip
    """Append the rows of the first `kept` signatures of `alive`; visit the records of those that bits do not decide."""
    if n + kept > out.size:
        return -1
    for x in range(kept):
        i = np.uint64(alive[x])
        packed = rows[i]
        if event.several or packed < 0:
            n = visit(records, alive, np.int64(record[i]), np.int64(1), values, event, out, n)  # type: ignore[arg-type]
            if n < 0:
                return -1
        elif packed & SHARED_BIT:
            n = emit(packed, event.several, values.stamp, event.epoch, out, n)
        else:
            out[np.uint64(n)] = packed
            n += 1
    return n


def decode(arrays: Arrays) -> Packed:
    """Read back all conjunctions with signatures; each has a record with one row."""
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
