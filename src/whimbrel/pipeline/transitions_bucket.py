"""One bucket of publications: their current states, and who begins or ceases to match when they change.

Plain Arrow and NumPy, no Spark. What matches follows from the states and the index version, so states are all that is
kept; pairs are kept only for subscriptions with hysteresis or dwell (`transitions_sticky`). The matches of current
states are remembered while the process lives, as a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.pipeline.transitions_diff import Changes, Differ, Matches, Rows
from whimbrel.pipeline.transitions_keys import Keys, room
from whimbrel.pipeline.transitions_merge import blanked, merged, removed
from whimbrel.pipeline.transitions_news import DELETE, ENTER, LEAVE, News
from whimbrel.pipeline.transitions_sticky import Sticky

KEY, SEQUENCE, ALIVE, STATE = range(4)
"""The columns of states by number, as attributes may have any name; those of attributes begin with `STATE`."""
DELETED, TIME, UNSET, UPDATE = range(2, 6)
"""The columns of updates after key and sequence; those of attributes begin with `UPDATE`."""

MatchStates: TypeAlias = Callable[[int, pa.Table], Matches]
"""Gives the matches of states against a version of the index."""

_REWRITE = 1.0
"""The base is written anew when more states than this share of its own have been written since."""
_MOST_CHUNKS = 64
"""Pieces of the states in memory, one for each micro-batch, that are put together."""

_differ = Differ()


class Order(NamedTuple):
    """The updates that count, by publication and in their order."""

    rows: Rows
    numbers: Rows
    first: NDArray[np.bool_]
    """Whether the update is its publication's first one here."""
    previous: Rows
    """The state before it: a stored row, the place of an update here after all of them, or -1."""


