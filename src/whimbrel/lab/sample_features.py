"""Features of a sample of subscriptions and events: shares of constructs, numbers of attributes and matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from whimbrel.matchers.capabilities import constructs
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter

_MOST = 0.8
_FEW_MATCHES = 0.01


@dataclass(frozen=True, slots=True)
class Features:
    """Counts of a sample; `constructs` has the share of each construct among all constraints and links."""

    subscriptions: int
    conjunctions: int
    events: int
    attributes: int
    constraints_per_conjunction: float
    constructs: dict[str, float]
    attributes_per_event: float
    events_with_lists: float
    matches_per_event: float | None

    @property
    def sentence(self) -> str:
        """The sample in a sentence."""
        shares = ", ".join(f"{share:.0%} {name}" for name, share in self.constructs.items())
        matches = "?" if self.matches_per_event is None else f"{self.matches_per_event:,.1f}"
        return (
            f"Sample: {self.subscriptions:,} subscriptions over {self.attributes:,} attributes, "
            f"{self.constraints_per_conjunction:.1f} constraints per conjunction ({shares or 'none'}); "
            f"{self.events:,} events of {self.attributes_per_event:.1f} attributes, {matches} matches per event."
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """The features that favour some algorithms over others, in sentences."""
        out = []
        equality = self.constructs.get("equality", 0.0)
        if equality >= _MOST:
            out.append(f"{equality:.0%} of the constraints are equalities, which an index looks up instead of testing.")
        elif equality > 0:
            out.append(f"{equality:.0%} of the constraints are equalities and {1 - equality:.0%} are not.")
        else:
            out.append("No constraint is an equality, so nothing can be looked up by its value alone.")
        matches = self.matches_per_event
        if matches is not None and matches <= _FEW_MATCHES * self.subscriptions:
            out.append("An event matches few of the subscriptions, which favours finding over ruling out.")
        elif matches is not None:
            out.append(
                f"An event matches {matches / self.subscriptions:.0%} of the subscriptions: naming them costs too."
            )
        if self.events_with_lists:
            out.append(f"{self.events_with_lists:.0%} of the events have several values of an attribute.")
        return tuple(out)


def features_of(filters: Iterable[Filter], events: Sequence[Event], matches: float | None) -> Features:
    """The features of a sample.

    >>> filters = [Filter.parse("a = 1 AND b < 5"), Filter.parse("a = 2")]
    >>> features_of(filters, [Event({"a": 1})], 1.0).constructs
    {'equality': 0.6666666666666666, 'ranges': 0.3333333333333333}
    """
    filters = list(filters)
    conjunctions = [conjunction for filter in filters for conjunction in filter.conjunctions]
    found = Counter(construct for conjunction in conjunctions for construct in constructs(conjunction))
    mentioned = {name for conjunction in conjunctions for name in conjunction.attributes}
    lists = sum(any(len(event.keys(name)) > 1 for name in mentioned) for event in events)
    return Features(
        len(filters),
        len(conjunctions),
        len(events),
        len(mentioned),
        round(sum(len(c.constraints) + len(c.links) for c in conjunctions) / max(1, len(conjunctions)), 3),
        {name: count / found.total() for name, count in found.most_common()},
        round(sum(len(event.attributes) for event in events) / max(1, len(events)), 3),
        lists / max(1, len(events)),
        matches,
    )
