"""Subscriptions of a file into an index, and batches of events through it, with what each refuses set aside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.cli.terminal.console import Bar, progress
from whimbrel.cli.terminal.rejects import RejectReport
from whimbrel.model.errors import EventError, LimitExceeded, WhimbrelError
from whimbrel.model.schema import InvalidEvent
from whimbrel.model.subscription import id_kind
from whimbrel.readers.errors import InputError, InputPlace, RefusedInput
from whimbrel.readers.events import EventBatch
from whimbrel.readers.source import Format
from whimbrel.readers.subscriptions import SubscriptionRow, read_subscriptions

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.engine.index import Index


Read = tuple[InputPlace, SubscriptionRow]


@dataclass(frozen=True, slots=True)
class Loaded:
    """An index, and the kind of its ids."""

    index: Index
    kind: str


def load_index(
    file: str, fallback: Format | None, timestamps: Iterable[str], report: RejectReport, schema: Path | None = None
) -> Loaded:
    """An index of the subscriptions of a file, with the schema of another; those that are refused are reported."""
    from whimbrel.engine.index import Index
    from whimbrel.model.schema import Schema

    index = Index(timestamps, None if schema is None else Schema.load(schema))
    read: list[Read] = []
    with progress("Reading subscriptions", quiet=report.json) as bar:
        for place, item in read_subscriptions(file, fallback):
            if isinstance(item, InputError):
                report.reject("subscription", item)
                continue
            read.append((place, item))
            if len(read) % 1_000 == 0:
                bar.update(len(read), f"{len(read):,}")
    with progress("Indexing", total=len(read), quiet=report.json) as bar:
        rest = _add_all(index, read, report, bar)
        _add_each(index, rest, report, bar)
    ids = iter(index)
    return Loaded(index, id_kind(next(ids, 0)))


def _add_all(index: Index, read: list[Read], report: RejectReport, bar: Bar) -> list[Read]:
    """Add all at once, which is fast, without those whose filters are bad; what has to be added one by one."""
    from whimbrel.engine.intake.subscriptions import BadSubscriptions

    if any(row.dialect != "sql" for _, row in read):
        return read
    try:
        index.add_many(((row.id, row.filter) for _, row in read), progress=bar.update)
    except BadSubscriptions as bad:
        errors = dict(bad.errors)
        for number, error in sorted(errors.items()):
            place, row = read[number]
            report.reject("subscription", RefusedInput(place, error, str(row.filter)))
        return _add_all(index, [item for number, item in enumerate(read) if number not in errors], report, bar)
    except WhimbrelError:  # an id that comes twice, or of another kind
        return read
    return []


def _add_each(index: Index, read: list[Read], report: RejectReport, bar: Bar) -> None:
    for count, (place, row) in enumerate(read, 1):
        try:
            index.add(row.id, row.filter, row.dialect)
        except WhimbrelError as error:
            report.reject("subscription", RefusedInput(place, error, str(row.filter)))
        if count % 1_000 == 0:
            bar.update(count)


def match_events(index: Index, batch: EventBatch) -> Iterator[pa.Table | InputError]:
    """The pairs of a batch, by row number; a batch with an event that is refused is halved until it stands alone."""
    if not len(batch):
        return
    try:
        pairs = index.match_batch(batch.events)
    except WhimbrelError as error:
        if len(batch) == 1:
            yield RefusedInput(batch.place(0), _alone(error), batch.text(0))
            return
        middle = len(batch) // 2
        yield from match_events(index, batch.slice(0, middle))
        yield from match_events(index, batch.slice(middle, len(batch)))
        return
    yield _with_rows(pairs, batch)


def _alone(error: WhimbrelError) -> WhimbrelError:
    """The error without the number that the event had in its batch of one."""
    if isinstance(error, EventError | LimitExceeded):
        return error.at_row(None)
    if isinstance(error, InvalidEvent):
        return InvalidEvent(error.violations)
    return error


def _with_rows(pairs: pa.Table, batch: EventBatch) -> pa.Table:
    import numpy as np
    import pyarrow as pa
    from pyarrow import compute

    rows = pa.array(np.array(batch.rows, np.int64))  # from a list, Arrow would import pandas, which takes a while
    return pairs.set_column(0, "event", compute.take(rows, pairs["event"]))
