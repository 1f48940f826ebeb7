"""The router of a broker: `PrefixRouter`, fed with subscriptions, filters of peers, and entries of the log.

One thread of its own runs all of it (`RouterThread`), so that nothing else waits for a large tree, which takes seconds.
Messages to peers come out as messages of `wire`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from time import monotonic
from typing import NamedTuple

from whimbrel.broker.peering import wire
from whimbrel.broker.peering.log_feed import LoggedEvent
from whimbrel.broker.requests.settings import Settings
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.json_text import parse_json
from whimbrel.model.token_rules import Rules, allows_text, constrain
from whimbrel.overlay.router import router_messages
from whimbrel.overlay.router.optimizer import OptimizerSettings
from whimbrel.overlay.router.prefix_router import PrefixRouter, PrefixSettings
from whimbrel.overlay.router.router_messages import Effects
from whimbrel.overlay.tree.paths import Interest, interest_key

ROUTES = 65_536
"""Routes of events that are kept, so that an event is matched once for all links."""

Sent = tuple[str, wire.LinkMessage]
"""A peer and a message to it."""


class KeptRoute(NamedTuple):
    """Which peers want an event, as bits of `mask`; valid until the router changes, which counts `generation` up."""

    generation: int
    mask: int
    prefix: bytes


class LinkRouter:
    """Feeds a `PrefixRouter`, and turns what it says into messages of the wire. One thread calls it.

    With `matches_all` the filters of this broker cannot be told to others, who send it all events.
    """

    def __init__(
        self, id: str, settings: Settings, timestamps: frozenset[str] = frozenset(), matches_all: bool = False
    ) -> None:
        optimizer = OptimizerSettings(trigger=settings.optimizer_seconds)
        self.router = PrefixRouter(id, PrefixSettings(optimizer=optimizer, every_hop=settings.match_every_hop))
        self.refused_filters = 0
        self._peer_filters = settings.peer_filters
        self._timestamps = timestamps
        self._matches_all = matches_all
        self._versions: dict[str, int] = {}  # local subscriptions and the numbers of their versions
        self._theirs: dict[str, dict[bytes, bytes]] = {}  # filters of peers: their keys to ours
        self._uses: Counter[tuple[str, bytes]] = Counter()  # of ours by a peer: rules may make two of its filters one
        self._rules: dict[str, Rules] = {}
        self._routes: dict[int, KeptRoute] = {}
        self._generation = 0

    @property
    def peers(self) -> list[str]:
        """The ids of all peers."""
        return list(self._theirs)

    def put(self, id: str, number: int, text: str, dialect: str) -> list[Sent]:
        """Set the filter of a local subscription. Its former filter ends after peers know the new one."""
        former = self._versions.get(id)
        if former is not None and former >= number > 0:
            return []
        filter = Filter.parse("TRUE") if self._matches_all else Filter.parse(text, dialect)
        self._versions[id] = number
        effects = self.router.subscribe(f"{id}@{number}", Interest(filter), monotonic())
        if former is not None:
            effects.sent += self.router.unsubscribe(f"{id}@{former}", monotonic()).sent
        return self._messages_of(effects)

    def end(self, id: str) -> list[Sent]:
        """Remove a local subscription."""
        number = self._versions.pop(id, None)
        return [] if number is None else self._messages_of(self.router.unsubscribe(f"{id}@{number}", monotonic()))

    def join(self, peer: str, rules: Rules) -> None:
        """Add a peer; `rules` constrain what it may see."""
        self.router.join(peer)
        self._theirs.setdefault(peer, {})
        self._rules[peer] = rules

    def leave(self, peer: str) -> list[Sent]:
        """Remove a peer and its filters."""
        theirs = self._theirs.pop(peer, None)
        if theirs is None:
            return []
        for ours in theirs.values():
            self._uses.pop((peer, ours), None)
        del self._rules[peer]
        return self._messages_of(self.router.unlink(peer))

    def readable(self, peer: str, added: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the filters of a peer that are new, parse, and are within the limit. Count the others as refused."""
        theirs = self._theirs.get(peer, {})
        good: dict[bytes, tuple[str, str]] = {}
        for tenant, text in added:
            key = interest_key(tenant, text)
            if key in theirs:
                continue
            if len(theirs) + len(good) >= self._peer_filters:
                self.refused_filters += 1
                continue
            try:
                Interest(constrain(Filter.parse(text), self._rules.get(peer, {})), tenant)
                good[key] = tenant, text
            except WhimbrelError:
                self.refused_filters += 1
        return list(good.values())

    def change_filters(self, peer: str, added: Iterable[tuple[str, str]], removed: Iterable[bytes] = ()) -> list[Sent]:
        """Add and remove filters of a peer, which must be in the log already."""
        sent: list[Sent] = []
        theirs = self._theirs.get(peer)
        if theirs is None:  # it has left meanwhile
            return sent
        for tenant, text in added:
            key = interest_key(tenant, text)
            if key not in theirs:
                interest = Interest(constrain(Filter.parse(text), self._rules[peer]), tenant)
                theirs[key] = interest.key
                self._uses[peer, interest.key] += 1
                sent += self._messages_of(self.router.handle(peer, router_messages.Subscribe(interest), monotonic()))
        for key in removed:
            ours = theirs.pop(key, None)
            if ours is None:
                continue
            self._uses[peer, ours] -= 1
            if not self._uses[peer, ours]:
                del self._uses[peer, ours]
                sent += self._messages_of(self.router.handle(peer, router_messages.Unsubscribe(ours), monotonic()))
        return sent

    def held(self, peer: str) -> list[bytes]:
        """The keys of the filters of a peer."""
        return list(self._theirs[peer])

    def resume(self, peer: str, held: set[bytes]) -> list[Sent]:
        """Tell a peer that has connected how our filters differ from the filters that it has, whose keys are `held`."""
        return self._messages_of(self.router.resume(peer, held))

    def tree_message(self, peer: str, message: router_messages.Message) -> list[Sent]:
        """Handle a peer's message about the tree or the optimizer."""
        if peer not in self._theirs:
            return []
        return self._messages_of(self.router.handle(peer, message, monotonic()))

    def optimize(self) -> list[Sent]:
        """Become the optimizer."""
        return self._messages_of(self.router.optimize(monotonic()))

    def tick(self) -> list[Sent]:
        """Publish a version of the tree, if one is due."""
        due = self.router.due(monotonic())
        return self._messages_of(self.router.tick(monotonic())) if due is not None and due <= monotonic() else []

    def outgoing(self, peer: str, events: Iterable[LoggedEvent]) -> list[wire.ForwardedItem]:
        """Return the events that a peer wants, as they are sent."""
        bit = self.router.bit(peer)
        rules = self._rules[peer]
        items: list[wire.ForwardedItem] = []
        for event in events:
            if event.peer == peer:
                continue
            route = self.route(event)
            if route.mask & bit and (not rules or allows_text(rules, event.raw, self._timestamps)):
                items.append(
                    wire.ForwardedItem(
                        event.offset, event.origin, event.origin_offset, event.tenant, route.prefix, event.raw
                    )
                )
        return items

    def route(self, event: LoggedEvent) -> KeptRoute:
        """Find which peers want an event. The route is kept, so that an event is matched once for all links.

        An event is matched again if the router has changed and its prefix can no longer be read.
        """
        kept = self._routes.get(event.offset)
        if kept is not None and kept.generation == self._generation:
            return kept
        arrival = self.router.bit(event.peer) if event.peer in self._theirs else 0
        prefix = event.prefix if kept is None else kept.prefix
        try:
            mask, coded = self.router.onward(prefix, lambda: self.read(event.raw), arrival)
        except WhimbrelError:  # it cannot be read here: let others decide
            mask, coded = -1, b""
        made = self._routes[event.offset] = KeptRoute(self._generation, mask, coded)
        while len(self._routes) > ROUTES:
            del self._routes[next(iter(self._routes))]
        return made

    def read(self, raw: bytes) -> Event:
        """Parse an event, as filters see it."""
        return Event.of(parse_json(raw), self._timestamps)

    def count_false_positives(self, events: Iterable[LoggedEvent]) -> None:
        """Count events of peers that match nothing here and that no other peer wants."""
        for event in events:
            if self.route(event).mask == 0:
                self.router.counters.false_positives += 1

    def _messages_of(self, effects: Effects) -> list[Sent]:
        """Turn the effects of a call into messages, and make all kept routes invalid."""
        self._generation += 1
        return [(peer, _to_wire(message)) for peer, message in effects.sent]


