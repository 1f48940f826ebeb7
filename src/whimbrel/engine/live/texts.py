"""The source text and dialect of every row, apart from the data that matching touches.

Texts are kept in chunks that never change: UTF-8 with int32 offsets, and a dialect code for each text or one for all.
New texts gather in a small tail, which becomes a chunk when it is full. A new chunk takes in the small chunks before
it, so that there are few.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whimbrel.compiled.array_types import Bytes
from whimbrel.ranks.arrow import large_strings, string_buffers, widened

if TYPE_CHECKING:
    import pyarrow as pa

Arrays = dict[str, NDArray[Any]]

_TAIL = 4096  # texts
_CHUNK = 1 << 24  # bytes of text, unless one text is longer


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The texts of adjacent rows, and their dialect codes, or one code for all of them."""

    offsets: NDArray[np.int32]
    text: Bytes
    codes: Bytes

    def __len__(self) -> int:
        return self.offsets.size - 1

    def get(self, place: int) -> tuple[bytes, int]:
        start, stop = self.offsets[place : place + 2]
        return self.text[start:stop].tobytes(), int(self.codes[place if self.codes.size > 1 else 0])

    def all_codes(self) -> Bytes:
        return self.codes if self.codes.size == len(self) else np.repeat(self.codes, len(self))


@dataclass(frozen=True, slots=True)
class _State:
    """The texts that readers see. A change swaps it whole; only the tail grows in place."""

    chunks: tuple[_Chunk, ...] = ()
    starts: tuple[int, ...] = (0,)  # the first row of each chunk, and of the tail
    tail: list[tuple[bytes, int]] = field(default_factory=list)


