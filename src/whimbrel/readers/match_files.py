"""Files of subscriptions into an index, and batches of events through it; refused input is reported and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from whimbrel.model.errors import EventError, LimitExceeded, WhimbrelError
from whimbrel.model.schema import InvalidEvent
from whimbrel.readers.errors import InputError, InputPlace, RefusedInput
from whimbrel.readers.events import FileBatch
from whimbrel.readers.source import Format
from whimbrel.readers.subscriptions import SubscriptionRow, read_subscriptions

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.engine.index import Index

PlacedRow = tuple[InputPlace, SubscriptionRow]
Refuse = Callable[[InputError], None]
"""Is told what was refused; may raise to stop."""
Tick = Callable[[int], None]
"""Is told how many are done, now and then."""

_TICK = 1_000


def read_rows(file: str, fallback: Format | None, refuse: Refuse, tick: Tick) -> list[PlacedRow]:
    """Read all subscriptions of a file, with their places."""
    rows: list[PlacedRow] = []
    for place, item in read_subscriptions(file, fallback):
        if isinstance(item, InputError):
            refuse(item)
            continue
        rows.append((place, item))
        if len(rows) % _TICK == 0:
            tick(len(rows))
    return rows


def add_rows(index: Index, rows: list[PlacedRow], refuse: Refuse, tick: Tick) -> None:
    """Add subscriptions to an index: all at once where that is possible, else one by one."""
    for count, (place, row) in enumerate(_add_at_once(index, rows, refuse, tick), 1):
        try:
            index.add(row.id, row.filter, row.dialect)
        except WhimbrelError as error:
            refuse(RefusedInput(place, error, str(row.filter)))
        if count % _TICK == 0:
            tick(count)


def _add_at_once(index: Index, rows: list[PlacedRow], refuse: Refuse, tick: Tick) -> list[PlacedRow]:
    """Add all rows with good filters in one load, which is fast. Return the rows that must be added one by one."""
    from whimbrel.engine.intake.subscriptions import BadSubscriptions

    if any(row.dialect != "sql" for _, row in rows):
        return rows
    try:
        index.add_many(((row.id, row.filter) for _, row in rows), progress=tick)
    except BadSubscriptions as bad:
        errors = dict(bad.errors)
        for number, error in sorted(errors.items()):
            place, row = rows[number]
            refuse(RefusedInput(place, error, str(row.filter)))
        good = [item for number, item in enumerate(rows) if number not in errors]
        return _add_at_once(index, good, refuse, tick)
    except WhimbrelError:  # an id that comes twice, or of another kind
        return rows
    return []


def match_events(index: Index, batch: FileBatch) -> Iterator[pa.Table | InputError]:
    """The pairs of a batch, by row number. A batch with a refused event is halved until that event stands alone."""
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


def _with_rows(pairs: pa.Table, batch: FileBatch) -> pa.Table:
    """The pairs with the row numbers of the file instead of those of the batch."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import compute

    rows = pa.array(np.array(batch.rows, np.int64))  # from a list, Arrow would import pandas, which takes a while
    return pairs.set_column(0, "event", compute.take(rows, pairs["event"]))