class Bucket:
    """The publications of one bucket."""

    def __init__(
        self, attributes: pa.Schema, key: pa.DataType, sticky: Sticky, ordered: bool = True, partial: bool = False
    ) -> None:
        head = [pa.field("key", key), pa.field("sequence", pa.int64()), pa.field("alive", pa.bool_())]
        self.schema = pa.schema([*head, *attributes])
        self.sticky = sticky
        self.version = 0
        self._ordered = ordered
        self._partial = partial
        self._table = self.schema.empty_table()
        self._keys = Keys()
        self._rows = np.zeros(0, np.int64)
        """By the number of a key, the row of its state; -1 without one."""
        self._latest = np.zeros(0, np.int64)
        """By the number of a key, the newest sequence number."""
        self._known = Matches.unknown(0)
        self._changed: list[pa.Table] = []
        self._base_rows = 0

    def __len__(self) -> int:
        return int(np.count_nonzero(self._rows[: len(self._keys)] >= 0))

    def load(self, version: int, tables: Iterable[pa.Table]) -> None:
        """Take over a base and the changes after it."""
        for number, table in enumerate(tables):
            self.take_over(version, table)
            if number == 0:
                self._base_rows = len(table)
        self._changed = []

    def take_over(self, version: int, states: pa.Table) -> None:
        """States as another bucket had them, at a version of the index."""
        self.version = version
        states = states.cast(self.schema)
        self._append(states, self._numbers(states), Matches.unknown(len(states)), np.arange(len(states)))

    def dump(self) -> tuple[pa.Table | None, list[pa.Table]]:
        """A new base, if one is due, else the changes since the last dump."""
        changed, self._changed = self._changed, []
        if len(self._table) - self._base_rows <= self._base_rows * _REWRITE and self._base_rows:
            return None, changed
        self._compact()
        self._base_rows = len(self._table)
        return self._table, []

    def change_version(self, version: int, match: MatchStates, exists: Callable[[int], bool], news: News) -> None:
        """Go to another version of the index: who matches now and did not is told; who is no longer there is not."""
        if version <= self.version:
            return
        self._compact()
        count = len(self._table)
        if self.version and count:
            everyone = np.arange(count)
            alive = _flags(self._table[ALIVE])
            self._learn(everyone, match)
            new = match(version, self._states(self._table)).without(~alive)
            keys, sequences = _one(self._table[KEY]), pa.nulls(count, pa.int64())
            self._tell(keys, sequences, self._changes(new, everyone), np.zeros(count, np.bool_), news, exists)
            if self.sticky:
                for row in np.flatnonzero(alive).tolist():
                    self.sticky.seen(keys[row].as_py(), set(new.of(row).tolist()), self.sticky.now, None, news)
            self._known = new
        self.version = version

    def apply(self, updates: pa.Table, match: MatchStates, now: float, news: News) -> None:
        """Take updates in: those that are late are left out, the others are taken in the order of their sequence."""
        if self.version == 0:
            raise AssertionError("a bucket hears of an index version before it hears of publications")
        order = self._order(updates)
        if not len(order.rows):
            return
        rows = updates.take(pa.array(order.rows)).combine_chunks()
        deleted = _flags(rows[DELETED])
        states = self._merge(rows, order, deleted)
        stored = len(self._table)
        self._learn(order.previous[(order.previous >= 0) & (order.previous < stored)], match)
        after = match(self.version, self._states(states)).without(deleted)
        changes = self._changes(after, order.previous)
        self._tell(_one(rows[KEY]), _one(rows[SEQUENCE]), changes, deleted, news, None)
        if self.sticky:
            self._see(rows, deleted, after, now, news)
        last = np.flatnonzero(np.append(order.first[1:], True))
        self._append(states.take(pa.array(last)), order.numbers[last], after, last)

    def _order(self, updates: pa.Table) -> Order:
        numbers = self._numbers(updates)
        if self._ordered:
            sequence = _one(updates[SEQUENCE]).to_numpy()
            rows = np.lexsort((sequence, numbers))
            numbers, sequence = numbers[rows], sequence[rows]
            counts = (self._rows[numbers] < 0) | (sequence > self._latest[numbers])
            counts[1:] &= (numbers[1:] != numbers[:-1]) | (sequence[1:] != sequence[:-1])
            rows, numbers = rows[counts], numbers[counts]
        else:
            rows = np.argsort(numbers, kind="stable")
            numbers = numbers[rows]
        first = np.ones(len(rows), np.bool_)
        first[1:] = numbers[1:] != numbers[:-1]
        previous = np.where(first, self._rows[numbers], len(self._table) - 1 + np.arange(len(rows)))
        return Order(rows, numbers, first, previous)

    def _numbers(self, table: pa.Table) -> Rows:
        """The numbers of the keys, with room for what is known of them."""
        numbers = self._keys.numbers(_one(table[KEY]))
        self._rows = room(self._rows, len(self._keys), -1)
        self._latest = room(self._latest, len(self._keys))
        return numbers

    def _merge(self, rows: pa.Table, order: Order, deleted: NDArray[np.bool_]) -> pa.Table:
        """The states after updates."""
        columns = [_one(rows[KEY]), _one(rows[SEQUENCE]), pa.array(~deleted)]
        unset = _one(rows[UNSET])
        for number, attribute in enumerate(self.schema.names[STATE:]):
            own = _one(rows[UPDATE + number])
            if self._partial:
                blank = deleted if unset.null_count == len(unset) else deleted | removed(unset, attribute)
                columns.append(merged(self._table[STATE + number], own, blank, order.first, order.previous))
            else:
                columns.append(blanked(own, deleted))
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _changes(self, new: Matches, previous: Rows) -> Changes:
        return _differ.changes(self._known, new, previous)

    def _tell(
        self,
        keys: pa.Array,
        sequences: pa.Array,
        changes: Changes,
        deleted: NDArray[np.bool_],
        news: News,
        exists: Callable[[int], bool] | None,
    ) -> None:
        """Tell of the differences, but for subscriptions whose pairs are kept or that are hidden."""
        rows, codes, left = changes
        kinds = np.where(left, np.where(deleted[rows], DELETE, LEAVE), ENTER).astype(np.int8)
        told = kinds != LEAVE
        leaves = np.flatnonzero(~told)
        told[leaves] = self.sticky.tells_leaves(codes[leaves])
        if len(self.sticky.codes):
            told &= ~np.isin(codes, self.sticky.codes)
        if exists is not None:
            gone = [code for code in np.unique(codes[told & left]).tolist() if not exists(code)]
            told &= ~(left & np.isin(codes, gone))
        places = pa.array(rows[told])
        news.extend(keys.take(places), codes[told], kinds[told], sequences.take(places))

    def _see(self, rows: pa.Table, deleted: NDArray[np.bool_], after: Matches, now: float, news: News) -> None:
        """Let the pairs that are kept follow."""
        keys, sequences = rows[KEY].to_pylist(), rows[SEQUENCE].to_pylist()
        times = [now if time is None else time for time in rows[TIME].to_pylist()]
        for row, key in enumerate(keys):
            if deleted[row]:
                self.sticky.gone(key, sequences[row], news)
            else:
                self.sticky.seen(key, set(after.of(row).tolist()), times[row], sequences[row], news)

    def _learn(self, rows: Rows, match: MatchStates) -> None:
        """Have the matches of these stored states known."""
        missing = np.unique(rows[self._known.lengths[rows] < 0])
        if len(missing):
            states = self._table.take(pa.array(missing))
            found = match(self.version, self._states(states)).without(~_flags(states[ALIVE]))
            self._known.learn(missing, found)

    def _states(self, table: pa.Table) -> pa.Table:
        """The attributes alone; a column that says nothing gives a table without attributes its rows."""
        return table.select(range(STATE, len(self.schema))).append_column("", pa.nulls(len(table)))

    def _append(self, states: pa.Table, numbers: Rows, matches: Matches, chosen: Rows) -> None:
        """States of keys with these numbers, whose matches are some chosen ones of `matches`."""
        places = len(self._table) + np.arange(len(states))
        if not self._ordered:
            places[~_flags(states[ALIVE])] = -1
        self._rows[numbers] = places
        self._note(states, numbers)
        self._table = pa.concat_tables([self._table, states])
        if self._table[KEY].num_chunks > _MOST_CHUNKS:
            self._table = self._table.combine_chunks()
        self._known.append(matches, chosen)
        self._changed.append(states)

    def _compact(self) -> None:
        """Leave out the states that are no longer current."""
        rows = self._rows[: len(self._keys)]
        current = np.sort(rows[rows >= 0])
        if len(current) < len(self._table):
            places = np.full(len(self._table) + 1, -1)  # the last for those without a row
            places[current] = np.arange(len(current))
            rows[:] = places[rows]
            self._table = self._table.take(pa.array(current))
            self._known = self._known.take(current)
        self._table = self._table.combine_chunks()
        if 2 * len(current) < len(rows):  # most of the keys are gone
            self._keys, self._rows, self._latest = Keys(), self._rows[:0], self._latest[:0]
            numbers = self._numbers(self._table)
            self._rows[numbers] = np.arange(len(current))
            self._note(self._table, numbers)

    def _note(self, states: pa.Table, numbers: Rows) -> None:
        """Remember the sequence numbers of states."""
        if self._ordered:
            self._latest[numbers] = _one(states[SEQUENCE]).fill_null(np.iinfo(np.int64).min).to_numpy()


def _one(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _flags(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = _one(column).to_numpy(zero_copy_only=False)
    return flags
