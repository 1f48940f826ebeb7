"""What a bucket has to tell, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

ENTER, LEAVE, DELETE = range(3)
KINDS = ("enter", "leave", "delete")


class News:
    """Notifications: keys, codes of subscriptions, kinds and sequence numbers, which may be missing."""

    def __init__(self, key: pa.DataType) -> None:
        self._key = key
        self._parts: list[tuple[pa.Array, NDArray[np.int32], NDArray[np.int8], pa.Array]] = []
        self._single: list[tuple[Any, int, int, int | None]] = []

    def add(self, key: Any, code: int, kind: int, sequence: int | None) -> None:
        """One notification."""
        self._single.append((key, code, kind, sequence))

    def extend(self, keys: pa.Array, codes: NDArray[np.int32], kinds: NDArray[np.int8], sequences: pa.Array) -> None:
        """Many."""
        self._parts.append((keys, codes, kinds, sequences))

    def columns(self) -> tuple[pa.Array, NDArray[np.int32], pa.Array, pa.Array]:
        """Everything: keys, codes, names of kinds, sequence numbers."""
        parts = list(self._parts)
        if self._single or not parts:
            keys, codes, kinds, sequences = zip(*self._single, strict=True) if self._single else ((),) * 4
            single = pa.array(keys, self._key), np.array(codes, np.int32), np.array(kinds, np.int8)
            parts.append((*single, pa.array(sequences, pa.int64())))
        every = list(zip(*parts, strict=True))
        named = pa.array(KINDS, pa.string()).take(pa.array(np.concatenate(every[2])))
        return pa.concat_arrays(every[0]), np.concatenate(every[1]), named, pa.concat_arrays(every[3])
