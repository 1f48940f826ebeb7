"""The subscriptions of an index: their ids, texts and segments, which change together.

Who writes: whoever holds `segments.lock`; each method that changes something takes it. Readers take the snapshot of the
segment set and never wait, except for a lookup by id in the microseconds in which ids and texts disagree.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from whimbrel.engine.access.segment import Segment
from whimbrel.engine.ids.id_table import IdTable
from whimbrel.engine.intake.subscriptions import Admitted, SubscriptionBatch
from whimbrel.engine.live.segment_set import SegmentSet
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.live.texts import TextStore
from whimbrel.model.errors import UnknownId
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.subscription import Id

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.language.columnar.terms import ParsedMany
    from whimbrel.model.schema import Schema

FILTERS_KEPT = 16_384
"""Parsed filters kept for verifying and explaining: place `row % FILTERS_KEPT` has the row that was asked for last."""


class SubscriptionSet:
    """Subscriptions by id and by row. A row is the number of one version of a subscription, in order of addition."""

    def __init__(
        self,
        schema: Schema | None = None,
        ids: IdTable | None = None,
        texts: TextStore | None = None,
        snapshot: Snapshot | None = None,
    ) -> None:
        self.schema = schema
        self.ids = IdTable() if ids is None else ids
        self.texts = TextStore() if texts is None else texts
        self.segments = SegmentSet(Snapshot() if snapshot is None else snapshot)
        self._filters: dict[int, tuple[int, Filter]] = {}  # row and filter, by the row's remainder
        self._naming = threading.Lock()  # held while ids and texts disagree

    def add(self, id: Id, admitted: Admitted) -> None:
        """Add one subscription; DuplicateId if the id is there."""
        with self.segments.lock:
            with self._naming:
                row = self.ids.add(id)
                self.texts.append(row, admitted.text, admitted.dialect)
            self.segments.append(row, admitted.filter)

    def add_many(self, batch: SubscriptionBatch, parsed: ParsedMany, good: np.ndarray | None = None) -> None:
        """Add the subscriptions of a batch, or those that a mask calls good, as one segment. All or none."""
        chosen = np.ones(len(batch.texts), bool) if good is None else good
        if not chosen.any():
            return
        with self.segments.lock:
            first = self.ids.rows
            rows = (first + np.cumsum(chosen) - 1).astype(np.int32)
            can_wait = len(parsed.filters) == len(rows) and self.segments.can_wait(len(rows))
            segment = None if can_wait else Segment.of_parsed(parsed, rows, self.segments.sample)
            added = batch if chosen.all() else batch.only(chosen)
            with self._naming:
                self.ids.add_many(added.ids)
                self.texts.append_many(first, added.texts, added.dialects)
            if segment is None:
                self.segments.append_many(first, [filter for _, filter in sorted(parsed.filters.items())])
            else:
                self.segments.install(segment, self.ids.rows)

    def remove(self, id: Id) -> None:
        """Remove a subscription; UnknownId if it is not there."""
        with self.segments.lock:
            row = self.ids.remove(id)
            self.segments.kill(row, self.ids.rows)
            self._filters.pop(row % FILTERS_KEPT, None)

    def replace(self, id: Id, admitted: Admitted) -> None:
        """Give a subscription another filter, and with it a new row, in one step; it keeps its place in results."""
        with self.segments.lock:
            with self._naming:
                old_row = self.ids.remove(id)
                row = self.ids.add(id)
                self.texts.append(row, admitted.text, admitted.dialect)
            self.segments.append(row, admitted.filter, died=old_row)
            self._filters.pop(old_row % FILTERS_KEPT, None)

    def find(self, id: object) -> int:
        """The row of a subscription; -1 if it is not there."""
        row = self.ids.find(id)
        if not 0 <= row < len(self.texts):
            with self._naming:  # not there, or in the middle of a change
                row = self.ids.find(id)
        return row

    def row(self, id: Id) -> int:
        """The row of a subscription; UnknownId if it is not there."""
        row = self.find(id)
        if row < 0:
            raise UnknownId(id)
        return row

    def filter(self, row: int) -> Filter:
        """The filter of a row, parsed again unless it was kept."""
        kept_row, kept = self._filters.get(row % FILTERS_KEPT, (-1, None))
        found = kept if kept_row == row else self.segments.snapshot.head.filter(row)
        if found is None:
            text, dialect = self.texts.get(row)
            found = Filter.parse(text, dialect, self.schema)
            self._filters[row % FILTERS_KEPT] = row, found
        return found

    def verify(self, row: int, event: Event) -> bool:
        """Whether the filter of a row matches an event; with a schema, of an event in its codes."""
        return any(conjunction.matches(event) for conjunction in self.filter(row).conjunctions)

    def table(self) -> pa.Table:
        """All subscriptions as a table of id, filter and dialect, in order of addition."""
        import pyarrow as pa

        with self.segments.lock:
            live = self.segments.snapshot.in_order(self.ids.live())
            texts, dialects = self.texts.columns(live)
            return pa.table({"id": pa.array(self.ids.names(live)), "filter": texts, "dialect": dialects})

    def __iter__(self) -> Iterator[Id]:
        """The ids, in order of addition."""
        if self.segments.snapshot.moved is None:
            return iter(self.ids)
        with self.segments.lock:  # so that no row is newer than the snapshot
            live = self.segments.snapshot.in_order(self.ids.live())
        return iter(self.ids.name_list(live))

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        snapshot = self.segments.snapshot
        held: list[int] = [entry.row for entry in snapshot.head_entries()]
        for segment in snapshot.segments:
            dead = snapshot.dead(segment.rows)
            held += segment.rows[~dead].tolist() if dead is not None else segment.rows.tolist()
        satisfiable = {row for row in self.ids.live().tolist() if self.filter(row).is_satisfiable()}
        assert satisfiable <= set(held), "a live subscription is in no segment"
        assert len(held) == len(set(held)), "a row is in two segments"
        assert set(held) <= set(self.ids.live().tolist()), "a dead row is alive in a segment"
        assert snapshot.rows == self.ids.rows == len(self.texts), "ids, texts and rows disagree"
        assert snapshot.died is None or len(snapshot.died) >= snapshot.rows, "a row has no place for its death"
        if snapshot.moved is not None:
            assert len(snapshot.moved) >= snapshot.rows, "a row has no place for its move"
            assert (snapshot.moved <= 0).all(), "a place is not older"
            assert len(set(snapshot.places(self.ids.live()).tolist())) == len(self.ids), "two have one place"
        self.ids._check()
        self.texts._check()
