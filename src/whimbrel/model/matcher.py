"""The matcher role: subscriptions in, events in, ids out. One role, many algorithms.

`whimbrel.Index` has it, and so has every algorithm of `whimbrel.matchers`. Both name it as their base, so that mypy
checks every signature.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.model.errors import RowError
    from whimbrel.model.event import AnyEvent
    from whimbrel.model.explain import Explanation
    from whimbrel.model.near_misses import NearMiss
    from whimbrel.model.subscription import Id, Subscription


Errors: TypeAlias = "list[tuple[int, RowError]]"
"""Events of a batch that were refused: the row and the error of each."""


class Matcher(Protocol):
    """A set of subscriptions that finds those that an event matches.

    Ids are int64 or strings; the first one decides which. `match` returns ids in order of addition, and a
    subscription that is replaced keeps its place; the pairs of one event in `match_batch` have no order.
    """

    def add(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Add a subscription; DuplicateId if the id is there. The filter is a `Filter` or a text in the dialect."""

    def add_many(self, subscriptions: Iterable[tuple[Id, object]] | pa.Table, dialect: str = "sql") -> None:
        """Add many subscriptions, all or none: pairs of id and filter, or an Arrow table with columns id and filter."""

    def remove(self, id: Id) -> None:
        """Remove a subscription; UnknownId if it is not there."""

    def replace(self, id: Id, filter: object, dialect: str = "sql") -> None:
        """Give a subscription another filter; it keeps its place in the order of results."""

    def match(self, event: AnyEvent) -> list[Id]:
        """The ids of the subscriptions that the event matches, each once, in order of addition."""

    def match_batch(self, events: object, *, errors: Errors | None = None) -> pa.Table:
        """Match many events: a table of `event` (row number) and `subscription` (id), in event order.

        The first bad event is raised with its row. With `errors`, a list, each is put there as (row, error) and has no
        matches.
        """

    def explain(self, id: Id, event: AnyEvent) -> Explanation:
        """Why a subscription matches an event or not: each constraint, held or not, and the values seen."""

    def near_misses(self, event: AnyEvent, limit: int = 10) -> list[NearMiss]:
        """The subscriptions that almost match: fewest failed constraints first, then order of addition."""

    def attributes(self) -> frozenset[str]:
        """The attributes that some filter mentions."""

    def __len__(self) -> int: ...
    def __contains__(self, id: object) -> bool: ...
    def __getitem__(self, id: Id) -> Subscription: ...
    def __iter__(self) -> Iterator[Id]: ...
