"""A version of an index as a worker uses it: subscriptions are codes, small integers, the same in every process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.engine.index import Index
from whimbrel.publications.diff import Codes, Matches
from whimbrel.publications.rules import Rules


class Version:
    """The shards of a version. The code of a subscription is its place among the slots of all shards."""

    def __init__(self, number: int, shards: Sequence[Index], kind: str, rules: Rules) -> None:
        self.number = number
        self._shards = shards
        self._firsts = np.cumsum([0, *(shard.rows for shard in shards)])
        self._type = pa.string() if kind == "string" else pa.int64()
        self._translations: dict[int, Codes] = {}
        self.leave = rules.leave if isinstance(rules.leave, bool) else self._codes_of(rules.leave)
        """Who is told of leaves: all, nobody, or these codes."""
        self.quiet = self._codes_of(rules.named)
        """Those that are not told of by their matches alone."""
        self.named: dict[int, Any] = dict(zip(self.quiet.tolist(), self.ids(self.quiet).to_pylist(), strict=True))
        """Their ids."""

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def code_of(self, id: Any) -> int:
        """The code of an id; -1 if it is not in this version."""
        for shard, first in zip(self._shards, self._firsts.tolist(), strict=False):
            slot = shard.row(id)
            if slot >= 0:
                return int(first + slot)
        return -1

    def ids(self, codes: NDArray[Any]) -> pa.Array:
        """The ids of codes."""
        if len(self._shards) == 1:
            return pa.array(self._shards[0].ids(codes)).cast(self._type)
        homes = np.searchsorted(self._firsts, codes, side="right") - 1
        parts = [pa.array([], self._type)]
        places = [np.zeros(0, np.int64)]
        for number, shard in enumerate(self._shards):
            own = np.flatnonzero(homes == number)
            if len(own):
                places.append(own)
                parts.append(pa.array(shard.ids(codes[own] - self._firsts[number])).cast(self._type))
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))

    def translated(self, old: Version, codes: Codes) -> Codes:
        """Codes of an older version as they are here; the number of codes for those that are gone."""
        known = self._translations.setdefault(old.number, np.full(len(old), -1, np.int32))
        new = np.unique(codes[known[codes] < 0])
        if len(new):
            found = np.array([self.code_of(id) for id in old.ids(new).to_pylist()], np.int32)
            known[new] = np.where(found < 0, len(self), found)
        out: Codes = known[codes]
        return out

    def match(self, states: pa.Table) -> Matches:
        """The matches of states."""
        found = [self._matched(number, states) for number in range(len(self._shards))] if len(states) else []
        if len(found) == 1:
            return Matches.of_runs(*found[0], len(self))
        return _together(found, len(states), len(self))

    def _matched(self, number: int, states: pa.Table) -> tuple[NDArray[np.int64], Codes]:
        offsets, codes, last = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)], 0
        for ends, rows in self._shards[number].match_blocks(states, threads=1):  # other cores have tasks of their own
            offsets.append(ends[1:] + last)
            codes.append((rows + self._firsts[number]).astype(np.int32))
            last += len(rows)
        return np.concatenate(offsets), np.concatenate(codes)

    def _codes_of(self, ids: Any) -> Codes:
        found = np.array([self.code_of(id) for id in ids], np.int32)
        return np.sort(found[found >= 0])


def _together(found: list[tuple[NDArray[np.int64], Codes]], count: int, bound: int) -> Matches:
    """The codes of all shards, by state."""
    rows = [np.repeat(np.arange(count), np.diff(offsets)) for offsets, _ in found]
    order = np.argsort(np.concatenate([np.zeros(0, np.int64), *rows]), kind="stable")
    codes = np.concatenate([np.zeros(0, np.int32), *(codes for _, codes in found)])
    offsets = np.zeros(count + 1, np.int64)
    for ends, _ in found:
        offsets += ends
    return Matches.of_runs(offsets, codes[order], bound)
