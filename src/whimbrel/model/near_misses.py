"""Near misses: the subscriptions that almost match an event."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.model.explain import ConjunctionExplanation, explain_conjunction, indented
from whimbrel.model.filter import Filter
from whimbrel.model.options import whole_number
from whimbrel.model.subscription import Id, Subscription


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A subscription that does not match: its id, how many constraints `failed`, and its best conjunction."""

    id: Id
    failed: int
    explanation: ConjunctionExplanation

    def to_dict(self) -> dict[str, object]:
        """The near miss as JSON-ready data."""
        return {"subscription": self.id, "failed": self.failed, **self.explanation.to_dict()}

    def __str__(self) -> str:
        return f"{self.id}: {self.failed} failed\n{indented(str(self.explanation))}"


def near_misses(subscriptions: Iterable[Subscription], event: Event, limit: int = 10) -> list[NearMiss]:
    """The subscriptions that almost match: fewest failed constraints first, then in the order given.

    Checks every subscription; stops counting its failures when it can no longer be among the best.
    """
    limit = whole_number("limit", limit)
    best: list[tuple[int, int, Subscription, Conjunction]] = []  # a heap whose first entry is the worst that is kept
    for place, subscription in enumerate(subscriptions):
        if limit < 1:
            break
        worst = -best[0][0] if len(best) == limit else None
        found = nearest_conjunction(subscription.filter, event, worst)
        if found is None:
            continue
        entry = (-found[0], -place, subscription, found[1])
        if worst is None:
            heapq.heappush(best, entry)
        else:
            heapq.heapreplace(best, entry)
    ranked = sorted(best, key=lambda entry: entry[:2], reverse=True)
    return [NearMiss(s.id, -failed, explain_conjunction(c, event, s.filter.schema)) for failed, _, s, c in ranked]


def nearest_conjunction(filter: Filter, event: Event, below: int | None) -> tuple[int, Conjunction] | None:
    """The conjunction of a filter with the fewest failed constraints, and their number.

    None if some conjunction matches, or if none has fewer than `below` failures.
    """
    best: tuple[int, Conjunction] | None = None
    for conjunction in filter.conjunctions:
        failed = _count_failed(conjunction, event, below)
        if failed == 0:
            if conjunction.matches(event):
                return None
            failed = 1
        if below is None or failed < below:
            best, below = (failed, conjunction), failed
    return best


def _count_failed(conjunction: Conjunction, event: Event, enough: int | None) -> int:
    """The number of constraints and comparisons that fail; the count stops at `enough`."""
    failed = 0
    for name, constraint in conjunction.constraints:
        failed += not constraint.admits(event.keys(name))
        if failed == enough:
            return failed
    for link in conjunction.links:
        failed += not Conjunction((), (link,)).matches(event)
    return failed
