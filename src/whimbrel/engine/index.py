"""The public index: subscriptions in, events in, ids out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from whimbrel.matchers.explain import Explanation, NearMiss, explain, near_misses
from whimbrel.matchers.naive import Naive
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.subscription import Id, Subscription

if TYPE_CHECKING:
    import pyarrow as pa


class Index:
    """A set of subscriptions that finds those an event matches.

    >>> index = Index()
    >>> index.add("toy-deals", "category = 'Toy' AND price < 5")
    >>> index.match({"category": "Toy", "price": 3})
    ['toy-deals']
    """

    def __init__(self, timestamps: Iterable[str] = ()) -> None:
        self._matcher = Naive(tuple(timestamps))

    def add(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Add a subscription; DuplicateId if the id is there. Visible to the next match."""
        self._matcher.add(id, filter, dialect)

    def add_many(
        self,
        subscriptions: Iterable[tuple[Id, object]] | pa.Table,
        dialect: str = "sql",
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add many: pairs of id and filter, or an Arrow table with columns id, filter and optionally dialect."""
        for count, (id, filter, its_dialect) in enumerate(_rows(subscriptions, dialect), 1):
            self.add(id, filter, its_dialect)
            if progress is not None:
                progress(count)

    def remove(self, id: Id) -> None:
        """Remove a subscription; UnknownId if it is not there."""
        self._matcher.remove(id)

    def replace(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Give a subscription another filter, atomically; it keeps its place in the order of results."""
        self._matcher.replace(id, filter, dialect)

    def match(self, event: Event | Mapping[str, object]) -> list[Id]:
        """The ids of the subscriptions that the event matches, each once, in order of addition."""
        return self._matcher.match(event)

    def match_batch(self, events: object) -> pa.Table:
        """Match many events: a table of `event` (row number) and `subscription` (id), in event order."""
        return self._matcher.match_batch(events)

    def explain(self, id: Id, event: Event | Mapping[str, object]) -> Explanation:
        """Why a subscription matches an event or not: each constraint, held or not, and the values seen."""
        return explain(self[id].filter, Event.of(event, self._matcher.timestamps))

    def near_misses(self, event: Event | Mapping[str, object], limit: int = 10) -> list[NearMiss]:
        """The subscriptions that almost match: fewest failed constraints first, then order of addition."""
        subscriptions = (self[id] for id in self)
        return near_misses(subscriptions, Event.of(event, self._matcher.timestamps), limit)

    def stats(self) -> dict[str, int | float | str]:
        """Counts of what the index holds and has done."""
        return self._matcher.stats()

    def __len__(self) -> int:
        return len(self._matcher)

    def __contains__(self, id: object) -> bool:
        return id in self._matcher

    def __getitem__(self, id: Id) -> Subscription:
        return self._matcher[id]

    def __iter__(self) -> Iterator[Id]:
        return iter(self._matcher)


def _rows(subscriptions: Iterable[tuple[Id, object]] | pa.Table, dialect: str) -> Iterator[tuple[Id, object, str]]:
    if hasattr(subscriptions, "column_names"):
        for batch in subscriptions.to_batches():
            ids, filters = batch.column("id").to_pylist(), batch.column("filter").to_pylist()
            dialects = batch.column("dialect").to_pylist() if "dialect" in batch.schema.names else [dialect] * len(ids)
            yield from zip(ids, filters, (d or dialect for d in dialects), strict=True)
    else:
        yield from ((id, filter, dialect) for id, filter in subscriptions)
