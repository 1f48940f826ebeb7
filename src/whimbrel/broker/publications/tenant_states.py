"""The publications of one tenant, and the subscriptions on them: states, filters, transitions.

The states and the differences between what they match are those of `whimbrel.publications`. A subscription has the
number of its first version as its id there, so that it stays the same when it gets another filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.broker.sequencing.publishing import LiveIndex
from whimbrel.broker.sequencing.request_group import FirstTold
from whimbrel.engine.index import Index
from whimbrel.log.matched_numbers import MatchedNumbers, rows_of_pairs
from whimbrel.model.filter import Filter
from whimbrel.model.token_rules import Rules
from whimbrel.publications import Publications, TransitionRules, Update, UpdateFormat
from whimbrel.publications.arrow_columns import as_array, column_of
from whimbrel.publications.changes import Matches
from whimbrel.publications.changing_subscriptions import ChangingSubscriptions
from whimbrel.publications.dwell import DwellPairs
from whimbrel.publications.updates import FIRST_OF_STATE, KEY, SEQUENCE
from whimbrel.ranks.arrow import values_of

Rows = NDArray[np.int64]

_FORMAT = UpdateFormat(pa.string(), pa.schema([("state", pa.binary())]), ordered=False)
_NEW, _OUTER, _OLD = range(3)


@dataclass(frozen=True)
class StateFilter:
    """A version of a subscription on publications: what it matches, and what it is told."""

    number: int
    first: int
    filter: Filter
    rules: Rules
    leave: bool = False
    outer: Filter | None = None
    dwell: float = 0.0

    @property
    def remembered(self) -> bool:
        """Whether its pairs are remembered."""
        return self.outer is not None or self.dwell > 0


class Transition(NamedTuple):
    """Version `number` of a subscription is told of the entry at `offset`; `hidden` if rules may hide the state."""

    offset: int
    number: int
    kind: str
    hidden: bool


class HeldState(NamedTuple):
    """The current state of a publication, and the entry that gave it."""

    offset: int
    state: bytes


class TenantStates:
    """The publications of one tenant and the subscriptions on them. Only the sequencer uses it."""

    def __init__(self, timestamps: Iterable[str]) -> None:
        self._timestamps = frozenset(timestamps)
        self.live = LiveIndex(Index(self._timestamps), {})
        self.filters: dict[int, StateFilter] = {}
        """The versions that are valid now, by the numbers of their first ones."""
        self.bytes = 0
        """Bytes of all states."""
        self._codes = ChangingSubscriptions(self._found)
        self._outer: dict[int | str, int | str] = {}
        self._dwell: dict[int | str, float] = {}
        self._told: set[int | str] = set()
        self._former: dict[int, dict[int | str, float | None]] = {}
        """By first number, the pairs that the version before an admitted one had, until that is evaluated."""
        rules = TransitionRules(self._told, self._outer, self._dwell)
        self._publications = Publications(_FORMAT, rules, lambda _: self._codes)
        self._publications.change_version(1)
        self._publications.remembered.pairs.changed = set()

    def __len__(self) -> int:
        return len(self._publications)

    @property
    def next_due(self) -> float | None:
        """When the next publication leaves because its dwell is over."""
        return self._publications.next_due

    def load(
        self,
        states: Sequence[tuple[str, int, bytes]],
        filters: Sequence[StateFilter],
        pairs: Iterable[tuple[int, str, float | None]],
    ) -> None:
        """Take over (key, offset, state) of publications, subscriptions, and remembered pairs."""
        keys, offsets, texts = zip(*states, strict=True) if states else ((), (), ())
        rows = keys, offsets, [True] * len(keys), texts
        columns = [column_of(values, field.type) for values, field in zip(rows, _FORMAT.states, strict=True)]
        table = pa.Table.from_arrays(columns, schema=_FORMAT.states)
        self._publications.take_over(1, table)
        self.bytes = sum(map(len, texts))
        narrow = [(2 * each.first, each.filter) for each in filters]
        wide = [(2 * each.first + 1, each.outer) for each in filters if each.outer is not None]
        self.live.index.add_many([*narrow, *wide])
        for each in filters:
            self._note(each)
        self._pairs.restore((2 * first, key, due) for first, key, due in pairs)
        self.changed_pairs()

    def admit(self, new: StateFilter) -> None:
        """Add a version of a subscription; raise if its filter cannot be used."""
        if 2 * new.first in self._pairs:
            self._former[new.first] = dict(self._pairs.inside(2 * new.first))
        self.end(new.first)
        self.live.add(2 * new.first, new.filter, "sql", new.rules)
        if new.outer is not None:
            self.live.add(2 * new.first + 1, new.outer, "sql", new.rules)
        self._note(new)

    def end(self, first: int) -> None:
        """Remove the present version of a subscription."""
        if self.filters.pop(first, None) is not None:
            for id in (2 * first, 2 * first + 1):
                self.live.remove(id)
            if 2 * first in self._pairs:
                self._publications.remembered.remove(2 * first)
            self._codes.remove(first)
            self._outer.pop(2 * first, None)
            self._dwell.pop(2 * first, None)
            self._told.discard(2 * first)

    def find(self, keys: Sequence[str]) -> list[HeldState | None]:
        """The current states of publications by key; None for a key without one."""
        found = self._publications.find(column_of(keys, pa.string()))
        return [None if one is None else HeldState(one["sequence"], one["state"]) for one in found]  # type: ignore[arg-type]

    def match(self, states: list[bytes]) -> MatchedNumbers:
        """Match states. A state that cannot be read is refused alone."""
        return self.live.match(states)

    def apply(
        self, updates: Sequence[tuple[str, int, bytes | None]], matched: MatchedNumbers, now: float
    ) -> list[Transition]:
        """Take (key, offset, new state) of publications, each at most once; None for one that is deleted.

        `matched` has a list for each of them, empty for those that are deleted.
        """
        table = _FORMAT.table(
            Update(key, {} if state is None else {"state": state}, offset, deleted=state is None)
            for key, offset, state in updates
        )
        matches = Matches.of_runs(matched.offsets, self._codes.codes(matched.numbers), len(self._codes))
        return list(self._told_of(self._publications.apply(table, now, matches)))

    def expire(self, now: float) -> list[tuple[int, str]]:
        """Make the publications leave whose dwell is over.

        Return (first number, key) of all pairs, told of leaves or not.
        """
        found = [(int(id) // 2, str(key)) for id, key in self._pairs.expire(now)]
        self.changed_pairs()
        return found

    def changed_pairs(self) -> dict[str, list[tuple[int, float | None, bool]]]:
        """The remembered pairs that changed since the last call, by key: first number, when it leaves, is it inside."""
        changed = self._pairs.changed
        assert changed is not None
        found: dict[str, list[tuple[int, float | None, bool]]] = {}
        for id, key in changed:
            inside = self._pairs.inside(id) if id in self._pairs else {}
            found.setdefault(str(key), []).append((int(id) // 2, inside.get(key), key in inside))
        changed.clear()
        return found

    def matching(self, filter: Filter, rules: Rules) -> list[int]:
        """The offsets of the entries that gave the states which a filter matches, ascending."""
        table = self._publications.current()
        trial = LiveIndex(Index(self._timestamps), {})
        trial.add(0, filter, "sql", rules)
        rows = rows_of_pairs(trial.match(table[FIRST_OF_STATE].to_pylist()))
        found: list[int] = np.sort(_offsets_of(table)[rows]).tolist()
        return found

    def evaluate(self, news: Sequence[tuple[StateFilter, StateFilter | None]], now: float) -> list[FirstTold]:
        """Match all publications with new versions, which were admitted, and with the versions before them."""
        table = self._publications.current()
        keys, offsets = table[KEY].to_pylist(), _offsets_of(table)
        states: list[bytes] = table[FIRST_OF_STATE].to_pylist()
        trial = LiveIndex(Index(self._timestamps), {})
        tried: list[tuple[int, Filter]] = []
        for place, (new, old) in enumerate(news):
            wanted = (
                (_NEW, new.filter, new),
                (_OUTER, new.outer, new),
                (_OLD, None if old is None else old.filter, old or new),
            )
            for part, filter, version in wanted:
                if filter is not None:
                    tried.append((3 * place + part, filter))
                    trial.constrain(3 * place + part, version.rules)
        trial.index.add_many(tried)
        matched = trial.match(states)
        rows = rows_of_pairs(matched)
        self._publications.forget_matches(np.unique(rows))
        order = np.argsort(matched.numbers, kind="stable")
        ends = np.searchsorted(matched.numbers[order], np.arange(3 * len(news) + 1))
        hits = [rows[order[ends[at] : ends[at + 1]]] for at in range(3 * len(news))]
        found = []
        for place, (new, old) in enumerate(news):
            inner, outer, before = hits[3 * place : 3 * place + 3]
            found.append(self._evaluated(new, old, (inner, outer, before), keys, offsets, now))
        self.changed_pairs()
        return found

    def _evaluated(
        self, new: StateFilter, old: StateFilter | None, hits: tuple[Rows, Rows, Rows], keys: list[str], offsets: Rows,
        now: float,
    ) -> FirstTold:  # fmt: skip
        """Compare the rows that a new version and its outer filter match with those that the old version matched."""
        inner, outer, before = hits
        if old is not None and old.remembered:
            held = self._former.pop(new.first, {})
            before = np.flatnonzero([key in held for key in keys]) if held else before[:0]
        else:
            held = {keys[row]: None for row in before.tolist()} if new.remembered else {}
        entered, left = np.setdiff1d(inner, before), np.setdiff1d(before, inner)
        inside: list[tuple[str, float | None]] = []
        if new.remembered:
            id = 2 * new.first
            self._pairs.restore((id, key, due if new.dwell else None) for key, due in held.items())
            for row in inner.tolist():
                self._pairs.enter(id, keys[row])
            for row in np.setdiff1d(outer, inner).tolist():
                self._pairs.stay(id, keys[row])
            out = np.setdiff1d(left, outer).tolist()
            left = np.array([row for row in out if self._pairs.exit(id, keys[row], now)], np.int64)
            inside = list(self._pairs.inside(id).items())  # type: ignore[arg-type]
        told_left = np.sort(offsets[left]).tolist() if new.leave else []
        return FirstTold(np.sort(offsets[entered]).tolist(), told_left, inside)

    @property
    def _pairs(self) -> DwellPairs[int | str, int | str]:
        return self._publications.remembered.pairs

    def _note(self, new: StateFilter) -> None:
        """Note the options of a version whose filter is in the index."""
        id = 2 * new.first
        self.filters[new.first] = new
        for narrow in (id, id + 1):
            if new.rules:
                self.live.constrain(narrow, new.rules)
        if new.leave:
            self._told.add(id)
        if new.outer is not None:
            self._outer[id] = id + 1
        if new.dwell > 0:
            self._dwell[id] = new.dwell
        self._codes.add(new.first, new.leave, new.remembered)
        if new.remembered:
            self._publications.remembered.add(id)

    def _found(self, states: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        matched = self.live.match(states[0].to_pylist())
        return matched.offsets, matched.numbers

    def _told_of(self, table: pa.Table) -> Iterator[Transition]:
        """The transitions of subscriptions that are valid now."""
        ids, kinds, offsets = (table[name].to_pylist() for name in ("subscription", "kind", "sequence"))
        for id, kind, offset in zip(ids, kinds, offsets, strict=True):
            valid = self.filters.get(id >> 1) if not id & 1 else None
            if valid is not None:
                yield Transition(offset, valid.number, kind, bool(valid.rules) and kind == "leave")


def _offsets_of(states: pa.Table) -> Rows:
    """The offsets of the entries that gave the states."""
    return values_of(as_array(states[SEQUENCE]))
