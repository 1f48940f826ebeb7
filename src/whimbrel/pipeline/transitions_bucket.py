"""One bucket of publications: their current states, and who begins or ceases to match when they change.

Plain Arrow and NumPy, no Spark. What matches follows from the states and the index version, so states are all that is
kept; pairs are kept only for subscriptions with hysteresis or dwell (`transitions_sticky`). The matches of current
states are remembered while the process lives, as a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whimbrel.pipeline.transitions_diff import Found, Matches, begun, gather
from whimbrel.pipeline.transitions_sticky import Sticky

KEY, SEQUENCE, ALIVE = "key", "sequence", "alive"
DELETED, UNSET, TIME = "deleted", "unset", "time"
ENTER, LEAVE, DELETE = range(3)
KINDS = ("enter", "leave", "delete")

MatchStates: TypeAlias = Callable[[int, pa.Table], Matches]
"""Gives the matches of states against a version of the index."""

_REWRITE = 10
"""The base is written anew when the changes since are more than one in so many of its rows."""


@dataclass
class News:
    """What a bucket has to tell: parallel lists."""

    keys: list[Any] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    sequences: list[int | None] = field(default_factory=list)

    def add(self, key: Any, code: int, kind: int, sequence: int | None) -> None:
        """One notification."""
        self.keys.append(key)
        self.codes.append(code)
        self.kinds.append(kind)
        self.sequences.append(sequence)

    def extend(self, keys: Iterable[Any], codes: Iterable[int], kind: int, sequences: Iterable[int | None]) -> None:
        """Some of one kind."""
        before = len(self.keys)
        self.keys += keys
        self.codes += codes
        self.sequences += sequences
        self.kinds += [kind] * (len(self.keys) - before)


class Bucket:
    """The publications of one bucket."""

    def __init__(self, attributes: pa.Schema, key: pa.DataType, sticky: Sticky, ordered: bool, partial: bool) -> None:
        head = [pa.field(KEY, key), pa.field(SEQUENCE, pa.int64()), pa.field(ALIVE, pa.bool_())]
        self.schema = pa.schema([*head, *attributes])
        self.attributes = attributes.names
        self.sticky = sticky
        self.version = 0
        self.table = self.schema.empty_table()
        self.rows: dict[Any, int] = {}
        self._ordered = ordered
        self._partial = partial
        self._known = Matches.unknown(0)
        self._latest: list[int | None] = []
        self._changed: list[pa.Table] = []
        self._base_rows = 0

    def __len__(self) -> int:
        return len(self.rows)

    def load(self, version: int, tables: Iterable[pa.Table]) -> None:
        """Take over a base and the changes after it."""
        self.version = version
        for number, table in enumerate(tables):
            self._append(table.cast(self.schema))
            if number == 0:
                self._base_rows = len(table)
        self._changed = []

    def dump(self) -> tuple[pa.Table | None, list[pa.Table]]:
        """A new base, if one is due, else the changes since the last dump."""
        changed, self._changed = self._changed, []
        if len(self.table) - self._base_rows <= self._base_rows // _REWRITE and self._base_rows:
            return None, changed
        self._compact()
        self._base_rows = len(self.table)
        return self.table, []

    def change_version(self, version: int, match: MatchStates, exists: Callable[[int], bool], news: News) -> None:
        """Go to another version of the index: who matches now and did not is told; who is no longer there is not."""
        if version <= self.version:
            return
        self._compact()
        keys = self.table[KEY].to_pylist()
        if self.version and keys:
            everyone = np.arange(len(keys))
            alive = np.asarray(self.table[ALIVE])
            old = self._matches(everyone, match)
            new = match(version, self._states(self.table)).without(~alive)
            self._tell(keys, [None] * len(keys), gather(old, everyone), gather(new, everyone), news, exists)
            for row in np.flatnonzero(alive).tolist() if self.sticky else ():
                self.sticky.seen(keys[row], set(new.of(row).tolist()), self.sticky.now, None, news)
            self._known = new
        self.version = version

    def apply(self, updates: pa.Table, match: MatchStates, now: float, news: News) -> None:
        """Take updates in: those that are late are left out, the others are taken in the order of their sequence."""
        if self.version == 0:
            raise AssertionError("a bucket hears of an index version before it hears of publications")
        order, previous, depth = self._order(updates)
        if not len(order):
            return
        rows = updates.take(order)
        stored = len(self.table)
        states = self._merge(rows, previous, depth)
        deleted = np.asarray(rows[DELETED])
        before = self._matches(np.unique(previous[(previous >= 0) & (previous < stored)]), match)
        after = match(self.version, self._states(states)).without(deleted)
        both = before.then(after)
        keys, sequences = rows[KEY].to_pylist(), rows[SEQUENCE].to_pylist()
        was, has = gather(both, previous), gather(after, np.arange(len(order)))
        self._tell(keys, sequences, was, has, news, None, deleted)
        if self.sticky:
            times = rows[TIME].to_pylist() if TIME in rows.schema.names else [now] * len(keys)
            for row, key in enumerate(keys):
                if deleted[row]:
                    self.sticky.gone(key, sequences[row], news)
                else:
                    self.sticky.seen(key, set(after.of(row).tolist()), times[row], sequences[row], news)
        newest = {key: row for row, key in enumerate(keys)}
        last = np.array(list(newest.values()))
        self._append(states.take(last), after.take(last))

    def _order(self, updates: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which updates count, in order; the state before each (a stored row, or one of these after them), and depth.

        The depth is how many updates of the same publication come before it here.
        """
        keys = updates[KEY].to_pylist()
        sequences = updates[SEQUENCE].to_pylist() if self._ordered else [None] * len(keys)
        order = np.argsort(np.asarray(updates[SEQUENCE]), kind="stable").tolist() if self._ordered else range(len(keys))
        stored = len(self.table)
        kept: list[int] = []
        previous: list[int] = []
        depth: list[int] = []
        newest: dict[Any, int] = {}
        for number in order:
            key, sequence = keys[number], sequences[number]
            before = newest.get(key)
            if before is None:
                at = self.rows.get(key, -1)
                last = self._latest[at] if at >= 0 else None
                level = 0
            else:
                at, last, level = stored + before, sequences[kept[before]], depth[before] + 1
            if last is not None and sequence is not None and sequence <= last:
                continue
            newest[key] = len(kept)
            kept.append(number)
            previous.append(at)
            depth.append(level)
        return np.array(kept, np.int64), np.array(previous, np.int64), np.array(depth, np.int64)

    def _merge(self, rows: pa.Table, previous: np.ndarray, depth: np.ndarray) -> pa.Table:
        """The states after updates."""
        alive = pc.invert(rows[DELETED])
        head = [rows[KEY].cast(self.schema.field(KEY).type), rows[SEQUENCE], alive]
        columns = {name: rows[name] for name in self.attributes}
        if self._partial:
            columns = self._filled(rows, columns, previous, depth)
        for name in self.attributes:
            columns[name] = pc.if_else(alive, columns[name], pa.scalar(None, self.schema.field(name).type))
        return pa.Table.from_arrays([*head, *columns.values()], schema=self.schema)

    def _filled(
        self, rows: pa.Table, columns: dict[str, Any], previous: np.ndarray, depth: np.ndarray
    ) -> dict[str, Any]:
        """What an update does not say is as it was; round by round, as several may be of one publication."""
        unset = rows[UNSET].to_pylist() if UNSET in rows.schema.names else None
        stored = len(self.table)
        deleted = np.asarray(rows[DELETED])
        out = {}
        for name in self.attributes:
            own = columns[name].combine_chunks() if isinstance(columns[name], pa.ChunkedArray) else columns[name]
            removed = None
            if unset is not None:
                removed = np.array([bool(names) and name in names for names in unset])
            result = own
            for level in range(int(depth.max()) + 1):
                places = np.flatnonzero((depth == level) & ~deleted)
                before = previous[places]
                if level == 0:
                    taken = self.table[name].take(pa.array(before, mask=before < 0)).combine_chunks()
                else:
                    taken = result.take(pa.array(before - stored))
                filled = pc.coalesce(own.take(pa.array(places)), taken)
                if removed is not None:
                    nothing = pa.scalar(None, self.schema.field(name).type)
                    filled = pc.if_else(pa.array(removed[places]), nothing, filled)
                result = _put(result, places, filled)
                if level == 0:
                    gone = np.flatnonzero(deleted)
                    result = _put(result, gone, pa.nulls(len(gone), self.schema.field(name).type))
            out[name] = result
        return out

    def _tell(
        self,
        keys: list[Any],
        sequences: list[int | None],
        was: Found,
        has: Found,
        news: News,
        exists: Callable[[int], bool] | None,
        deleted: np.ndarray | None = None,
    ) -> None:
        """Tell of the differences, but for subscriptions whose pairs are kept or that are hidden."""
        own = self.sticky.codes
        for kind, rows, codes in ((LEAVE, *begun(has, was)), (ENTER, *begun(was, has))):
            wanted = ~np.isin(codes, own) if len(own) else np.ones(len(codes), bool)
            gone = deleted[rows] if deleted is not None and kind == LEAVE else np.zeros(len(codes), bool)
            if kind == LEAVE:
                told = self.sticky.tells_leaves(codes)
                if exists is not None:
                    told &= np.array([exists(code) for code in codes.tolist()], bool)
                _extend(news, keys, sequences, rows, codes, wanted & gone, DELETE)
                wanted &= told & ~gone
            _extend(news, keys, sequences, rows, codes, wanted, kind)

    def _matches(self, rows: np.ndarray, match: MatchStates) -> Matches:
        """The matches of stored states; these rows at least are known."""
        missing = rows[self._known.lengths[rows] < 0]
        if len(missing):
            found = match(self.version, self._states(self.table.take(missing)))
            self._known.learn(missing, found.without(~np.asarray(self.table[ALIVE].take(missing))))
        return self._known

    def _states(self, table: pa.Table) -> pa.Table:
        """The attributes alone; a column that says nothing gives a table without attributes its rows."""
        return table.select(self.attributes).append_column("", pa.nulls(len(table)))

    def _append(self, states: pa.Table, matches: Matches | None = None) -> None:
        first = len(self.table)
        for number, (key, alive) in enumerate(zip(states[KEY].to_pylist(), states[ALIVE].to_pylist(), strict=True)):
            if alive or self._ordered:
                self.rows[key] = first + number
            else:
                self.rows.pop(key, None)
        self._latest += states[SEQUENCE].to_pylist()
        self.table = pa.concat_tables([self.table, states])
        self._known = self._known.then(matches or Matches.unknown(len(states)))
        self._changed.append(states)

    def _compact(self) -> None:
        """Leave out the states that are no longer current."""
        if len(self.rows) == len(self.table):
            return
        current = np.sort(np.fromiter(self.rows.values(), np.int64, len(self.rows)))
        self.table = self.table.take(current).combine_chunks()
        self._known = self._known.take(current)
        self._latest = self.table[SEQUENCE].to_pylist()
        self.rows = {key: row for row, key in enumerate(self.table[KEY].to_pylist())}


def _put(array: pa.Array, places: np.ndarray, values: pa.Array) -> pa.Array:
    """The array with other values at some places."""
    source = np.arange(len(array))
    source[places] = len(array) + np.arange(len(places))
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return pa.concat_arrays([array, values.cast(array.type)]).take(pa.array(source))


def _extend(
    news: News,
    keys: list[Any],
    sequences: list[int | None],
    rows: np.ndarray,
    codes: np.ndarray,
    chosen: np.ndarray,
    kind: int,
) -> None:
    picked = rows[chosen].tolist()
    news.extend([keys[row] for row in picked], codes[chosen].tolist(), kind, [sequences[row] for row in picked])
