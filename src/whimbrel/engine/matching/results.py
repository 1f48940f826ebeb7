"""Blocks of results as one Arrow table of (event row, subscription id)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from whimbrel.engine.ids.id_table import IdTable


def pairs_of(blocks: Iterable[tuple[np.ndarray, np.ndarray]], ids: IdTable) -> pa.Table:
    """The table of all pairs; string ids are dictionary-encoded."""
    events: list[np.ndarray] = []
    names: list[np.ndarray] = []
    event = 0
    as_numbers = ids.kind != "string"
    for offsets, rows in blocks:
        count = len(offsets) - 1
        events.append(np.repeat(np.arange(event, event + count, dtype=np.int64), np.diff(offsets)))
        names.append(np.asarray(ids.names(rows)) if as_numbers and len(rows) else rows.astype(np.int64))
        event += count
    schema = pa.schema({"event": pa.int64(), "subscription": pa.int64() if as_numbers else _TEXT_IDS})
    if as_numbers:
        chunks = [pa.record_batch([pa.array(e), pa.array(n)], schema) for e, n in zip(events, names, strict=True)]
        return pa.Table.from_batches(chunks, schema)
    return _with_text_ids(events, names, ids, schema)


def _with_text_ids(events: list[np.ndarray], rows: list[np.ndarray], ids: IdTable, schema: pa.Schema) -> pa.Table:
    """One dictionary of the ids that occur, numbered by row."""
    occurs = np.zeros(ids.rows, bool)
    for one in rows:
        occurs[one] = True
    used = np.flatnonzero(occurs)
    number = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    texts = pa.array(ids.name_list(used), pa.string())
    chunks = [
        pa.record_batch([pa.array(e), pa.DictionaryArray.from_arrays(pa.array(number[s], pa.int32()), texts)], schema)
        for e, s in zip(events, rows, strict=True)
    ]
    return pa.Table.from_batches(chunks, schema)


_TEXT_IDS = pa.dictionary(pa.int32(), pa.string())
