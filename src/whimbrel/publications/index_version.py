"""A version of an index: subscriptions are codes, small integers that are the same in every process.

A version does not change. Its shards are indexes that each hold a part of the subscriptions; the code of a subscription
is its row in its shard plus the rows of all shards before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.engine.loader import RowNumbers
from whimbrel.model.subscription import Id
from whimbrel.publications.changes import Codes, Matches
from whimbrel.publications.transition_rules import TransitionRules
from whimbrel.ranks.arrow import numbers

if TYPE_CHECKING:
    from whimbrel.engine.index import Index


@dataclass(frozen=True, slots=True)
class RuleCodes:
    """The subscriptions of `TransitionRules` as codes of one version."""

    leave: bool | Codes
    """Who is told of leaves: everyone, nobody, or these."""
    silent: Codes
    """The subscriptions whose matches alone are no transitions."""
    silent_ids: Mapping[int, Id]
    """Their ids, by code."""


class SubscriptionCodes(Protocol):
    """The role of subscriptions for publications: each has a code, and states are matched to codes."""

    @property
    def number(self) -> int:
        """The number of the version."""

    @property
    def id_type(self) -> pa.DataType:
        """The type of ids."""

    def __len__(self) -> int:
        """The number of codes: all codes are below it."""

    def rule_codes(self, rules: TransitionRules) -> RuleCodes:
        """Translate the subscriptions of rules into codes."""

    def ids(self, codes: NDArray[np.integer]) -> pa.Array:
        """Translate codes into ids."""

    def translated(self, old: SubscriptionCodes, codes: Codes) -> Codes:
        """Codes of an older version as codes of this one; `len(self)` for subscriptions that are gone."""

    def match(self, states: pa.Table) -> Matches:
        """Match every row of a table of attributes."""


class IndexVersion:
    """The shards of one version of an index. The shards must not change while the version is in use."""

    def __init__(self, number: int, shards: Sequence[Index], id_kind: str) -> None:
        """`number` grows from version to version, from 1 on; `id_kind` is int64 or string."""
        self.number = number
        self.id_type = pa.string() if id_kind == "string" else pa.int64()
        self._shards = shards
        self._rows = [RowNumbers(shard) for shard in shards]
        self._firsts = np.cumsum([0, *(len(rows) for rows in self._rows)])
        self._translations: dict[int, Codes] = {}
        self._rule_codes: tuple[TransitionRules, RuleCodes] | None = None

    def __len__(self) -> int:
        """The number of codes, those of removed subscriptions included."""
        return int(self._firsts[-1])

    def code_of(self, id: Id) -> int:
        """The code of an id; -1 if it is not in this version."""
        for rows, first in zip(self._rows, self._firsts.tolist(), strict=False):
            row = rows.find(id)
            if row >= 0:
                return int(first + row)
        return -1

    def rule_codes(self, rules: TransitionRules) -> RuleCodes:
        """The subscriptions of rules as codes; the result for the last rules is kept."""
        if self._rule_codes is None or (self._rule_codes[0] is not rules and self._rule_codes[0] != rules):
            silent = self._codes_of(rules.silent)
            leave = rules.leave if isinstance(rules.leave, bool) else self._codes_of(rules.leave)
            ids = dict(zip(silent.tolist(), self.ids(silent).to_pylist(), strict=True))
            self._rule_codes = rules, RuleCodes(leave, silent, ids)
        return self._rule_codes[1]

    def ids(self, codes: NDArray[np.integer]) -> pa.Array:
        if len(self._shards) == 1:
            return self._shard_ids(0, codes)
        homes = np.searchsorted(self._firsts, codes, side="right") - 1
        parts = [pa.nulls(0, self.id_type)]
        places = [np.zeros(0, np.int64)]
        for number in range(len(self._shards)):
            own = np.flatnonzero(homes == number)
            if len(own):
                places.append(own)
                parts.append(self._shard_ids(number, codes[own] - self._firsts[number]))
        return pa.concat_arrays(parts).take(numbers(np.argsort(np.concatenate(places))))

    def translated(self, old: SubscriptionCodes, codes: Codes) -> Codes:
        known = self._translations.setdefault(old.number, np.full(len(old), -1, np.int32))
        new = np.unique(codes[known[codes] < 0])
        if len(new):
            found = np.array([self.code_of(id) for id in old.ids(new).to_pylist()], np.int32)
            known[new] = np.where(found < 0, len(self), found)
        out: Codes = known[codes]
        return out

    def match(self, states: pa.Table) -> Matches:
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

    def _shard_ids(self, number: int, rows: NDArray[np.integer]) -> pa.Array:
        found = self._shards[number].ids(rows)
        return (numbers(found) if isinstance(found, np.ndarray) else found).cast(self.id_type)

    def _codes_of(self, ids: Iterable[Id]) -> Codes:
        """The codes of those ids that are in this version, ascending."""
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
