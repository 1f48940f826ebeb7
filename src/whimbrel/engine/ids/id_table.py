"""Maps ids to rows and rows to ids, at a few bytes per subscription.

A row is the number of one version of a subscription, in order of addition. Ids are in flat arrays by row; one hash
table with open addressing leads from an id to its row. Of integer ids that count up from the first one, only the first
is stored.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s
from whimbrel.engine.ids.id_kernels import PLACE_SHIFT
from whimbrel.engine.ids.id_keys import Arrays, IntKeys, Rows, StringKeys, frozen, owned, with_capacity
from whimbrel.model.errors import DuplicateId, IdKindError, UnknownId
from whimbrel.model.subscription import Id, id_kind
from whimbrel.ranks.arrow import large_strings, values_of

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS = (None, "int64", "string")
_PAGE = 1 << 16  # ids named at a time by an iteration
_ENTRY = (1 << PLACE_SHIFT) - 1
_IdBatch: TypeAlias = NDArray[np.int64] | Any  # Any stands for pa.LargeStringArray, which has no types


class IdTable:
    """The ids of an index, of one kind, fixed by the first one.

    One thread writes: add, add_many, remove, arrays. Any thread may call name, names and name_list for rows that it
    was told of after they were added, and never waits. `find` from another thread is safe, but a race decides whether
    it sees an id that is just being added or removed. A removed id keeps its name; added again, it gets a new row.
    Nothing is durable until what `arrays` returns is saved.

    >>> table = IdTable()
    >>> table.add("toys"), table.add("books"), table.find("books"), table.find("films")
    (0, 1, 1, -1)
    """

    def __init__(self, seed: int | None = None) -> None:
        """`seed` of the hash, below 2^63, for a table that must be the same every time; without one it is secret."""
        self._keys: IntKeys | StringKeys | None = None
        self._seed = secrets.randbits(63) if seed is None else seed
        self._table: Int32s = np.zeros(16, np.int32)
        self._lookup = frozen(self._table)
        self._dead: Bytes = np.zeros(0, np.uint8)  # one bit per row
        self._rows = 0
        self._row_limit = 0  # rows that may be added without a call of `_prepare`
        self._removed = 0  # rows
        self._removed_entries = 0  # removed rows outside the dense run
        self._used = 0  # places of the hash table that are not free: entries and removed ones

    @property
    def kind(self) -> str | None:
        """`int64` or `string`; None before the first id."""
        return None if self._keys is None else self._keys.kind

    @property
    def rows(self) -> int:
        """How many rows there are, removed ones included: the next id gets this row."""
        return self._rows

    def __len__(self) -> int:
        return self._rows - self._removed

    def __contains__(self, id: object) -> bool:
        return self.find(id) >= 0

    def __iter__(self) -> Iterator[Id]:
        """The live ids in order of addition."""
        for first in range(0, self._rows, _PAGE):
            yield from self.name_list(self.live(first, first + _PAGE))

    def add(self, id: Id) -> int:
        """Add an id and return its row; DuplicateId if it is there. About 1 us; growing costs 30 ns per id."""
        keys = self._keys or _keys_of(id)
        raw = keys.stored_form(id)
        row = self._rows
        if row >= self._row_limit:
            self._prepare(1)
        mark = keys.mark()
        if not keys.append_one(raw) and self._enter(keys, 1) >= 0:  # type: ignore[arg-type]
            keys.reset(mark)
            raise DuplicateId(id)
        self._keys = keys
        self._rows = row + 1
        return row

    def add_many(self, ids: NDArray[Any] | pa.Array | Iterable[Id]) -> int:
        """Add ids and return the first row; the others follow. All or none: DuplicateId names the first duplicate."""
        batch = _read_batch(ids, self.kind)
        if len(batch) == 0:
            return self._rows
        keys = self._keys or _keys_of(_item(batch, 0))
        row = self._rows
        if row + len(batch) > self._row_limit:
            self._prepare(len(batch))
        mark = keys.mark()
        run = keys.append(batch)
        duplicate = self._enter(keys, len(batch) - run) if run < len(batch) else -1
        if duplicate >= 0:
            keys.reset(mark)
            raise DuplicateId(_item(batch, run + duplicate))
        self._keys = keys
        self._rows = row + len(batch)
        return row

    def find(self, id: object) -> int:
        """The row of a live id; -1 if it is not there, whatever it is. About 1 us."""
        keys = self._keys
        if keys is None:
            return -1
        try:
            raw = keys.stored_form(id)
        except IdKindError:
            return -1
        return self._locate(keys, raw)[0]

    def remove(self, id: Id) -> int:
        """Remove an id and return the row it had; UnknownId if it is not there."""
        keys = self._keys or _keys_of(id)
        row, place = self._locate(keys, keys.stored_form(id))
        if row < 0:
            raise UnknownId(id)
        if self._rows > self._row_limit:
            self._prepare(0)
        if place >= 0:
            self._table[place] = -1
            self._removed_entries += 1
        self._dead[row >> 3] |= 1 << (row & 7)
        self._removed += 1
        return row

    def name(self, row: int) -> Id:
        """The id of a row, removed or not."""
        if self._keys is None or not 0 <= row < self._rows:
            raise IndexError(f"Expected a row below {self._rows}, but got {row}")
        return self._keys.name(row)

    def names(self, rows: Rows) -> Int64s | pa.Array:
        """The ids of rows: an int64 array, or an Arrow array of strings. The rows are trusted."""
        return np.empty(0, np.int64) if self._keys is None else self._keys.names(rows)

    def name_list(self, rows: Rows) -> list[Id]:
        """The ids of rows as Python values: for few rows cheaper than `names`. The rows are trusted."""
        return [] if self._keys is None else self._keys.name_list(rows)  # type: ignore[return-value]

    def live(self, first: int = 0, stop: int | None = None) -> Int32s:
        """The rows that are not removed, ascending, from `first` (a multiple of 8) to `stop`."""
        stop = self._rows if stop is None else min(stop, self._rows)
        bits = np.unpackbits(self._dead[first >> 3 : (stop + 7) >> 3], count=stop - first, bitorder="little")
        return np.flatnonzero(bits == 0).astype(np.int32) + np.int32(first)

    def memory_bytes(self) -> int:
        """Bytes of all arrays, mapped ones included."""
        return self._table.nbytes + self._dead.nbytes + (0 if self._keys is None else self._keys.memory_bytes())

    def arrays(self) -> Arrays:
        """A snapshot to save, which later writes do not change: arrays that are not only appended to are copied."""
        keys = self._keys or IntKeys()
        sizes = [self._rows, self._removed, self._removed_entries, self._used]
        counts = [_KINDS.index(self.kind), *sizes, self._seed, keys.base, keys.dense]
        dead = self._dead[: (self._rows + 7) >> 3].copy()
        return {"counts": np.array(counts, np.int64), "table": self._table.copy(), "dead": dead, **keys.arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> IdTable:
        """A table on saved arrays, which are not read.

        The table owns the arrays from now on: read-only ones are copied by the first change, writable ones, mapped
        copy-on-write, are changed page by page.
        """
        kind, rows, removed, removed_entries, used, seed, base, dense = arrays["counts"].tolist()
        table = cls(seed)
        if _KINDS[kind] == "int64":
            table._keys = IntKeys(arrays["ids"], base, dense)
        elif _KINDS[kind] == "string":
            table._keys = StringKeys(arrays["text"], arrays["offsets"])
        table._table, table._lookup, table._used = arrays["table"], frozen(arrays["table"]), used
        table._dead = arrays["dead"]
        table._rows, table._removed, table._removed_entries = rows, removed, removed_entries
        return table

    def _locate(self, keys: IntKeys | StringKeys, raw: int | bytes) -> tuple[int, int]:
        """Row and place in the hash table of a live id: (-1, -1) if it is not there, place -1 in the dense run."""
        row = keys.run_row(raw)  # type: ignore[arg-type]
        if row >= 0 and not self._dead.item(row >> 3) >> (row & 7) & 1:
            return row, -1
        found = keys.find(self._lookup, self._seed, raw)  # type: ignore[arg-type]
        return (-1, -1) if found < 0 else ((found & _ENTRY) + keys.dense, found >> PLACE_SHIFT)

    def _prepare(self, count: int) -> None:
        """Make the arrays writable and make capacity for more rows, before anything is appended."""
        if self._row_limit == 0:
            self._table, self._dead = owned(self._table), owned(self._dead)
            self._lookup = frozen(self._table)
            if self._keys is not None:
                self._keys.own()
        self._dead = with_capacity(self._dead, (self._rows + count + 7) >> 3)
        self._row_limit = self._dead.size << 3

    def _enter(self, keys: IntKeys | StringKeys, count: int) -> int:
        """Put the last `count` entries into the table; return -1, or the first duplicate: then none is in it."""
        first = keys.count - count
        used = self._used + count
        if used * 5 > self._table.size * 3:  # too full: start a fresh one at 44 %, without the places of removed ids
            table = np.zeros(max(16, (keys.count - self._removed_entries) * 9 // 4), np.int32)
            keys.enter(table, self._dead, self._seed, 0, first)
            self._table, self._lookup, used = table, frozen(table), keys.count - self._removed_entries
        self._used = used  # even after a failure, which leaves its places marked as removed
        duplicate = keys.enter(self._table, self._dead, self._seed, first, keys.count)
        return duplicate if duplicate < 0 else duplicate - first

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        assert self._used * 5 <= self._table.size * 3
        assert np.count_nonzero(self._table) <= self._used
        entries = self._table[self._table > 0]
        assert self.live().size == len(self) and self._removed_entries <= self._removed
        if self._keys is not None:
            assert self._keys.count + self._keys.dense == self._rows
            assert entries.size == self._keys.count - self._removed_entries
            live = self.live()
            assert sorted(entries - 1 + self._keys.dense) == live[live >= self._keys.dense].tolist()
            assert all(self.find(id) == row for row, id in zip(live, self, strict=True))


def _keys_of(id: object) -> IntKeys | StringKeys:
    return IntKeys() if id_kind(id) == "int64" else StringKeys()


def _read_batch(ids: NDArray[Any] | pa.Array | pa.ChunkedArray | Iterable[Id], kind: str | None) -> _IdBatch:
    """Many ids as an int64 array or a pa.LargeStringArray; IdKindError names the first that is not of `kind`."""
    import pyarrow as pa

    if isinstance(ids, (pa.Array, pa.ChunkedArray)):
        ids = _from_arrow(ids)
    if isinstance(ids, np.ndarray):
        signed = ids.dtype.kind == "i" or (ids.dtype.kind == "u" and ids.itemsize < 8)
        ids = np.ascontiguousarray(ids, np.int64) if signed else ids.tolist()
    if not isinstance(ids, (np.ndarray, pa.Array)):
        return _from_list(list(ids), kind)
    if len(ids) and kind not in (None, id_kind(_item(ids, 0))):
        raise IdKindError(_item(ids, 0), str(kind))
    return ids


def _item(batch: _IdBatch, number: int) -> Id:
    """One id of a batch as a Python value."""
    found: Id = batch[number].item() if isinstance(batch, np.ndarray) else batch[number].as_py()
    return found


def _from_arrow(ids: pa.Array | pa.ChunkedArray) -> NDArray[Any] | pa.LargeStringArray | list[Any]:
    """Integers and strings by their buffers; anything else, nulls included, as a list, to be refused one by one."""
    import pyarrow as pa

    if isinstance(ids, pa.ChunkedArray):
        ids = pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], ids.type)
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if ids.null_count == 0 and pa.types.is_integer(ids.type):
        return values_of(ids)
    if ids.null_count == 0 and (pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)):
        try:
            ids.validate(full=True)
        except pa.ArrowInvalid:  # not UTF-8
            return [_decoded(id) for id in ids.cast(pa.large_binary()).to_pylist()]
        return ids.cast(pa.large_string())
    return list(ids.to_pylist())


def _decoded(id: bytes) -> str | bytes:
    try:
        return id.decode()
    except UnicodeDecodeError:
        return id


def _from_list(ids: list[Any], kind: str | None) -> _IdBatch:
    import pyarrow as pa

    kind = kind or (id_kind(ids[0]) if ids else "int64")
    exact = int if kind == "int64" else str
    try:
        if not set(map(type, ids)) - {exact}:
            return np.array(ids, np.int64) if exact is int else large_strings(ids)
    except (OverflowError, UnicodeEncodeError):
        pass  # the slow way finds the id that is refused
    keys = IntKeys() if exact is int else StringKeys()
    forms = [keys.stored_form(id) for id in ids]
    return np.array(forms, np.int64) if exact is int else pa.array(forms, pa.large_binary()).cast(pa.large_string())
