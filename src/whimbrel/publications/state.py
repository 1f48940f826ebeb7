"""One bucket of publications: their current states, and who begins or ceases to match when they change.

Plain Arrow and NumPy, no Spark. What matches follows from the states and the index version, so states are all that is
kept; pairs are kept only for subscriptions with hysteresis or dwell (`transitions_sticky`). The matches of current
states are remembered while the process lives, as a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.publications.diff import Changes, Differ, Matches, Rows
from whimbrel.publications.index_version import Version
from whimbrel.publications.keys import Keys, room
from whimbrel.publications.notifications import DELETE, ENTER, LEAVE, News
from whimbrel.publications.rules import Rules, Sticky
from whimbrel.publications.updates import blanked, merged, removed

KEY, SEQUENCE, ALIVE, STATE = range(4)
"""The columns of states by number, as attributes may have any name; those of attributes begin with `STATE`."""
DELETED, TIME, UNSET, UPDATE = range(2, 6)
"""The columns of updates after key and sequence; those of attributes begin with `UPDATE`."""

_REWRITE = 1.0
"""The base is written anew when more states than this share of its own have been written since."""
_MOST_DELTAS = 100
"""And when there are more deltas than this."""
_MOST_CHUNKS = 64
"""Pieces of the states in memory, one for each micro-batch, that are put together."""

_differ = Differ()


class Written(NamedTuple):
    """What is to be stored: states with their matches, all of them or those that have come since."""

    states: pa.Table
    matches: Matches
    is_base: bool


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
        self,
        attributes: pa.Schema,
        key: pa.DataType,
        rules: Rules,
        open_version: Callable[[int], Version],
        ordered: bool = True,
        partial: bool = False,
    ) -> None:
        head = [pa.field("key", key), pa.field("sequence", pa.int64()), pa.field("alive", pa.bool_())]
        self.schema = pa.schema([*head, *attributes])
        self.sticky = Sticky(rules)
        self.version = 0
        self._open_version = open_version
        self._ordered = ordered
        self._partial = partial
        self._table = self.schema.empty_table()
        self._keys = Keys()
        self._rows = np.zeros(0, np.int64)
        """By the number of a key, the row of its state; -1 without one."""
        self._latest = np.zeros(0, np.int64)
        """By the number of a key, the newest sequence number."""
        self._known = Matches.unknown(0)
        self._base_rows = 0
        self._written = 0
        """Rows that are stored, those of the base among them."""
        self._deltas = 0
        self._fresh = True
        """Whether the base, if there is one, is of this version."""

    def __len__(self) -> int:
        return int(np.count_nonzero(self._rows[: len(self._keys)] >= 0))

    def load(self, version: int, parts: Iterable[tuple[pa.Table, Matches | None]]) -> None:
        """Take over what is stored: a base and deltas, or the deltas that are new, with what is known of them."""
        for states, matches in parts:
            self.take_over(version, states, matches)
            if self._base_rows:
                self._deltas += 1
            else:
                self._base_rows = len(states)
            self._written = len(self._table)

    def take_over(self, version: int, states: pa.Table, matches: Matches | None = None) -> None:
        """States as another bucket had them, at a version of the index."""
        self.version = version
        states = states.cast(self.schema)
        known = Matches.unknown(len(states)) if matches is None else matches
        self._append(states, self._numbers(states), known, np.arange(len(states)))

    def dump(self) -> Written | None:
        """What must be stored since the last dump: a new base, if one is due, else the states that are new."""
        new = len(self._table) - self._written
        if not new and self._fresh:
            return None
        is_long = len(self._table) - self._base_rows > self._base_rows * _REWRITE or self._deltas >= _MOST_DELTAS
        if is_long or not self._fresh:
            self._compact()
            self._base_rows = self._written = len(self._table)
            self._deltas, self._fresh = 0, True
            return Written(self._table, self._known.take(np.arange(len(self._table))), True)
        rows = np.arange(self._written, len(self._table))
        self._written = len(self._table)
        self._deltas += 1
        return Written(self._table.slice(rows[0]), self._known.take(rows), False)

    def change_version(self, number: int, news: News) -> None:
        """Go to another version of the index: who matches now and did not is told; who is no longer there is not."""
        if number <= self.version:
            return
        if self.version:
            self._compact()
            self._match_again(self._open_version(self.version), self._open_version(number), news)
            self._fresh = False
        self.version = number

    def _match_again(self, old: Version, new: Version, news: News) -> None:
        count = len(self._table)
        everyone = np.arange(count)
        alive = _flags(self._table[ALIVE])
        self._learn(everyone)
        before = self._known.take(everyone)
        before.codes, before.bound = new.translated(old, before.codes), len(new) + 1
        self._known = new.match(self._states(self._table)).without(~alive)
        keys, sequences = _one(self._table[KEY]), pa.nulls(count, pa.int64())
        changes = _differ.changes(before, self._known, everyone)
        self._tell(new, keys, sequences, changes, np.zeros(count, np.bool_), news)
        if self.sticky:
            for row in np.flatnonzero(alive).tolist():
                matched = self._named(new, self._known, row)
                self.sticky.seen(keys[row].as_py(), matched, self.sticky.now, None, news)

    def apply(self, updates: pa.Table, now: float, news: News) -> None:
        """Take updates in: those that are late are left out, the others are taken in the order of their sequence."""
        if self.version == 0:
            raise AssertionError("a bucket hears of an index version before it hears of publications")
        order = self._order(updates)
        if not len(order.rows):
            return
        version = self._open_version(self.version)
        rows = updates.take(pa.array(order.rows)).combine_chunks()
        deleted = _flags(rows[DELETED])
        states = self._merge(rows, order, deleted)
        self._learn(order.previous[(order.previous >= 0) & (order.previous < len(self._table))])
        after = version.match(self._states(states)).without(deleted)
        changes = _differ.changes(self._known, after, order.previous)
        self._tell(version, _one(rows[KEY]), _one(rows[SEQUENCE]), changes, deleted, news)
        if self.sticky:
            self._see(version, rows, deleted, after, now, news)
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

    def _tell(
        self,
        version: Version,
        keys: pa.Array,
        sequences: pa.Array,
        changes: Changes,
        deleted: NDArray[np.bool_],
        news: News,
    ) -> None:
        """Tell of the differences, but for subscriptions whose pairs are kept, that are hidden, or that are gone."""
        rows, codes, left = changes
        kinds = np.where(left, np.where(deleted[rows], DELETE, LEAVE), ENTER).astype(np.int8)
        if isinstance(version.leave, bool):
            told = (kinds != LEAVE) | version.leave
        else:
            told = (kinds != LEAVE) | np.isin(codes, version.leave)
        told &= codes < len(version)
        if len(version.quiet):
            told &= ~np.isin(codes, version.quiet)
        places = pa.array(rows[told])
        news.extend(keys.take(places), version.ids(codes[told]), kinds[told], sequences.take(places))

    def _see(
        self, version: Version, rows: pa.Table, deleted: NDArray[np.bool_], after: Matches, now: float, news: News
    ) -> None:
        """Let the pairs that are kept follow."""
        keys, sequences = rows[KEY].to_pylist(), rows[SEQUENCE].to_pylist()
        times = [now if time is None else time for time in rows[TIME].to_pylist()]
        for row, key in enumerate(keys):
            if deleted[row]:
                self.sticky.gone(key, sequences[row], news)
            else:
                self.sticky.seen(key, self._named(version, after, row), times[row], sequences[row], news)

    def _named(self, version: Version, matches: Matches, row: int) -> set[Any]:
        """The ids of the subscriptions that a state matches, of those whose pairs are kept and their wider ones."""
        return {version.named[code] for code in matches.of(row).tolist() if code in version.named}

    def _learn(self, rows: Rows) -> None:
        """Have the matches of these stored states known."""
        missing = np.unique(rows[self._known.lengths[rows] < 0])
        if len(missing):
            states = self._table.take(pa.array(missing))
            found = self._open_version(self.version).match(self._states(states))
            self._known.learn(missing, found.without(~_flags(states[ALIVE])))

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
