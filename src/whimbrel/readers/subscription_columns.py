"""Files of subscriptions in columns, and from there into an index; what is refused is reported and left out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from whimbrel.language.columnar.terms import large_texts
from whimbrel.model.dialects import CANONICAL
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.subscription import Id
from whimbrel.ranks.arrow import numbers
from whimbrel.readers.errors import InputError, InputPlace, RefusedInput
from whimbrel.readers.json_lines import PlacedItems
from whimbrel.readers.source import Format
from whimbrel.readers.subscription_rows import SubscriptionRow, read_batches

if TYPE_CHECKING:
    from whimbrel.engine.index import Index

Refuse = Callable[[InputError], None]
"""Is told what was refused; may raise to stop."""
Tick = Callable[[int], None]
"""Is told how many are done, now and then."""

_TICK = 1_000


class SubscriptionColumns:
    """The ids, filters and dialects of the subscriptions of a file, and where each stands.

    A place is kept only where a subscription does not stand behind the one before.
    """

    def __init__(self) -> None:
        self.ids: list[Id] = []
        self.filters: list[object] = []
        self.dialects: list[str] = []
        self._starts: list[int] = []
        self._places: list[InputPlace] = []

    def __len__(self) -> int:
        return len(self.ids)

    def extend(self, first: InputPlace, rows: Sequence[SubscriptionRow]) -> None:
        """Add subscriptions that follow each other, from a place on."""
        if not self._places or self.place(len(self)) != first:
            self._starts.append(len(self))
            self._places.append(first)
        self.ids += [row.id for row in rows]
        self.filters += [row.filter for row in rows]
        self.dialects += [row.dialect for row in rows]

    def place(self, number: int) -> InputPlace:
        """Where a subscription stands."""
        run = bisect_right(self._starts, number) - 1
        return self._places[run].below(number - self._starts[run])

    def sql_texts(self) -> Iterator[tuple[int, str]]:
        """The filters that are text in the canonical dialect, with their numbers."""
        for number, (filter, dialect) in enumerate(zip(self.filters, self.dialects, strict=True)):
            if dialect == CANONICAL and isinstance(filter, str):
                yield number, filter


def read_columns(file: str, fallback: Format | None, refuse: Refuse, tick: Tick) -> SubscriptionColumns:
    """Read all subscriptions of a file."""
    columns = SubscriptionColumns()
    for batch in read_batches(file, fallback):
        if isinstance(batch, PlacedItems):
            columns.extend(batch.first, batch.items)
            tick(len(columns))
            continue
        for place, item in batch:
            if isinstance(item, InputError):
                refuse(item)
                continue
            columns.extend(place, [item])
            if len(columns) % _TICK == 0:
                tick(len(columns))
    return columns


def add_columns(index: Index, columns: SubscriptionColumns, refuse: Refuse, tick: Tick) -> None:
    """Add subscriptions to an index: all at once where that is possible, else one by one."""
    left = _add_at_once(index, columns, range(len(columns)), refuse, tick)
    for count, number in enumerate(left, 1):
        filter = columns.filters[number]
        try:
            index.add(columns.ids[number], filter, columns.dialects[number])
        except WhimbrelError as error:
            refuse(RefusedInput(columns.place(number), error, str(filter)))
        if count % _TICK == 0:
            tick(count)


def _add_at_once(
    index: Index, columns: SubscriptionColumns, chosen: Sequence[int], refuse: Refuse, tick: Tick
) -> Sequence[int]:
    """Add those that are chosen and have good filters in one load, which is fast. Return those to add one by one."""
    from whimbrel.engine.intake.subscriptions import BadSubscriptions

    if columns.dialects.count(CANONICAL) < len(columns):
        return chosen
    ids = [columns.ids[number] for number in chosen]
    filters = [columns.filters[number] for number in chosen]
    try:
        index.add_many(_table(ids, filters) or zip(ids, filters, strict=True), progress=tick)
    except BadSubscriptions as bad:
        errors = dict(bad.errors)
        for at, error in sorted(errors.items()):
            number = chosen[at]
            refuse(RefusedInput(columns.place(number), error, str(columns.filters[number])))
        good = [number for at, number in enumerate(chosen) if at not in errors]
        return _add_at_once(index, columns, good, refuse, tick)
    except WhimbrelError:  # an id that comes twice, or of another kind
        return chosen
    return []


def _table(ids: list[Id], filters: list[object]) -> pa.Table | None:
    """Ids of one kind with texts as a table, which an index reads at once; None for others."""
    if set(map(type, filters)) != {str} or len(kinds := set(map(type, ids))) != 1:
        return None
    try:
        texts = large_texts(cast("list[str]", filters))
        names = numbers(np.array(ids, np.int64)) if kinds == {int} else large_texts(cast("list[str]", ids))
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can name
        return None
    return pa.table({"id": names, "filter": texts})
