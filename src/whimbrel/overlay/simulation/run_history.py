"""What happened in a simulation, and the judgement of its deliveries.

A subscription must get every matching event that is published after it has propagated, and that has reached everybody
before it ends. It has propagated when it and all changes before it have: a filter may rest on one that covers it and is
still under way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from whimbrel.model.event import Event
from whimbrel.overlay.router.router import evaluate
from whimbrel.overlay.tree.paths import Interest


@dataclass(slots=True)
class SubscriptionRecord:
    """A subscription: when it was asked for, had propagated, and ended."""

    id: str
    interest: Interest
    router: str
    asked: float
    propagated: float | None = None
    ended: float | None = None


@dataclass(slots=True)
class EventRecord:
    """An event: when it was published, when its last copy was handled, who got it, and which routers did how often."""

    router: str
    published: float
    content: Mapping[str, object]
    event: Event
    handled: float = 0.0
    deliveries: Counter[str] = field(default_factory=Counter)
    arrivals: Counter[str] = field(default_factory=Counter)


class Truth:
    """Which filters match an event, found centrally, without routers; kept for several runs of the same events."""

    def __init__(self) -> None:
        self._always: list[Interest] = []
        self._by_attribute: dict[str, list[Interest]] = {}
        self._known: set[bytes] = set()
        self._found: dict[Event, set[bytes]] = {}

    def add(self, interest: Interest) -> None:
        """Add a filter. Those that need a value of some attribute are looked up by it."""
        if interest.key in self._known:
            return
        self._known.add(interest.key)
        paths = interest.paths
        if len(paths) == 1 and paths[0]:
            self._by_attribute.setdefault(paths[0][0][0], []).append(interest)
        else:
            self._always.append(interest)

    def matching(self, event: Event) -> set[bytes]:
        """The keys of the filters that an event matches. All filters must have been added before."""
        found = self._found.get(event)
        if found is None:
            candidates = [*self._always]
            for name in event.attributes:
                candidates += self._by_attribute.get(name, ())
            found = self._found[event] = {one.key for one in candidates if evaluate(one.filter, event)[0]}
        return found


class RunHistory:
    """Records of a run. Every change and event is a cause; a cause is over when all its messages are handled."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, SubscriptionRecord] = {}
        self.events: list[EventRecord] = []
        self._open: dict[int, int] = {}
        self._causes = 0
        self._of_cause: dict[int, EventRecord] = {}
        self._unsettled: dict[int, SubscriptionRecord] = {}

    def begin(self) -> int:
        """Start a cause, and return its number."""
        self._causes += 1
        self._open[self._causes] = 0
        return self._causes

    def subscribed(self, now: float, router: str, subscription: str, interest: Interest) -> int:
        """Record a new subscription. Return its cause."""
        cause = self.begin()
        record = SubscriptionRecord(subscription, interest, router, now)
        self.subscriptions[subscription] = self._unsettled[cause] = record
        return cause

    def unsubscribed(self, now: float, subscription: str) -> int:
        """Record the end of a subscription. Return its cause."""
        self.subscriptions[subscription].ended = now
        return self.begin()

    def is_live(self, subscription: str) -> bool:
        """Whether a subscription is there and has not ended."""
        record = self.subscriptions.get(subscription)
        return record is not None and record.ended is None

    def published(self, now: float, router: str, content: Mapping[str, object], event: Event) -> int:
        """Record a new event. Return its cause."""
        cause = self.begin()
        record = EventRecord(router, now, content, event, now)
        self.events.append(record)
        self._of_cause[cause] = record
        return cause

    def sent(self, cause: int) -> None:
        """Count a message of a cause as under way."""
        self._open[cause] = self._open.get(cause, 0) + 1

    def handled(self, cause: int) -> None:
        """Count a message of a cause as handled. The messages that follow from it are counted next."""
        self._open[cause] -= 1

    def arrived(self, cause: int, router: str) -> None:
        """Record that an event reached a router over a link."""
        self._of_cause[cause].arrivals[router] += 1

    def delivered(self, cause: int, subscription: str) -> None:
        """Record that an event was delivered to a subscription."""
        self._of_cause[cause].deliveries[subscription] += 1

    def settle(self, cause: int, now: float) -> None:
        """Note, at the end of a step, which causes are over: their subscriptions have propagated."""
        if not self._open.get(cause):
            self._open.pop(cause, None)
        event = self._of_cause.get(cause)
        if event is not None:
            event.handled = now
            return
        while self._unsettled:
            first = next(iter(self._unsettled))
            if any(other <= first and other not in self._of_cause for other in self._open):
                break
            self._unsettled.pop(first).propagated = now

    def missing(self, truth: Truth) -> Iterator[tuple[EventRecord, SubscriptionRecord]]:
        """The deliveries that should have happened and did not."""
        by_key = self._by_key()
        for event in self.events:
            for key in truth.matching(event.event):
                for one in by_key.get(key, ()):
                    due = one.propagated is not None and one.propagated <= event.published
                    if due and (one.ended is None or one.ended > event.handled) and one.id not in event.deliveries:
                        yield event, one

    def wrong(self, truth: Truth) -> Iterator[tuple[EventRecord, str]]:
        """The deliveries of events to subscriptions that they do not match."""
        for event in self.events:
            matching = truth.matching(event.event)
            for subscription in event.deliveries:
                if self.subscriptions[subscription].interest.key not in matching:
                    yield event, subscription

    def duplicates(self) -> int:
        """The number of deliveries and arrivals beyond the first of each."""
        return sum(
            count - 1 for event in self.events for seen in (event.deliveries, event.arrivals) for count in seen.values()
        )

    def _by_key(self) -> dict[bytes, list[SubscriptionRecord]]:
        out: dict[bytes, list[SubscriptionRecord]] = {}
        for record in self.subscriptions.values():
            out.setdefault(record.interest.key, []).append(record)
        return out
