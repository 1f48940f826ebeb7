"""Transitions as they are found: keys, subscriptions, kinds and sequence numbers, kept as columns."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.model.subscription import Id
from whimbrel.publications.arrow_columns import column_of
from whimbrel.ranks.arrow import numbers

ENTER, LEAVE, DELETE = range(3)
_KINDS = column_of(["enter", "leave", "delete"], pa.string())


class Transitions:
    """Collects the transitions of one or more calls and gives them as an Arrow table."""

    def __init__(self, key: pa.DataType, subscription: pa.DataType) -> None:
        self._schema = _schema(key, subscription)
        self._blocks: list[tuple[pa.Array, pa.Array, NDArray[np.int8], pa.Array]] = []
        self._single: list[tuple[int | str, Id, int, int | None]] = []

    def add(self, key: int | str, subscription: Id, kind: int, sequence: int | None) -> None:
        """Add one transition."""
        self._single.append((key, subscription, kind, sequence))

    def extend(self, keys: pa.Array, subscriptions: pa.Array, kinds: NDArray[np.int8], sequences: pa.Array) -> None:
        """Add many transitions."""
        self._blocks.append((keys, subscriptions, kinds, sequences))

    def table(self) -> pa.Table:
        """All transitions: key, subscription, kind (enter, leave or delete) and sequence, which may be null."""
        blocks = list(self._blocks)
        if self._single or not blocks:
            keys, ids, kinds, sequences = zip(*self._single, strict=True) if self._single else ((),) * 4
            named = column_of(keys, self._schema.field(0).type), column_of(ids, self._schema.field(1).type)
            blocks.append((*named, np.array(kinds, np.int8), column_of(sequences, pa.int64())))
        keys, ids, kinds, sequences = zip(*blocks, strict=True)
        names = _KINDS.take(numbers(np.concatenate(kinds)))
        columns = [pa.concat_arrays(keys), pa.concat_arrays(ids), names, pa.concat_arrays(sequences)]
        return pa.Table.from_arrays(columns, schema=self._schema)


@lru_cache
def _schema(key: pa.DataType, subscription: pa.DataType) -> pa.Schema:
    kinds = {"key": key, "subscription": subscription, "kind": pa.string(), "sequence": pa.int64()}
    return pa.schema(kinds.items())