def _to_wire(message: router_messages.Message) -> wire.LinkMessage:
    match message:
        case router_messages.Subscribe(interest):
            return wire.Filters([(interest.tenant, interest.text)])
        case router_messages.Unsubscribe(key):
            return wire.Filters([], [key])
        case router_messages.Announce(epoch, optimizer, version):
            return wire.OptimizerMessage(epoch, optimizer, version)
        case router_messages.TreeUpdate(version, base, changes, digest):
            told = [("", "", one) if isinstance(one, bytes) else (one.tenant, one.text, b"") for one in changes]
            return wire.TreeUpdateMessage(version, base, told, digest)
        case router_messages.TreeRequest(version):
            return wire.TreeRequestMessage(version)
        case router_messages.WholeTree(version, data):
            return wire.WholeTreeMessage(version, data)
        case router_messages.Forwarded():
            raise AssertionError("events are forwarded from the log")


def from_wire(message: wire.LinkMessage) -> router_messages.Message | None:
    """The message to a router that a wire message about the tree or the optimizer stands for; None for any other.

    WhimbrelError if it cannot be read.
    """
    match message:
        case wire.OptimizerMessage(epoch, optimizer, version):
            return router_messages.Announce(epoch, optimizer, version)
        case wire.TreeUpdateMessage(version, base, changes, digest):
            read = [key or Interest(Filter.parse(text), tenant) for tenant, text, key in changes]
            return router_messages.TreeUpdate(version, base, tuple(read), digest)
        case wire.TreeRequestMessage(version):
            return router_messages.TreeRequest(version)
        case wire.WholeTreeMessage(version, data):
            return router_messages.WholeTree(version, data)
    return None
