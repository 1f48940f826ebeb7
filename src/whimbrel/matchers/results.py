"""Match results as Arrow: a table of (event row, subscription id), string ids as a dictionary."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import pyarrow as pa

from whimbrel.model.subscription import Id


def pairs_table(pairs: Iterable[tuple[int, Id]], kind: str) -> pa.Table:
    """The table of pairs; `kind` is the kind of the ids: int64 or string."""
    rows = array("q")
    if kind == "int64":
        ids = array("q")
        for row, id in pairs:
            rows.append(row)
            ids.append(int(id))
        return pa.table({"event": pa.array(rows, pa.int64()), "subscription": pa.array(ids, pa.int64())})
    numbers: dict[str, int] = {}
    indices = array("i")
    for row, id in pairs:
        rows.append(row)
        indices.append(numbers.setdefault(str(id), len(numbers)))
    names = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(list(numbers), pa.string()))
    return pa.table({"event": pa.array(rows, pa.int64()), "subscription": names})
