"""Signatures read back: to conjunctions, for merges, and to what `plan` says. Their records have all items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from whimbrel.engine.access.shared.arrays import Arrays
from whimbrel.engine.access.shared.decoded import Explained, Packed, RankRange
from whimbrel.engine.access.shared.records import HEAD, items_at, record_starts, records_with, split_records
from whimbrel.engine.access.signature.plan import TEST_NS


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
