"""What all routers do: keep who wants what, tell the neighbours, and deliver events to local subscriptions.

A router is driven by calls: each changes it in place and returns the messages to send. It reads no clock, does no I/O
and draws nothing at random, so the simulator and real brokers run the same code. Links must form a tree, and bring
messages once and in order.

A filter goes to a neighbour unless one that covers it has gone there (ERR-22g in docs/papers.md). The neighbour that
leads to the optimizer gets all of them. When a filter ends, those that rested on it are offered before its end is sent,
so that no event falls between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from whimbrel.model.errors import DuplicateId, UnknownId, WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.limits import Limit
from whimbrel.overlay.covering.cover_table import CoverTable
from whimbrel.overlay.router.offers import Offers
from whimbrel.overlay.router.router_messages import Effects, Forwarded, Message, Subscribe, Unsubscribe
from whimbrel.overlay.tree.paths import Interest

LOCAL = 1
"""The bit of local subscriptions in a mask of interfaces; neighbours have the others."""
NEIGHBOUR_FILTERS = Limit("filters of a neighbour", 1_000_000, "filters", "each is kept in memory, and in the tree")
ROUTER_LINKS = Limit("links of a router", 61, "neighbours", "interfaces are the bits of one integer")
_KEPT_SIZES = 65_536
"""Sizes of prefixes that a router remembers; older ones are dropped."""


@dataclass(slots=True)
class Counters:
    """Sums over the life of a router. Work is `visited` + `tested`: nodes and filters read, and bounds compared."""

    arrived: int = 0
    """Events that came, from publishers and over links."""
    repeated: int = 0
    """Events that had come before, and were dropped."""
    content_matches: int = 0
    """Events that were matched by their content because it is the router's part."""
    fallbacks: int = 0
    """Events that were matched by their content because their prefix could not be used."""
    malformed: int = 0
    """Prefixes that were refused."""
    edge_checks: int = 0
    """Filters of local subscriptions that were compared with an event."""
    false_positives: int = 0
    """Events that came over a link in vain, or were wrongly selected for local subscriptions."""
    visited: int = 0
    tested: int = 0
    forward_visited: int = 0
    """The part of `visited` that forwarding by prefix took."""
    filter_messages: int = 0
    suppressed_filters: int = 0
    """Filters that were not sent to a neighbour because one that covers them was."""
    refused_filters: int = 0
    """Filters of neighbours that have too many."""
    tree_updates: int = 0
    tree_update_bytes: int = 0
    prefix_bytes: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT_SIZES))
    """The sizes of the last prefixes that were made here."""
    prefix_nodes: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT_SIZES))

    @property
    def work(self) -> int:
        """All matching work: nodes visited and comparisons made."""
        return self.visited + self.tested


class UnexpectedMessage(WhimbrelError):
    """A router got a message that it does not understand, or one from a router that is not its neighbour."""

    def __init__(self, router: str, neighbour: str, found: str) -> None:
        self.router, self.neighbour, self.found = router, neighbour, found
        super().__init__(f"Expected a message of the overlay, but router {router!r} got {found} from {neighbour!r}")


class Route(NamedTuple):
    """Where an event goes: interfaces as bits, the local filters to check, and the event as neighbours get it."""

    mask: int
    candidates: list[bytes]
    message: Forwarded


