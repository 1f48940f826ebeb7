"""What a task of `match` does: batches of events in, their keys with lists of subscriptions out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec
import numpy as np
import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.model.errors import EventError
from whimbrel.pipeline.errors import ColumnError
from whimbrel.pipeline.index.workers import open_version, settle
from whimbrel.pipeline.stages.match.json_columns import columns_of
from whimbrel.pipeline.stages.match.match_lists import match_lists
from whimbrel.pipeline.stages.match.options import SUBSCRIPTIONS, MatchJob


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Sent to the workers. The first `carried` columns of a batch come out again, the others hold the attributes.

    With `groups`, the last carried column is the number of the group of shards to match the row against; without, rows
    are matched against all shards.
    """

    job: MatchJob
    carried: int
    groups: tuple[tuple[int, ...], ...] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job = self.job
        version = job.version if isinstance(job.version, int) else job.version()
        manifest, shards = open_version(job.index, version, job.options.timestamps)
        job.transfer.check(manifest.attributes)
        if manifest.kind != job.id_kind:
            raise ColumnError(SUBSCRIPTIONS, f"ids of kind {job.id_kind}", f"{manifest.kind} in version {version}")
        for batch in batches:
            if self.groups is None:
                yield from self._match(batch, shards, manifest.attributes)
            else:
                for group in batch.column(self.carried - 1).unique().to_pylist():
                    own = batch.filter(pa.compute.equal(batch.column(self.carried - 1), group))
                    its_shards = [shards[number] for number in self.groups[group]]
                    yield from self._match(own, its_shards, manifest.attributes)
        settle()

    def _match(
        self, batch: pa.RecordBatch, shards: Sequence[Index], attributes: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        keys = batch.select(range(self.carried))
        if self.job.options.json is None:
            table = self.job.transfer.table(batch.columns[self.carried :], batch.num_rows)
            yield from self._matched(keys, shards, table)
            return
        events = self._decoded(batch)
        table, odd = columns_of(events, attributes)
        if odd:  # columns cannot hold these: they are matched as dicts
            plain = np.ones(len(events), bool)
            plain[odd] = False
            yield from self._matched(keys.take(pa.array(odd)), shards, [events[row] for row in odd])
            keys, table = keys.filter(pa.array(plain)), table.filter(pa.array(plain))
        yield from self._matched(keys, shards, table)

    def _matched(self, keyed: pa.RecordBatch, shards: Sequence[Index], events: object) -> Iterator[pa.RecordBatch]:
        first = 0
        names = [*keyed.schema.names, SUBSCRIPTIONS]
        keys = keyed.columns
        for count, lists in match_lists(shards, events, keyed.num_rows, self.job.id_kind):
            columns = [key.slice(first, count) for key in keys]
            yield pa.RecordBatch.from_arrays([*columns, lists], names)
            first += count

    def _decoded(self, batch: pa.RecordBatch) -> list[dict[str, object]]:
        """The JSON objects of a batch; null is an event without attributes."""
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
        return f"column {self.job.options.json} of event {', '.join(keys)}"
