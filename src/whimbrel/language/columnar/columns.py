"""Columns of literals: many values of one slot, without a Python object each where that is possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from whimbrel.model.values import canonical_number

if TYPE_CHECKING:
    import pyarrow as pa

Int64s: TypeAlias = npt.NDArray[np.int64]
Float64s: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = Int64s | Float64s | list[int | float]
Column: TypeAlias = "Numbers | list[str] | DictionaryStrings"

EXACT_INTEGERS = 1 << 53
"""Integers up to this size are exact as binary64."""


class DictionaryStrings(Sequence[str]):
    """A dictionary-encoded column: string i is `vocabulary[codes[i]]`. Columns may share a vocabulary.

    >>> import numpy as np, pyarrow as pa
    >>> list(DictionaryStrings(np.array([1, 0, 1]), pa.array(["toy", "book"])))
    ['book', 'toy', 'book']
    """

    __slots__ = ("codes", "vocabulary")

    def __init__(self, codes: npt.NDArray[np.int32], vocabulary: pa.Array) -> None:
        self.codes, self.vocabulary = codes, vocabulary

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> DictionaryStrings: ...
    def __getitem__(self, index: int | slice) -> str | DictionaryStrings:
        if isinstance(index, slice):
            return DictionaryStrings(self.codes[index], self.vocabulary)
        text: str = self.vocabulary[int(self.codes[index])].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        known = self.vocabulary.to_pylist()
        return (known[code] for code in self.codes.tolist())


def exact(values: Sequence[int | float]) -> Numbers:
    """Canonical numbers as an int64 array if all fit, else as a float64 array if all are exact, else as a list."""
    if all(isinstance(value, int) and -(1 << 63) <= value < 1 << 63 for value in values):
        return np.array(values, dtype=np.int64)
    if all(isinstance(value, float) or -EXACT_INTEGERS <= value <= EXACT_INTEGERS for value in values):
        return np.array(values, dtype=np.float64)
    return list(values)


def joined(parts: Sequence[Column]) -> Column:
    """One column of several parts."""
    if len(parts) == 1:
        return parts[0]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts) and len({array.dtype for array in arrays}) == 1:
        column: Int64s = np.concatenate(arrays)
        return column
    items: list[Any] = [item for part in parts for item in (part.tolist() if isinstance(part, np.ndarray) else part)]
    return items if isinstance(items[0], str) else exact([canonical_number(item) for item in items])
