"""The matches of states in a worker: subscriptions as codes, small integers that live as long as the process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.engine.index import Index
from whimbrel.pipeline.attributes import HandOver
from whimbrel.pipeline.transitions_diff import Codes, Matches
from whimbrel.pipeline.worker import open_version


class CodeTable:
    """Codes of ids of one kind, given as they come."""

    def __init__(self, kind: str) -> None:
        self._type = pa.string() if kind == "string" else pa.int64()
        self._codes: dict[Any, int] = {}
        self._ids: list[Any] = []
        self._array = pa.array([], self._type)
        self._by_slot: WeakKeyDictionary[Index, Codes] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._ids)

    def code_of(self, id: Any) -> int:
        """The code of an id."""
        code = self._codes.setdefault(id, len(self._ids))
        if code == len(self._ids):
            self._ids.append(id)
        return code

    def id_of(self, code: int) -> Any:
        """The id of a code."""
        return self._ids[code]

    def ids(self, codes: NDArray[Any]) -> pa.Array:
        """The ids of codes."""
        if len(self._array) < len(self._ids):
            self._array = pa.array(self._ids, self._type)
        return self._array.take(pa.array(codes))

    def of_rows(self, index: Index, rows: NDArray[Any]) -> Codes:
        """The codes of what an index calls rows; it is asked for the id of a row once."""
        known = self._by_slot.get(index)
        if known is None or len(known) < index.slots:
            known = self._by_slot[index] = np.full(index.slots, -1, np.int32)
        codes: Codes = known[rows]
        if (codes < 0).any():
            new = np.unique(rows[codes < 0])
            ids: Iterable[Any] = index.ids(new).tolist()
            known[new] = [self.code_of(id) for id in ids]
            codes = known[rows]
        return codes


_tables: dict[str, CodeTable] = {}


def code_table(kind: str) -> CodeTable:
    """The codes of this process for ids of a kind."""
    return _tables.setdefault(kind, CodeTable(kind))


def matcher(path: Path, kind: str, handed: HandOver, timestamps: tuple[str, ...]) -> Callable[[int, pa.Table], Matches]:
    """A function that matches states against a version of an index; it opens a version once."""
    table = code_table(kind)
    opened: dict[int, list[Index]] = {}

    def match(version: int, states: pa.Table) -> Matches:
        if version not in opened:
            manifest, opened[version] = open_version(path, version, timestamps)
            handed.check(manifest.attributes)
        found = [_matched(shard, states, table) for shard in opened[version]] if len(states) else []
        if len(found) == 1:
            return Matches.of_runs(*found[0], len(table))
        return _together(found, len(states), len(table))

    return match


def exists(path: Path, kind: str, version: int, timestamps: tuple[str, ...]) -> Callable[[int], bool]:
    """A function that says whether a version has a subscription."""
    table = code_table(kind)
    _, shards = open_version(path, version, timestamps)
    return lambda code: any(table.id_of(code) in shard for shard in shards)


def _matched(shard: Index, states: pa.Table, table: CodeTable) -> tuple[NDArray[np.int64], Codes]:
    offsets, codes, last = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)], 0
    for ends, rows in shard.match_blocks(states, threads=1):  # the other cores have tasks of their own
        offsets.append(ends[1:] + last)
        codes.append(table.of_rows(shard, rows[: ends[-1]]))
        last += int(ends[-1])
    return np.concatenate(offsets), np.concatenate(codes)


def _together(found: list[tuple[NDArray[np.int64], Codes]], count: int, bound: int) -> Matches:
    """The codes of all shards, by state."""
    rows = [np.repeat(np.arange(count), np.diff(offsets)) for offsets, _ in found]
    order = np.argsort(np.concatenate([np.zeros(0, np.int64), *rows]), kind="stable")
    codes = np.concatenate([np.zeros(0, np.int32), *(codes for _, codes in found)])
    offsets = np.zeros(count + 1, np.int64)
    for ends, _ in found:
        offsets += ends
    return Matches.of_runs(offsets, codes[order], bound)
