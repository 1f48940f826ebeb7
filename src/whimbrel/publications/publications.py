"""The current states of publications, and the transitions when states or subscriptions change.

The state of a publication and the version of the index determine what it matches. So only states are saved, and pairs
of subscriptions with hysteresis or dwell (`transition_rules.py`). The matches of current states are cached in memory.

One thread makes all changes. An update costs a match of the new state (the states of a call are matched together) and
some 100 ns for the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whimbrel.model.subscription import Id
from whimbrel.publications.arrow_columns import Flags, Rows, as_array, flags_of, row_numbers
from whimbrel.publications.changes import Changes, Differ, Matches
from whimbrel.publications.index_version import SubscriptionCodes
from whimbrel.publications.keys import KeyNumbers, with_capacity
from whimbrel.publications.transition_rules import RememberedPairs, TransitionRules
from whimbrel.publications.transition_table import DELETE, ENTER, LEAVE, Transitions
from whimbrel.publications.updates import (
    ALIVE,
    DELETED,
    FIRST_OF_STATE,
    FIRST_OF_UPDATE,
    KEY,
    SEQUENCE,
    TIME,
    UNSET,
    OrderedUpdates,
    UpdateFormat,
    blanked,
    merged,
    order_updates,
    removed,
)
from whimbrel.ranks.arrow import values_of

_REWRITE = 1.0
"""`save` returns all states again when the deltas hold more than this share of the states in the base."""
_MOST_DELTAS = 100
"""`save` returns all states again after this many deltas."""
_MOST_REPLACED = 10_000
"""The table of states is compacted when more states than this, and than there are current ones, were replaced."""
_MOST_CHUNKS = 64
"""The table of states may have this many chunks, one for each call of `apply`; then they are joined."""

_differ = Differ()


class SavedPart(NamedTuple):
    """States to store, with their matches: all states (`is_base`), or those that changed since the last part."""

    states: pa.Table
    matches: Matches
    is_base: bool


class Publications:
    """Publications with their current states. See the package for an example."""

    def __init__(
        self, format: UpdateFormat, rules: TransitionRules, open_version: Callable[[int], SubscriptionCodes]
    ) -> None:
        """`open_version` returns the version with a number; it is called often and should cache versions."""
        self.format = format
        self.rules = rules
        self.version = 0
        """The number of the index version that transitions refer to; 0 before the first."""
        self.remembered = RememberedPairs(rules)
        self._open_version = open_version
        self._schema = format.states
        self._table = pa.Table.from_batches([], self._schema)
        """States, oldest first; those that were replaced are left out when the table is compacted."""
        self._keys = KeyNumbers()
        self._rows = np.zeros(0, np.int64)
        """By the number of a key, the row of its state; -1 without one."""
        self._latest = np.zeros(0, np.int64)
        """By the number of a key, the newest sequence number."""
        self._matches = Matches.unknown(0)
        """The matches of the states, by row of the table."""
        self._base_rows = 0
        self._saved_rows = 0
        """Rows that `save` has given, those of the base among them."""
        self._deltas = 0
        self._is_base_current = True
        """Whether the base that was saved, if any, is of this version, and its rows are still the first ones."""

    def __len__(self) -> int:
        return int(np.count_nonzero(self._rows[: len(self._keys)] >= 0))

    def change_version(self, number: int, now: float = 0.0) -> pa.Table:
        """Go to a newer version of the index, match all publications again, and return the transitions.

        New subscriptions, and those with another filter, get the publications that they match now. Subscriptions that
        are gone get nothing. A version that is not newer changes nothing. Dwell begins `now`, in seconds, or at the
        latest time that was seen.
        """
        found = self._transitions(max(number, self.version))
        if number > self.version:
            if self.version:
                self._compact()
                self._match_again(self._open_version(self.version), self._open_version(number), now, found)
                self._is_base_current = False
            self.version = number
        return found.table()

    def apply(self, updates: pa.Table, now: float = 0.0, matches: Matches | None = None) -> pa.Table:
        """Take a table of updates in (`UpdateFormat.table`) and return the transitions.

        Updates of a publication count in the order of their sequence numbers; late ones are left out. `now`, in
        seconds, is the time of updates without one, for dwell. `matches` are those of the updates, which then must be
        whole states, if the caller has matched them already.
        """
        if self.version == 0:
            raise AssertionError("publications need a version of the index before updates")
        if self.format.ordered and updates[SEQUENCE].null_count:
            raise ValueError("Expected a sequence number for each update, but got null")
        found = self._transitions(self.version)
        numbers = self._numbers(updates)
        sequences = values_of(as_array(updates[SEQUENCE])) if self.format.ordered else None
        order = order_updates(numbers, sequences, self._rows, self._latest, len(self._table))
        if not len(order.rows):
            return found.table()
        version = self._open_version(self.version)
        rows = updates.take(row_numbers(order.rows)).combine_chunks()
        deleted = flags_of(rows[DELETED])
        states = self._merge(rows, order, deleted)
        self._match_missing(order.previous[(order.previous >= 0) & (order.previous < len(self._table))])
        found_matches = version.match(self._attributes(states)) if matches is None else matches.take(order.rows)
        after = found_matches.without(deleted)
        changes = _differ.changes(self._matches, after, order.previous)
        self._add_transitions(version, as_array(rows[KEY]), as_array(rows[SEQUENCE]), changes, deleted, found)
        if self.remembered:
            self._update_remembered(version, rows, deleted, after, now, found)
        last = np.flatnonzero(np.append(order.first[1:], True))
        self._append(states.take(row_numbers(last)), order.numbers[last], after, last)
        if len(self._table) > _MOST_REPLACED + 2 * len(self):
            self._compact()
        return found.table()

    def advance(self, now: float) -> pa.Table:
        """Make the publications leave whose dwell is over, and return the transitions."""
        found = self._transitions(self.version)
        self.remembered.advance(now, found)
        return found.table()

    def current(self) -> pa.Table:
        """The current states: columns key, sequence, alive and the attributes."""
        self._compact()
        return self._table

    def find(self, keys: pa.Array) -> list[dict[str, object] | None]:
        """The current states of some keys; None for a key without one."""
        numbers = self._keys.find(keys)
        rows = np.where(numbers < 0, -1, self._rows[numbers]) if len(self._rows) else numbers
        held = np.flatnonzero(rows >= 0)
        found: list[dict[str, object] | None] = [None] * len(keys)
        for place, state in zip(held.tolist(), self._table.take(row_numbers(rows[held])).to_pylist(), strict=True):
            found[place] = state
        return found

    def forget_matches(self, rows: Rows) -> None:
        """Forget what these rows of `current` match: subscriptions changed. They are matched again when needed."""
        self._matches.lengths[rows] = -1

    @property
    def next_due(self) -> float | None:
        """When `advance` has something to do next; None if nothing is due."""
        return self.remembered.pairs.next_due

    def save(self) -> SavedPart | None:
        """Return the states that changed since the last call, or all states if that is due; None if nothing changed.

        The caller must store these states and the pairs of `remembered`. Stored matches save time on loading.
        """
        new = len(self._table) - self._saved_rows
        if not new and self._is_base_current:
            return None
        is_long = len(self._table) - self._base_rows > self._base_rows * _REWRITE or self._deltas >= _MOST_DELTAS
        if is_long or not self._is_base_current:
            self._compact()
            self._base_rows = self._saved_rows = len(self._table)
            self._deltas, self._is_base_current = 0, True
            return SavedPart(self._table, self._matches.take(np.arange(len(self._table))), True)
        rows = np.arange(self._saved_rows, len(self._table))
        self._saved_rows = len(self._table)
        self._deltas += 1
        return SavedPart(self._table.slice(rows[0]), self._matches.take(rows), False)

    def load(self, version: int, parts: Iterable[tuple[pa.Table, Matches | None]]) -> None:
        """Add saved parts, in order: all of them, or those that were saved after the last part loaded here."""
        self.version = version
        for states, matches in parts:
            self.take_over(version, states, matches)
            if self._base_rows:
                self._deltas += 1
            else:
                self._base_rows = len(states)
            self._saved_rows = len(self._table)

    def take_over(self, version: int, states: pa.Table, matches: Matches | None = None) -> None:
        """Add states that other publications had at a version of the index, as if they were saved already."""
        self.version = version
        states = states.cast(self._schema)
        known = Matches.unknown(len(states)) if matches is None else matches
        self._append(states, self._numbers(states), known, np.arange(len(states)))

    def to_bytes(self) -> bytes:
        """The whole state: the version, all current states and the remembered pairs."""
        now = self.remembered.now
        pairs = list(self.remembered.pairs)
        states = table_to_bytes(self._table.take(row_numbers(self._current())))
        return msgspec.msgpack.encode([self.version, states, pairs, now if np.isfinite(now) else None])

    def load_bytes(self, content: bytes) -> None:
        """Take over what `to_bytes` gave; the version must still be there."""
        version, states, pairs, now = msgspec.msgpack.decode(content)
        self.load(version, [(table_from_bytes(states), None)])
        self.remembered.reset(map(tuple, pairs), -float("inf") if now is None else now)

    def _transitions(self, version: int) -> Transitions:
        kind = self._open_version(version).id_type if version else pa.int64()
        return Transitions(self.format.key, kind)

    def _match_again(self, old: SubscriptionCodes, new: SubscriptionCodes, now: float, found: Transitions) -> None:
        count = len(self._table)
        everyone = np.arange(count)
        alive = flags_of(self._table[ALIVE])
        self._match_missing(everyone)
        before = self._matches.take(everyone)
        before.codes, before.bound = new.translated(old, before.codes), len(new) + 1
        self._matches = new.match(self._attributes(self._table)).without(~alive)
        keys, sequences = as_array(self._table[KEY]), pa.nulls(count, pa.int64())
        changes = _differ.changes(before, self._matches, everyone)
        self._add_transitions(new, keys, sequences, changes, np.zeros(count, np.bool_), found)
        if self.remembered:
            self.remembered.keep(new.rule_codes(self.rules).silent_ids.values())
            for row in np.flatnonzero(alive).tolist():
                matched = self._silent_matches(new, self._matches, row)
                self.remembered.update(keys[row].as_py(), matched, max(now, self.remembered.now), None, found)

    def _numbers(self, table: pa.Table) -> Rows:
        """The numbers of the keys; the arrays by number get the capacity for them."""
        numbers = self._keys.numbers(as_array(table[KEY]))
        self._rows = with_capacity(self._rows, len(self._keys), -1)
        self._latest = with_capacity(self._latest, len(self._keys))
        return numbers

    def _merge(self, rows: pa.Table, order: OrderedUpdates, deleted: Flags) -> pa.Table:
        """The states of publications after these updates."""
        columns = [as_array(rows[KEY]), as_array(rows[SEQUENCE]), pc.invert(as_array(rows[DELETED]))]
        unset = as_array(rows[UNSET])
        for number, attribute in enumerate(self.format.attributes.names):
            own = as_array(rows[FIRST_OF_UPDATE + number])
            if self.format.partial:
                blank = deleted if unset.null_count == len(unset) else deleted | removed(unset, attribute)
                stored = self._table[FIRST_OF_STATE + number]
                columns.append(merged(stored, own, blank, order.first, order.previous))
            else:
                columns.append(blanked(own, deleted))
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _add_transitions(
        self, version: SubscriptionCodes, keys: pa.Array, sequences: pa.Array, changes: Changes, deleted: Flags,
        found: Transitions,
    ) -> None:  # fmt: skip
        """Add the changes as transitions, except those of silent subscriptions and of subscriptions that are gone."""
        rows, codes, left = changes
        rules = version.rule_codes(self.rules)
        kinds = np.where(left, np.where(deleted[rows], DELETE, LEAVE), ENTER).astype(np.int8)
        told = (kinds != LEAVE) | (rules.leave if isinstance(rules.leave, bool) else np.isin(codes, rules.leave))
        told &= codes < len(version)
        if len(rules.silent):
            told &= ~np.isin(codes, rules.silent)
        places = row_numbers(rows[told])
        found.extend(keys.take(places), version.ids(codes[told]), kinds[told], sequences.take(places))

    def _update_remembered(
        self, version: SubscriptionCodes, rows: pa.Table, deleted: Flags, after: Matches, now: float, found: Transitions
    ) -> None:
        """Bring the remembered pairs up to date."""
        keys, sequences = rows[KEY].to_pylist(), rows[SEQUENCE].to_pylist()
        times = [now if time is None else time for time in rows[TIME].to_pylist()]
        for row, key in enumerate(keys):
            if deleted[row]:
                self.remembered.delete(key, times[row], sequences[row], found)
            else:
                matched = self._silent_matches(version, after, row)
                self.remembered.update(key, matched, times[row], sequences[row], found)

    def _silent_matches(self, version: SubscriptionCodes, matches: Matches, row: int) -> set[Id]:
        """The silent subscriptions that a state matches."""
        ids = version.rule_codes(self.rules).silent_ids
        return {ids[code] for code in matches.of(row).tolist() if code in ids}

    def _match_missing(self, rows: Rows) -> None:
        """Match these states, as far as their matches are not known."""
        missing = np.unique(rows[self._matches.lengths[rows] < 0])
        if len(missing):
            states = self._table.take(row_numbers(missing))
            found = self._open_version(self.version).match(self._attributes(states))
            self._matches.learn(missing, found.without(~flags_of(states[ALIVE])))

    def _attributes(self, table: pa.Table) -> pa.Table:
        """The attributes of states; a nameless column keeps the number of rows where there are no attributes."""
        return table.select(range(FIRST_OF_STATE, len(self._schema))).append_column("", pa.nulls(len(table)))

    def _append(self, states: pa.Table, numbers: Rows, matches: Matches, chosen: Rows) -> None:
        """Append states of keys with these numbers; the chosen rows of `matches` are theirs."""
        places = len(self._table) + np.arange(len(states))
        if not self.format.ordered:
            places[~flags_of(states[ALIVE])] = -1
        self._rows[numbers] = places
        self._note_sequences(states, numbers)
        self._table = pa.concat_tables([self._table, states])
        if self._table[KEY].num_chunks > _MOST_CHUNKS:
            self._table = self._table.combine_chunks()
        self._matches.append(matches, chosen)

    def _current(self) -> Rows:
        """The rows of the current states, ascending."""
        rows = self._rows[: len(self._keys)]
        return np.sort(rows[rows >= 0])

    def _compact(self) -> None:
        """Leave out the states that are no longer current."""
        rows = self._rows[: len(self._keys)]
        current = self._current()
        if len(current) < len(self._table):
            places = np.full(len(self._table) + 1, -1)  # the last for those without a row
            places[current] = np.arange(len(current))
            rows[:] = places[rows]
            self._table = self._table.take(row_numbers(current))
            self._matches = self._matches.take(current)
            self._is_base_current = False
        self._table = self._table.combine_chunks()
        if 2 * len(current) < len(rows):  # most of the keys are gone
            self._keys, self._rows, self._latest = KeyNumbers(), self._rows[:0], self._latest[:0]
            numbers = self._numbers(self._table)
            self._rows[numbers] = np.arange(len(current))
            self._note_sequences(self._table, numbers)

    def _check(self) -> None:
        """Assert that keys, rows, sequence numbers and matches agree."""
        count = len(self._keys)
        assert len(self._table) == self._matches.count
        assert not self._is_base_current or len(self._table) >= self._saved_rows >= self._base_rows
        current = np.flatnonzero(self._rows[:count] >= 0)
        states = self._table.take(row_numbers(self._rows[current]))
        assert self._numbers(states).tolist() == current.tolist()
        assert len(self._keys) == count
        if self.format.ordered:
            assert states[SEQUENCE].to_pylist() == self._latest[current].tolist()
        else:
            assert all(states[ALIVE].to_pylist())
        self.remembered.pairs._check()

    def _note_sequences(self, states: pa.Table, numbers: Rows) -> None:
        if self.format.ordered:
            sequences = as_array(states[SEQUENCE])
            known = flags_of(sequences.is_valid())
            self._latest[numbers] = np.where(known, values_of(sequences), np.iinfo(np.int64).min)


def table_to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    content: bytes = sink.getvalue().to_pybytes()
    return content


def table_from_bytes(content: bytes) -> pa.Table:
    """The table of an Arrow stream."""
    return pa.ipc.open_stream(pa.py_buffer(bytes(content))).read_all()