class TextStore:
    """Source text and dialect by row, in order of addition.

    One thread writes: append, append_many, arrays. Any thread may `get` rows that it was told of, and never
    waits. Nothing is durable until what `arrays` returns is saved.

    >>> texts = TextStore()
    >>> texts.append(0, "price < 5", "sql")
    >>> texts.get(0)
    ('price < 5', 'sql')
    """

    def __init__(self) -> None:
        self._state = _State()
        self._dialects: list[str] = []

    def __len__(self) -> int:
        return self._state.starts[-1] + len(self._state.tail)

    def append(self, row: int, text: str, dialect: str) -> None:
        """Add the text of the next row. Below 1 us; a full tail costs some 100 us, merging chunks up to 10 ms."""
        self._expect(row)
        self._state.tail.append((text.encode(), self._code(dialect)))
        if len(self._state.tail) >= _TAIL:
            self._freeze_tail()

    def append_many(
        self, first_row: int, texts: pa.Array | pa.ChunkedArray | Sequence[str], dialect: str | Iterable[str]
    ) -> None:
        """Add the texts of the next rows, with one dialect for all or one for each."""
        self._expect(first_row)
        cuts, text = string_buffers(_arrow(texts))
        offsets, text = cuts - cuts[0], text[cuts[0] : cuts[-1]]
        codes = np.array([self._code(dialect)], np.uint8) if isinstance(dialect, str) else self._codes(dialect)
        if not isinstance(dialect, str) and codes.size != offsets.size - 1:
            raise ValueError(f"Expected {offsets.size - 1} dialects, but got {codes.size}")
        self._freeze_tail()
        self._push(_split(offsets, text, codes))

    def get(self, row: int) -> tuple[str, str]:
        """The text and dialect of a row."""
        state = self._state
        if not 0 <= row < state.starts[-1] + len(state.tail):
            raise IndexError(f"Expected a row below {len(self)}, but got {row}")
        number = bisect_right(state.starts, row) - 1
        place = row - state.starts[number]
        text, code = state.tail[place] if number == len(state.chunks) else state.chunks[number].get(place)
        return text.decode(), self._dialects[code]

    def memory_bytes(self) -> int:
        """Bytes of all texts and their offsets, mapped ones included; estimated for texts not yet in chunks."""
        state = self._state
        chunks = sum(chunk.offsets.nbytes + chunk.text.nbytes + chunk.codes.nbytes for chunk in state.chunks)
        return chunks + sum(len(text) + 100 for text, _ in state.tail.copy())

    def columns(self, rows: NDArray[np.int32]) -> tuple[pa.Array, pa.Array]:
        """The texts and the dialects of rows, as Arrow strings, the latter as a dictionary. The rows are trusted."""
        import pyarrow as pa

        self._freeze_tail()
        chunks = self._state.chunks
        texts = [
            pa.StringArray.from_buffers(len(chunk), pa.py_buffer(chunk.offsets), pa.py_buffer(chunk.text))
            for chunk in chunks
        ]
        codes = np.concatenate([np.zeros(0, np.uint8), *(chunk.all_codes() for chunk in chunks)])[rows]
        names = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(self._dialects, pa.string()))
        return pa.chunked_array(texts, pa.string()).cast(pa.large_string()).combine_chunks().take(rows), names

    def arrays(self) -> Arrays:
        """A snapshot to save, without copying: it stays as it is while the writer goes on."""
        self._freeze_tail()
        out: Arrays = {"dialects": np.frombuffer(json.dumps(self._dialects).encode(), np.uint8)}
        for number, chunk in enumerate(self._state.chunks):
            out |= {f"{number}.offsets": chunk.offsets, f"{number}.text": chunk.text, f"{number}.codes": chunk.codes}
        return out

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> TextStore:
        """A store on saved arrays, without reading them; they are never written to."""
        store = cls()
        store._dialects = json.loads(arrays["dialects"].tobytes())
        parts = ("offsets", "text", "codes")
        store._push(_Chunk(*(arrays[f"{number}.{part}"] for part in parts)) for number in range(len(arrays) // 3))
        return store

    def _expect(self, row: int) -> None:
        if row != len(self):
            raise ValueError(f"Expected the next row, {len(self)}, but got {row}")

    def _code(self, dialect: str) -> int:
        try:
            return self._dialects.index(dialect)
        except ValueError:
            if len(self._dialects) == 256:
                raise ValueError(f"Expected at most 256 dialects, but got one more: {dialect!r}") from None
            self._dialects.append(dialect)
            return len(self._dialects) - 1

    def _codes(self, dialects: Iterable[str]) -> Bytes:
        encoded = _arrow(dialects).dictionary_encode()
        known = np.array([self._code(dialect) for dialect in encoded.dictionary.to_pylist()], np.uint8)
        return known.take(np.asarray(encoded.indices))

    def _push(self, chunks: Iterable[_Chunk], keep: int | None = None) -> None:
        """Append chunks behind the first `keep` present ones, or all. The tail must be in them, or empty."""
        every = (*self._state.chunks[:keep], *chunks)
        self._state = _State(every, tuple(accumulate(map(len, every), initial=0)))

    def _freeze_tail(self) -> None:
        """Make the tail a chunk, with the chunks before it that are not much larger."""
        state = self._state
        if not state.tail:
            return
        texts, codes = zip(*state.tail, strict=True)
        offsets = np.fromiter(accumulate(map(len, texts), initial=0), np.int64)
        fresh = list(_split(offsets, np.frombuffer(b"".join(texts), np.uint8), np.array(codes, np.uint8)))
        size, keep = int(offsets[-1]), len(state.chunks)
        while keep and state.chunks[keep - 1].text.size <= min(2 * size, _CHUNK - size):
            keep -= 1
            size += state.chunks[keep].text.size
        if keep < len(state.chunks):
            fresh = [_merged((*state.chunks[keep:], *fresh))]
        self._push(fresh, keep)

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        state = self._state
        assert state.starts == tuple(accumulate(map(len, state.chunks), initial=0))
        assert len(state.tail) < _TAIL
        for chunk in state.chunks:
            assert len(chunk) and chunk.offsets[0] == 0 and chunk.offsets[-1] == chunk.text.size
            assert (np.diff(chunk.offsets) >= 0).all() and chunk.codes.size in (1, len(chunk))


def _arrow(texts: pa.Array | pa.ChunkedArray | Iterable[str]) -> pa.LargeStringArray:
    """Texts as one Arrow array; ValueError for nulls."""
    import pyarrow as pa

    if isinstance(texts, pa.ChunkedArray):
        texts = texts.cast(pa.large_string()).combine_chunks()
    array = widened(texts) if isinstance(texts, pa.Array) else large_strings(list(texts))
    if array.null_count:
        raise ValueError(f"Expected a text for every row, but {array.null_count} are null")
    return array


def _split(offsets: NDArray[np.int64], text: Bytes, codes: Bytes) -> Iterator[_Chunk]:
    """Copies of texts, in chunks of at most the usual size."""
    start = 0
    while start < offsets.size - 1:
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + _CHUNK, "right")) - 1)
        cuts = offsets[start : stop + 1]
        own = codes[start:stop] if codes.size > 1 else codes
        own = own[:1] if (own == own[0]).all() else own
        yield _Chunk((cuts - cuts[0]).astype(np.int32), text[cuts[0] : cuts[-1]].copy(), own.copy())
        start = stop


def _merged(chunks: Sequence[_Chunk]) -> _Chunk:
    lengths = np.concatenate([[0], *(np.diff(chunk.offsets) for chunk in chunks)])
    codes = np.concatenate([chunk.all_codes() for chunk in chunks])
    text = np.concatenate([chunk.text for chunk in chunks])
    return next(_split(np.cumsum(lengths), text, codes))
