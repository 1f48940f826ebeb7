"""Stores the ids of a table in memory by row: as integers, or as UTF-8 with offsets.

Rows of the dense run need neither a stored id nor a place in the hash table; the number of an entry is its row minus
the length of the run. The writer appends entries first and enters them in the hash table second. Readers see the arrays
of `_shown`, which are only appended to; growth replaces them by larger copies, zeroed, so that an entry not yet there
reads as empty.
"""

from __future__ import annotations

from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s
from whimbrel.engine.ids.id_kernels import (
    enter_ints,
    enter_many_ints,
    enter_many_strings,
    enter_strings,
    find_int,
    find_string,
    gather,
    take_ints,
)
from whimbrel.model.errors import IdKindError
from whimbrel.model.subscription import id_kind
from whimbrel.ranks.arrow import numbers, string_buffers

if TYPE_CHECKING:
    import pyarrow as pa

Arrays = dict[str, NDArray[Any]]
Rows = NDArray[np.integer[Any]]

_INT64 = 1 << 63
_UNBOUNDED = 1 << 62
_MANY = 4096  # rows from which on Arrow, at 60 us a call, names strings faster than our kernel


def with_capacity(array: NDArray[Any], need: int) -> NDArray[Any]:
    """`array` if it has `need` elements, else a larger copy with zeros behind."""
    if need <= array.size:
        return array
    grown = np.zeros(max(need, array.size + array.size // 4 + 16), array.dtype)
    grown[: array.size] = array
    return grown


def owned(array: NDArray[Any]) -> NDArray[Any]:
    """`array` if it may be written (fresh, or mapped copy-on-write), else a copy."""
    return array if array.flags.writeable else array.copy()


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: mapped arrays and others then have the same type, so that kernels are compiled once."""
    view = array.view()
    view.flags.writeable = False
    return view


class IntKeys:
    """Integer ids: `base + row` in the dense run, `ids[row - dense]` after it. The run ends with its first gap."""

    kind = "int64"

    def __init__(self, ids: Int64s | None = None, base: int = 0, dense: int = 0) -> None:
        self.ids: Int64s = np.zeros(0, np.int64) if ids is None else ids
        self.count = self.ids.size
        self.base = base
        self.dense = dense
        self._show()

    def own(self) -> None:
        """Make the arrays writable."""
        self.ids = owned(self.ids)
        self._show()

    def stored_form(self, id: object) -> int:
        """Convert an id to the form that is stored and looked up; IdKindError if it is not of this kind."""
        if type(id) is int and -_INT64 <= id < _INT64:
            return id
        if isinstance(id, Integral) and id_kind(id) == self.kind:
            return int(id)
        raise IdKindError(id, self.kind)

    def append(self, batch: Int64s) -> int:
        """Append ids that are not yet in the hash table; return how many of them lengthen the dense run."""
        run = 0 if self.count else self._extend_run(batch)
        if run < batch.size:
            stop = self.count + batch.size - run
            self.ids = with_capacity(self.ids, stop)
            self.ids[self.count : stop] = batch[run:]
            self.count = stop
            self._show()
        return run

    def append_one(self, id: int) -> int:
        """Append one id, without making an array of it."""
        if self.count == 0 and self.dense and id == self.base + self.dense:
            self.dense += 1
            return 1
        if self.count in (0, self.ids.size):
            return self.append(np.array([id], np.int64))
        self.ids[self.count] = id
        self.count += 1
        return 0

    def mark(self) -> tuple[int, int]:
        """How much is stored now, for `reset`, which forgets what was appended later."""
        return self.count, self.dense

    def reset(self, mark: tuple[int, int]) -> None:
        """Forget what was appended since the mark; none of it may be in the hash table."""
        self.count, self.dense = mark
        self._show()

    def enter(self, table: Int32s, dead: Bytes, seed: int, first: int, stop: int) -> int:
        """Put the live entries into the hash table; return -1, or the first duplicate: then none of them is in it."""
        kernel = enter_ints if stop - first == 1 else enter_many_ints
        return int(kernel(self.ids, table, dead, self.dense, self.base, seed, first, stop))

    def run_row(self, id: int) -> int:
        """The row of an id in the dense run, dead or not; -1 outside it."""
        return id - self.base if self.base <= id < self.base + self.dense else -1

    def find(self, table: Int32s, seed: int, id: int) -> int:
        """The entry of an id and its place in the hash table, as `find_int` returns them; or -1."""
        return int(find_int(self._shown[0], table, seed, id))

    def name(self, row: int) -> int:
        """The id of a row."""
        ids, dense, base = self._shown
        return base + row if row < dense else int(ids[row - dense])

    def names(self, rows: Rows) -> Int64s:
        """The ids of rows."""
        ids, dense, base = self._shown
        if dense == _UNBOUNDED:
            return np.add(rows, base, dtype=np.int64)
        taken: Int64s = take_ints(ids, dense, base, rows)
        return taken

    def name_list(self, rows: Rows) -> list[int]:
        """The ids of rows as Python integers."""
        _, dense, base = self._shown
        named = rows if dense == _UNBOUNDED and base == 0 else self.names(rows)
        listed: list[int] = named.tolist()
        return listed

    def arrays(self) -> Arrays:
        """The arrays to save, by name, without copying."""
        return {"ids": self.ids[: self.count]}

    def memory_bytes(self) -> int:
        """Bytes of the arrays, spare capacity included."""
        return self.ids.nbytes

    def _extend_run(self, batch: Int64s) -> int:
        first = self.base + self.dense if self.dense else int(batch[0])
        limit = min(batch.size, _INT64 - first)
        gaps = np.flatnonzero(batch[:limit] != np.arange(first, first + limit, dtype=np.int64))
        run = int(gaps[0]) if gaps.size else limit
        if self.dense == 0:
            self.base = first
            self._show()
        self.dense += run
        return run

    def _show(self) -> None:
        """Show readers the arrays. A dense run that still grows is shown without an end, so most adds need no call."""
        self._shown = (frozen(self.ids), self.dense if self.count else _UNBOUNDED, self.base)


class StringKeys:
    """String ids: the UTF-8 of row s is `text[offsets[s]:offsets[s + 1]]`."""

    kind = "string"
    dense = 0
    base = 0

    def __init__(self, text: Bytes | None = None, offsets: Int64s | None = None) -> None:
        self.text: Bytes = np.zeros(0, np.uint8) if text is None else text
        self.offsets: Int64s = np.zeros(1, np.int64) if offsets is None else offsets
        self.count = self.offsets.size - 1
        self.size = int(self.offsets[-1])
        self._show()

    def own(self) -> None:
        """Make the arrays writable."""
        self.text, self.offsets = owned(self.text), owned(self.offsets)
        self._show()

    def stored_form(self, id: object) -> bytes:
        """Convert an id to the form that is stored and looked up; IdKindError if it is not of this kind."""
        if not isinstance(id, str):
            raise IdKindError(id, self.kind)
        try:
            return id.encode()
        except UnicodeEncodeError:
            raise IdKindError(id, "string without lone surrogates") from None

    def append(self, batch: pa.LargeStringArray) -> int:
        """Append ids that are not yet in the hash table."""
        cuts, data = string_buffers(batch)
        self._reserve(int(cuts[-1] - cuts[0]), len(batch))
        stop = self.size + int(cuts[-1] - cuts[0])
        self.text[self.size : stop] = data[cuts[0] : cuts[-1]]
        np.add(cuts[1:], self.size - cuts[0], out=self.offsets[self.count + 1 : self.count + 1 + len(batch)])
        self.count, self.size = self.count + len(batch), stop
        return 0

    def append_one(self, id: bytes) -> int:
        """Append one id, as UTF-8."""
        self._reserve(len(id), 1)
        stop = self.size + len(id)
        text, offsets = self._views
        text[self.size : stop] = id
        offsets[self.count + 1] = stop
        self.count, self.size = self.count + 1, stop
        return 0

    def mark(self) -> tuple[int, int]:
        """How much is stored now, for `reset`, which forgets what was appended later."""
        return self.count, self.size

    def reset(self, mark: tuple[int, int]) -> None:
        """Forget what was appended since the mark; none of it may be in the hash table."""
        self.count, self.size = mark

    def enter(self, table: Int32s, dead: Bytes, seed: int, first: int, stop: int) -> int:
        """Put the live entries into the hash table; return -1, or the first duplicate: then none of them is in it."""
        kernel = enter_strings if stop - first == 1 else enter_many_strings
        return int(kernel(self.text, self.offsets, table, dead, seed, first, stop))

    def run_row(self, id: bytes) -> int:
        """Strings have no dense run."""
        return -1

    def find(self, table: Int32s, seed: int, id: bytes) -> int:
        """The entry of an id and its place in the hash table, as `find_int` returns them; or -1."""
        return int(find_string(*self._shown, table, seed, id))

    def name(self, row: int) -> str:
        """The id of a row."""
        text, offsets = self._shown
        return text[offsets[row] : offsets[row + 1]].tobytes().decode()

    def names(self, rows: Rows) -> pa.Array:
        """The ids of rows as an Arrow array: string, or large_string from 2 GB on."""
        import pyarrow as pa

        text, offsets = self._shown
        if rows.size >= _MANY:
            every = pa.LargeStringArray.from_buffers(offsets.size - 1, pa.py_buffer(offsets), pa.py_buffer(text))
            taken = every.take(numbers(rows))
            return taken.cast(pa.string()) if taken.nbytes < 1 << 31 else taken
        text, starts = gather(text, offsets, rows, False)
        kind = pa.LargeStringArray
        if text.size < 1 << 31:
            kind, starts = pa.StringArray, starts.astype(np.int32)
        return kind.from_buffers(rows.size, pa.py_buffer(starts), pa.py_buffer(text), null_count=0)

    def name_list(self, rows: Rows) -> list[str]:
        """The ids of rows as Python strings: decoded at once, then cut."""
        text, starts = gather(*self._shown, rows, True)
        whole = text.tobytes().decode()
        return [whole[start:stop] for start, stop in pairwise(starts.tolist())]

    def arrays(self) -> Arrays:
        """The arrays to save, by name, without copying."""
        return {"text": self.text[: self.size], "offsets": self.offsets[: self.count + 1]}

    def memory_bytes(self) -> int:
        """Bytes of the arrays, spare capacity included."""
        return self.text.nbytes + self.offsets.nbytes

    def _reserve(self, size: int, count: int) -> None:
        if self.size + size > self._capacity[0] or self.count + count >= self._capacity[1]:
            self.text = with_capacity(self.text, self.size + size)
            self.offsets = with_capacity(self.offsets, self.count + count + 1)
            self._show()

    def _show(self) -> None:
        """Show readers the arrays, and keep memory views, which write one id faster than NumPy does."""
        self._shown = (frozen(self.text), frozen(self.offsets))
        self._views = (self.text.data, self.offsets.data)
        self._capacity = (self.text.size, self.offsets.size)
