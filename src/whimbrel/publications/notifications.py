"""What a bucket has to tell, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

ENTER, LEAVE, DELETE = range(3)
_KINDS = pa.array(["enter", "leave", "delete"])


class News:
    """Notifications: keys, ids of subscriptions, kinds and sequence numbers, which may be missing."""

    def __init__(self, key: pa.DataType, id: pa.DataType) -> None:
        self._types = key, id
        self._parts: list[tuple[pa.Array, pa.Array, NDArray[np.int8], pa.Array]] = []
        self._single: list[tuple[Any, Any, int, int | None]] = []

    def add(self, key: Any, id: Any, kind: int, sequence: int | None) -> None:
        """One notification."""
        self._single.append((key, id, kind, sequence))

    def extend(self, keys: pa.Array, ids: pa.Array, kinds: NDArray[np.int8], sequences: pa.Array) -> None:
        """Many."""
        self._parts.append((keys, ids, kinds, sequences))

    def columns(self) -> list[pa.Array]:
        """Everything: keys, ids, names of kinds, sequence numbers."""
        parts = list(self._parts)
        if self._single or not parts:
            keys, ids, kinds, sequences = zip(*self._single, strict=True) if self._single else ((),) * 4
            named = pa.array(keys, self._types[0]), pa.array(ids, self._types[1])
            parts.append((*named, np.array(kinds, np.int8), pa.array(sequences, pa.int64())))
        keys, ids, kinds, sequences = zip(*parts, strict=True)
        names = _KINDS.take(pa.array(np.concatenate(kinds)))
        return [pa.concat_arrays(keys), pa.concat_arrays(ids), names, pa.concat_arrays(sequences)]
