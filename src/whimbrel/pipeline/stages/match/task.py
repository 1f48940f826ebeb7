"""What a task of `match` does: batches of events in, their keys with lists of subscriptions out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.model.errors import EventError
from whimbrel.pipeline.errors import ColumnError
from whimbrel.pipeline.index.workers import open_version, settle
from whimbrel.pipeline.spark.transfer import HandOver
from whimbrel.pipeline.stages.match.json_columns import columns_of
from whimbrel.pipeline.stages.match.match_lists import match_lists

SUBSCRIPTIONS = "subscriptions"


@dataclass(frozen=True, slots=True)
class Matcher:
    """Sent to the workers. A batch has `carried` columns that come out again, then those of the attributes.

    `version_of` is called once in every task and says which version counts. With `groups`, the last carried column is
    the number of the group of shards that the row is to be matched against; without, all shards are.
    """

    path: Path
    version_of: Callable[[], int]
    kind: str
    carried: int
    handed: HandOver
    timestamps: tuple[str, ...] = ()
    json: bool = False
    groups: tuple[tuple[int, ...], ...] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Match the batches of one task."""
        version = self.version_of()
        manifest, shards = open_version(self.path, version, self.timestamps)
        self.handed.check(manifest.attributes)
        if manifest.kind != self.kind:
            raise ColumnError(SUBSCRIPTIONS, f"ids of kind {self.kind}", f"{manifest.kind} in version {version}")
        for batch in batches:
            if self.groups is None:
                yield from self._match(batch, shards, manifest.attributes)
            else:
                for group in batch.column(self.carried - 1).unique().to_pylist():
                    own = batch.filter(pa.compute.equal(batch.column(self.carried - 1), group))
                    mine = [shards[number] for number in self.groups[group]]
                    yield from self._match(own, mine, manifest.attributes)
        settle()

    def _match(
        self, batch: pa.RecordBatch, shards: Sequence[Index], attributes: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        keys = batch.select(range(self.carried))
        if not self.json:
            yield from self._matched(keys, shards, self.handed.table(batch.columns[self.carried :], batch.num_rows))
            return
        events = self._decoded(batch)
        table, odd = columns_of(events, attributes)
        if odd:  # these are matched as they are
            plain = np.ones(len(events), bool)
            plain[odd] = False
            yield from self._matched(keys.take(pa.array(odd)), shards, [events[row] for row in odd])
            keys, table = keys.filter(pa.array(plain)), table.filter(pa.array(plain))
        yield from self._matched(keys, shards, table)

    def _matched(self, keyed: pa.RecordBatch, shards: Sequence[Index], events: object) -> Iterator[pa.RecordBatch]:
        first = 0
        names = [*keyed.schema.names, SUBSCRIPTIONS]
        keys = keyed.columns
        for count, lists in match_lists(shards, events, keyed.num_rows, self.kind):
            columns = [key.slice(first, count) for key in keys]
            yield pa.RecordBatch.from_arrays([*columns, lists], names)
            first += count

    def _decoded(self, batch: pa.RecordBatch) -> list[dict[str, object]]:
        events = []
        for row, text in enumerate(batch.column(self.carried).to_pylist()):
            try:
                event = {} if text is None else msgspec.json.decode(text)
            except (msgspec.DecodeError, ValueError) as error:
                raise EventError("JSON", f"{text[:80]!r} ({error})", self._place(batch, row)) from None
            if not isinstance(event, dict):
                raise EventError("a JSON object", f"{text[:80]!r}", self._place(batch, row))
            events.append(cast("dict[str, object]", event))
        return events

    def _place(self, batch: pa.RecordBatch, row: int) -> str:
        keys = [str(column[row].as_py()) for column in batch.columns[: self.carried]]
        return f"column {self.handed.leaves[0].name} of event {', '.join(keys)}"
