"""The quotas of a principal: a number of subscriptions, and a cost per event for all its filters together.

Adding up costs on every request would take long. So the last sum is kept and what was added since is added to it; when
that reaches the limit, it is added up again, because subscriptions also end. Open streams of a filter, which no store
has, are counted apart.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from whimbrel.broker.requests.errors import QUOTA_SECONDS, TooManyRequests, Unprocessable
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.store import Store
from whimbrel.engine.index import Index
from whimbrel.model.filter import Filter

CHEAP_LENGTH = 512
"""A filter no longer than this is cheap, whatever it says, unless it has a regular expression."""
_SAMPLE = 1_000


@dataclass(eq=False)
class Quotas:
    """The quotas of a broker. Costs are asked for in a thread: they take milliseconds."""

    _settings: Settings
    _store: Store
    _index: Index

    def __post_init__(self) -> None:
        self._costs: dict[str, float] = {}
        self._streams: dict[object, tuple[str, float]] = {}  # open streams: whose they are, and what they cost
        self._taking = threading.Lock()  # of the costs: imports take them in other threads than single requests

    def is_judged(self, text: str) -> bool:
        """Whether the cost of a filter must be estimated: always if each has a limit, else if it may be expensive.

        Expensive filters are long ones, and those with a regular expression, which the engine may have to try
        on every event.
        """
        if self._settings.filter_nanoseconds > 0:
            return True
        return self._settings.token_nanoseconds > 0 and (len(text) > CHEAP_LENGTH or "rlike" in text.lower())

    def check_count(self, owner: str, more: int) -> None:
        """Raise TooManyRequests if the principal may not have `more` further subscriptions."""
        limit = self._settings.subscriptions_per_token
        if self._store.count_subscriptions(owner) + more > limit:
            raise TooManyRequests(f"Expected at most {limit:,} subscriptions of {owner!r}", QUOTA_SECONDS)

    def judge(self, filters: Sequence[Filter]) -> list[float | Unprocessable]:
        """What each filter would cost an event, in nanoseconds, or the error if that alone is too much."""
        limit = self._settings.filter_nanoseconds
        costs = (cost.nanoseconds for cost in self._index.costs(filters))
        return [_too_expensive(limit, cost) if 0 < limit < cost else cost for cost in costs]

    def take_cost(self, owner: str, nanoseconds: float, stream: object = None) -> None:
        """Charge a cost to the quota of a principal; TooManyRequests if too little of it is left.

        The cost of a stream counts until `give_back` is called with it.
        """
        limit = self._settings.token_nanoseconds
        if limit <= 0:
            return
        with self._taking:
            wanted = nanoseconds + sum(cost for name, cost in list(self._streams.values()) if name == owner)
            if owner not in self._costs or self._costs[owner] + wanted > limit:
                self._costs[owner] = self._cost_of(owner)
            if self._costs[owner] + wanted > limit:
                raise TooManyRequests(
                    f"Expected filters of {owner!r} that cost at most {limit:,.0f} ns per event together", QUOTA_SECONDS
                )
            if stream is None:
                self._costs[owner] += nanoseconds
            else:
                self._streams[stream] = owner, nanoseconds

    def give_back(self, stream: object) -> None:
        """Release the cost of a stream that is closed."""
        self._streams.pop(stream, None)

    def _cost_of(self, owner: str) -> float:
        """What the principal's subscriptions cost together: by a sample of them."""
        held = self._store.subscriptions("", _SAMPLE, owner)
        if not held:
            return 0.0
        filters = [one.parse(self._index.schema) for one in held]
        mean = sum(cost.nanoseconds for cost in self._index.costs(filters)) / len(held)
        return mean * self._store.count_subscriptions(owner)


def _too_expensive(limit: float, nanoseconds: float) -> Unprocessable:
    return Unprocessable(
        f"Expected a filter of at most {limit:,.0f} ns per event, but this one would cost about {nanoseconds:,.0f}",
        "filter-too-expensive",
    )
