"""Subscriptions of a file into an index, and batches of events through it, with what each refuses set aside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from whimbrel.cli.console import progress
from whimbrel.cli.readers.errors import InputError, Refused
from whimbrel.cli.readers.events import EventBatch
from whimbrel.cli.readers.source import Format
from whimbrel.cli.readers.subscriptions import Row, read_subscriptions
from whimbrel.cli.report import Report
from whimbrel.model.errors import EventError, LimitExceeded, WhimbrelError
from whimbrel.model.filter import Filter
from whimbrel.model.subscription import id_kind

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.engine.index import Index


_FIRST = "event 0: "


@dataclass(slots=True)
class Loaded:
    """An index, the attributes that its filters mention, and the kind of its ids."""

    index: Index
    attributes: set[str] = field(default_factory=set)
    kind: str = "int64"

    def add(self, row: Row) -> None:
        """Add a subscription, or raise what is wrong with it."""
        filter = Filter.parse(row.filter, row.dialect)
        attributes = filter.attributes  # expands the filter, which may pass a limit
        self.index.add(row.id, filter)
        self.attributes |= attributes
        self.kind = id_kind(row.id)


def load_index(file: str, fallback: Format | None, timestamps: Iterable[str], report: Report) -> Loaded:
    """An index of the subscriptions of a file; those that are refused are reported."""
    from whimbrel.engine.index import Index

    loaded = Loaded(Index(timestamps))
    with progress("Reading subscriptions", quiet=report.json) as bar:
        for count, (place, item) in enumerate(read_subscriptions(file, fallback), 1):
            if isinstance(item, InputError):
                report.reject("subscription", item)
                continue
            try:
                loaded.add(item)
            except WhimbrelError as error:
                report.reject("subscription", Refused(place, error, str(item.filter)))
            if count % 1_000 == 0:
                bar.update(count, f"{count:,}")
    return loaded


def match_events(index: Index, batch: EventBatch) -> Iterator[pa.Table | InputError]:
    """The pairs of a batch, by row number; a batch with an event that is refused is halved until it stands alone."""
    if not len(batch):
        return
    try:
        pairs = index.match_batch(batch.events)
    except WhimbrelError as error:
        if len(batch) == 1:
            yield Refused(batch.place(0), _alone(error), batch.text(0))
            return
        middle = len(batch) // 2
        yield from match_events(index, batch.slice(0, middle))
        yield from match_events(index, batch.slice(middle, len(batch)))
        return
    yield _with_rows(pairs, batch)


def _alone(error: WhimbrelError) -> WhimbrelError:
    """The error without the number that the event had in its batch of one."""
    if isinstance(error, EventError):
        return EventError(error.expected, error.found, error.path.removeprefix(_FIRST))
    if isinstance(error, LimitExceeded):
        where = error.where.removeprefix(_FIRST)
        return LimitExceeded(error.limit, error.size, error.maximum, error.unit, where)
    return error


def _with_rows(pairs: pa.Table, batch: EventBatch) -> pa.Table:
    import pyarrow as pa
    from pyarrow import compute

    rows = pa.array(batch.rows, pa.int64())
    return pairs.set_column(0, "event", compute.take(rows, pairs["event"]))
