"""A column of strings, each different one once: what a million filters repeat is stored and looked at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa


class Words(Sequence[str]):
    """The strings `vocabulary[codes[i]]`; the vocabulary may be that of many columns.

    >>> import numpy as np, pyarrow as pa
    >>> list(Words(np.array([1, 0, 1]), pa.array(["toy", "book"])))
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
    def __getitem__(self, index: slice) -> Words: ...
    def __getitem__(self, index: int | slice) -> str | Words:
        if isinstance(index, slice):
            return Words(self.codes[index], self.vocabulary)
        text: str = self.vocabulary[int(self.codes[index])].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        known = self.vocabulary.to_pylist()
        return (known[code] for code in self.codes.tolist())
