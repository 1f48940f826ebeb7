"""Estimates what a filter would cost an index per event, without adding it.

The filter is planned together with some of the index's subscriptions, so that the planner sees the constants and the
other conjunctions of a real segment. The index does not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whimbrel.engine.access.explanation import RowPlan, plan
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.live.subscription_set import SubscriptionSet
from whimbrel.model.filter import Filter
from whimbrel.ranks.clauses.clauses import split

COMPANY = 1_000
"""Subscriptions of the index with which a filter is planned, at most: planning takes some 20 ms."""
VERIFY_NS = 40_000.0
"""Time of Python to verify a filter on an event of ten attributes: 35 us to read the event, 5 us for the filter."""


@dataclass(frozen=True, slots=True)
class ConjunctionCost:
    """How one conjunction would be found."""

    key: str
    """The kind of access key: hash, present, sorted, bitmap, signature, or always."""
    attributes: tuple[str, ...]
    """The attributes of the key."""
    share: float
    """The share of events for which the conjunction would be a candidate."""


@dataclass(frozen=True, slots=True)
class FilterCost:
    """What a filter would cost per event, on average. An unsatisfiable filter has no conjunctions and costs nothing."""

    conjunctions: tuple[ConjunctionCost, ...]
    candidates: float
    """Conjunctions that an event would have to check."""
    verifications: float
    """Times that Python would evaluate the filter itself, because ranks do not decide it."""
    nanoseconds: float


def filter_costs(subscriptions: SubscriptionSet, filters: Sequence[Filter]) -> Iterator[FilterCost]:
    """The cost of each filter beside the subscriptions of an index; some 20 ms for one, 0.3 ms for each of many."""
    live = subscriptions.ids.live()
    company = [subscriptions.filter(row) for row in live[:: max(1, len(live) // COMPANY)][:COMPANY].tolist()]
    sample = subscriptions.segments.sample
    for start in range(0, len(filters), COMPANY):
        group = filters[start : start + COMPANY]
        together = [*group, *company]
        segment = Segment.of_filters(range(len(together)), together, sample)
        for row, filter in enumerate(group):
            yield _cost(filter, plan([segment], row, sample))


def _cost(filter: Filter, planned: RowPlan) -> FilterCost:
    conjunctions = tuple(ConjunctionCost(one.key, one.attributes, one.share) for one in planned.conjunctions)
    candidates = sum(one.share for one in conjunctions)
    is_verified = any(split(conjunction)[1] for conjunction in filter.conjunctions)
    verifications = min(1.0, candidates) if is_verified else 0.0
    nanoseconds = planned.cost_ns + verifications * VERIFY_NS
    return FilterCost(conjunctions, candidates, verifications, nanoseconds)