class Router(ABC):
    """The state of one router. Subclasses say how an event is routed.

    `table` may be shared by routers of one process: it only saves comparisons of filters.
    """

    def __init__(self, name: str, table: CoverTable | None = None) -> None:
        self.name = name
        self.counters = Counters()
        self.interests: dict[bytes, int] = {}
        self.table = table or CoverTable()
        self._owns_table = table is None
        self._bits: dict[str, int] = {}
        self._offers: dict[str, Offers] = {}
        self._counts: dict[int, int] = {}
        self._subscriptions: dict[str, Interest] = {}
        self._local: dict[bytes, dict[str, None]] = {}
        self._seen: dict[str, int] = {}
        self._offset = 0
        self._toward: str | None = None
        self.evaluator: Callable[[Interest, Forwarded], tuple[bool, int]] = evaluate_interest

    @property
    def neighbours(self) -> list[str]:
        """The names of the neighbours."""
        return list(self._bits)

    def bit(self, neighbour: str) -> int:
        """The bit of a neighbour in masks of interfaces."""
        return self._bits[neighbour]

    def subscriptions_of(self, key: bytes) -> list[str]:
        """The local subscriptions with a filter."""
        return list(self._local.get(key, ()))

    def join(self, neighbour: str) -> None:
        """Add a neighbour without telling it anything."""
        if neighbour not in self._bits:
            ROUTER_LINKS.check(len(self._bits) + 1, self.name)
            taken = set(self._bits.values())
            self._bits[neighbour] = next(bit for place in range(1, 63) if (bit := 1 << place) not in taken)
            self._offers[neighbour] = Offers()

    def link(self, neighbour: str) -> Effects:
        """Add a neighbour, and tell it which filters are wanted here."""
        self.join(neighbour)
        effects = Effects()
        for key in list(self.interests):
            self._offer(key, neighbour, effects)
        return effects

    def resume(self, neighbour: str, held: Set[bytes]) -> Effects:
        """Tell a neighbour, which has the filters `held` (keys) from here, how they differ from what is wanted now.

        New filters are sent before the end of others, so that no event falls between.
        """
        effects = Effects()
        bit = self._bits[neighbour]
        self._offers[neighbour] = Offers({key for key in held if self.interests.get(key, 0) & ~bit})
        effects.sent += self.link(neighbour).sent
        for key in sorted(held - self._offers[neighbour].sent):
            self._send_filter(neighbour, Unsubscribe(key), effects)
        return effects

    def unlink(self, neighbour: str) -> Effects:
        """Remove a neighbour for good, with all filters that it wanted."""
        effects = Effects()
        bit = self._bits[neighbour]
        for key in [key for key, mask in self.interests.items() if mask & bit]:
            self._lose(key, bit, effects)
        effects.sent = [(other, message) for other, message in effects.sent if other != neighbour]
        del self._bits[neighbour], self._offers[neighbour]
        if self._toward == neighbour:
            self._toward = None
        return effects

    def subscribe(self, subscription: str, interest: Interest, now: float = 0.0) -> Effects:
        """Add a local subscription."""
        if subscription in self._subscriptions:
            raise DuplicateId(subscription)
        effects = Effects()
        self._subscriptions[subscription] = interest
        self._local.setdefault(interest.key, {})[subscription] = None
        self._gain(interest, LOCAL, effects)
        return self._finish(effects, now)

    def unsubscribe(self, subscription: str, now: float = 0.0) -> Effects:
        """Remove a local subscription."""
        if subscription not in self._subscriptions:
            raise UnknownId(subscription)
        effects = Effects()
        key = self._subscriptions.pop(subscription).key
        del self._local[key][subscription]
        if not self._local[key]:
            del self._local[key]
            self._lose(key, LOCAL, effects)
        return self._finish(effects, now)

    def publish(self, event: Event, tenant: str = "") -> Effects:
        """Route an event of a publisher."""
        self._offset += 1
        return self._accept(Forwarded(self.name, self._offset, event, b"", tenant), None)

    def handle(self, neighbour: str, message: Message, now: float = 0.0) -> Effects:
        """Handle a message of a neighbour; UnexpectedMessage if it is none or the message is not understood."""
        effects = Effects()
        if neighbour not in self._bits:
            raise UnexpectedMessage(self.name, neighbour, type(message).__name__)
        match message:
            case Forwarded():
                effects = self._accept(message, neighbour)
            case Subscribe(interest):
                self._gain(interest, self._bits[neighbour], effects)
            case Unsubscribe(key):
                self._lose(key, self._bits[neighbour], effects)
            case _:
                effects = self._handle_other(neighbour, message, now)
        return self._finish(effects, now)

    @abstractmethod
    def _route(self, message: Forwarded, arrival: int) -> Route:
        """Decide where an event goes that came over the interface `arrival`, which is 0 for a publisher's."""

    def _handle_other(self, neighbour: str, message: Message, now: float) -> Effects:
        """Handle a message that only some kinds of routers understand."""
        raise UnexpectedMessage(self.name, neighbour, type(message).__name__)

    def _finish(self, effects: Effects, now: float) -> Effects:
        """Add what follows from a change. A subclass may publish a version of the tree here."""
        return effects

    def _changed(self, key: bytes, before: int, after: int) -> None:  # noqa: B027 - most need not know
        """Called when the interfaces that want a filter have changed: masks before and after."""

    def _accept(self, message: Forwarded, neighbour: str | None) -> Effects:
        """Route an event, unless it has arrived before, and deliver it to local subscriptions."""
        effects = Effects()
        if message.offset <= self._seen.get(message.origin, 0):
            self.counters.repeated += 1
            return effects
        self._seen[message.origin] = message.offset
        self.counters.arrived += 1
        arrival = 0 if neighbour is None else self._bits[neighbour]
        route = self._route(message, arrival)
        matched = self._check_edge(route, effects)
        onward = route.mask & ~arrival & ~LOCAL
        for other, bit in self._bits.items():
            if onward & bit:
                effects.sent.append((other, route.message))
        if not matched and (route.candidates or (neighbour is not None and not onward)):
            self.counters.false_positives += 1
        return effects

    def _check_edge(self, route: Route, effects: Effects) -> bool:
        """Deliver an event to the local subscriptions that it matches. Return whether there are any."""
        matched = False
        for key in route.candidates:
            holds, tested = self.evaluator(self.table[key], route.message)
            self.counters.edge_checks += 1
            self.counters.visited += 1
            self.counters.tested += tested
            if holds:
                matched = True
                effects.delivered += [(subscription, route.message) for subscription in self._local[key]]
        return matched

    def _gain(self, interest: Interest, bit: int, effects: Effects) -> None:
        """Note that an interface wants a filter, and offer the filter to all other neighbours."""
        key = interest.key
        if not interest.paths:  # nothing matches it
            return
        before = self.interests.get(key, 0)
        if before & bit:
            return
        if bit != LOCAL and self._counts.get(bit, 0) >= NEIGHBOUR_FILTERS.value:
            self.counters.refused_filters += 1
            return
        self.table.add(interest)
        self.interests[key] = before | bit
        self._counts[bit] = self._counts.get(bit, 0) + 1
        self._changed(key, before, before | bit)
        for neighbour, other in self._bits.items():
            if other != bit:
                self._offer(key, neighbour, effects)

    def _lose(self, key: bytes, bit: int, effects: Effects) -> None:
        """Note that an interface no longer wants a filter, and tell the neighbours to which that matters."""
        before = self.interests.get(key, 0)
        if not before & bit:
            return
        after = before & ~bit
        if after:
            self.interests[key] = after
        else:
            del self.interests[key]
        self._counts[bit] -= 1
        self._changed(key, before, after)
        for neighbour, other in self._bits.items():
            offers = self._offers[neighbour]
            if other != bit and key in offers and not after & ~other:
                was_sent = key in offers.sent
                for orphan in offers.remove(key):
                    self._offer(orphan, neighbour, effects)
                if was_sent:
                    self._send_filter(neighbour, Unsubscribe(key), effects)
        if self._owns_table and not after:
            self.table.remove(key)

    def _offer(self, key: bytes, neighbour: str, effects: Effects) -> None:
        """Send a filter to a neighbour if somebody else wants it and no filter that covers it was offered."""
        offers = self._offers[neighbour]
        if key in offers.sent or not self.interests[key] & ~self._bits[neighbour]:
            return
        if neighbour != self._toward:
            if key in offers:
                return
            above = self.table.find(key, offers.__contains__)
            if above is not None:
                offers.rest(key, above)
                self.counters.suppressed_filters += 1
                return
        offers.send(key)
        self._send_filter(neighbour, Subscribe(self.table[key]), effects)

    def _send_filter(self, neighbour: str, message: Subscribe | Unsubscribe, effects: Effects) -> None:
        self.counters.filter_messages += 1
        effects.sent.append((neighbour, message))


def evaluate_interest(interest: Interest, message: Forwarded) -> tuple[bool, int]:
    """Whether an event matches a filter of its tenant, and how many constraints were tested."""
    return evaluate(interest.filter, message.event) if interest.tenant == message.tenant else (False, 1)


def evaluate(filter: Filter, event: Event) -> tuple[bool, int]:
    """`filter.matches(event)`, and how many constraints were tested."""
    if filter.schema is not None:
        return filter.matches(event), max(1, len(filter.attributes))
    tested = 0
    for conjunction in filter.conjunctions:
        holds = True
        for name, constraint in conjunction.constraints:
            tested += 1
            if not constraint.admits(event.keys(name)):
                holds = False
                break
        if holds:
            if not conjunction.links and not event.has_elements:
                return True, tested
            tested += max(1, len(conjunction.links))
            if conjunction.matches(event):
                return True, tested
    return False, max(1, tested)
