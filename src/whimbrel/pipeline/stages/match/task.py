"""What a task of `match` does: batches of events in, their keys with lists of subscriptions out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.pipeline.errors import ColumnError
from whimbrel.pipeline.index.workers import open_version, settle
from whimbrel.pipeline.stages.match.match_lists import match_lists
from whimbrel.pipeline.stages.match.match_options import SUBSCRIPTIONS, MatchJob


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
                yield from self._match(batch, shards)
            else:
                for group in batch.column(self.carried - 1).unique().to_pylist():
                    own = batch.filter(pa.compute.equal(batch.column(self.carried - 1), group))
                    its_shards = [shards[number] for number in self.groups[group]]
                    yield from self._match(own, its_shards)
        settle()

    def _match(self, batch: pa.RecordBatch, shards: Sequence[Index]) -> Iterator[pa.RecordBatch]:
        keys = batch.select(range(self.carried))
        if self.job.options.json is None:
            table = self.job.transfer.table(batch.columns[self.carried :], batch.num_rows)
            yield from self._matched(keys, shards, table)
            return
        try:
            yield from self._matched(keys, shards, batch.column(self.carried))
        except LimitExceeded as error:
            place = self._place(batch, error.row, error.where)
            raise LimitExceeded(error.limit, error.size, error.maximum, error.unit, place) from None
        except EventError as error:
            raise EventError(error.expected, error.found, self._place(batch, error.row, error.path)) from None

    def _matched(self, keyed: pa.RecordBatch, shards: Sequence[Index], events: object) -> Iterator[pa.RecordBatch]:
        first = 0
        names = [*keyed.schema.names, SUBSCRIPTIONS]
        keys = keyed.columns
        for count, lists in match_lists(shards, events, keyed.num_rows, self.job.id_kind):
            columns = [key.slice(first, count) for key in keys]
            yield pa.RecordBatch.from_arrays([*columns, lists], names)
            first += count

    def _place(self, batch: pa.RecordBatch, row: int | None, path: str) -> str:
        """The place of a path in the JSON of a row, by the keys of the event."""
        keys = [str(column[row or 0].as_py()) for column in batch.columns[: self.carried]]
        event = f"column {self.job.options.json} of event {', '.join(keys)}"
        return event if path in ("", "$") else f"{event}: {path}"
