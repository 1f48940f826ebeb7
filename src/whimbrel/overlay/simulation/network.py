"""The simulator: routers, links with latency, and faults, as a sequence of timed steps.

Everything that happens is a step on a heap, ordered by time and then by when it was planned, and all that is random
comes from one seed: a run can be repeated exactly. Without faults a message arrives once, after the latency of its
link. With faults it may be lost, or its link or receiver may be down; then `DurableLink` sends it again.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from random import Random
from typing import TypeAlias

from whimbrel.model.event import Event
from whimbrel.overlay.router.prefix_router import PrefixRouter
from whimbrel.overlay.router.router import Router
from whimbrel.overlay.router.router_messages import Effects, Forwarded, Message
from whimbrel.overlay.simulation.run_history import RunHistory
from whimbrel.overlay.topology import Topology
from whimbrel.overlay.tree.paths import Interest

_Item: TypeAlias = tuple[Message, int]
"""A message and its cause."""
WINDOW = 64
"""Messages that are sent again at once, at most."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong: the share of packets that is lost, links that are cut and routers that are down, for some time.

    `cuts` are (from, until, one end, other end), `crashes` are (from, until, router).
    """

    loss: float = 0.0
    cuts: tuple[tuple[float, float, str, str], ...] = ()
    crashes: tuple[tuple[float, float, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.loss or self.cuts or self.crashes)


class DurableLink:
    """One end of a link: messages go out under numbers, and stay until the other end has taken them.

    It is durable: a router that crashes comes back with it. A message is acknowledged after it was taken, so none is
    lost; the number says which came before, so each is taken once and in order.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, _Item]] = deque()
        self._sent = 0
        self.taken = 0
        """The number of the last message taken, which is to be acknowledged."""

    def send(self, item: _Item) -> int:
        """Keep a message until it is acknowledged; its number."""
        self._sent += 1
        self._waiting.append((self._sent, item))
        return self._sent

    def take(self, number: int) -> bool:
        """Whether the message with this number is the next one, which is then taken."""
        is_next = number == self.taken + 1
        self.taken += is_next
        return is_next

    def acknowledge(self, number: int) -> None:
        """Drop the messages up to this number: the other end has taken them."""
        while self._waiting and self._waiting[0][0] <= number:
            self._waiting.popleft()

    def waiting(self) -> list[tuple[int, _Item]]:
        """The first messages that were not acknowledged."""
        return list(islice(self._waiting, WINDOW))


class Network:
    """Routers that run in simulated time. `now` is in seconds; `history` is what happened."""

    def __init__(
        self, topology: Topology, routers: Mapping[str, Router], seed: int, faults: Faults | None = None
    ) -> None:
        self.now = 0.0
        self.routers = dict(routers)
        self.history = RunHistory()
        self.link_events: dict[tuple[str, str], int] = {}
        self._random = Random(f"network:{seed}")
        self._faults = faults or Faults()
        self._latency: dict[tuple[str, str], float] = {}
        self._ends: dict[tuple[str, str], DurableLink] = {}
        self._retrying: set[tuple[str, str]] = set()
        self._cut: set[tuple[str, str]] = set()
        self._down: set[str] = set()
        self._steps: list[tuple[float, int, Callable[[], None]]] = []
        self._planned = 0
        self._ticks: dict[str, float] = {}
        for one, two in topology.links():
            self.join(one, two)
        for since, until, one, two in self._faults.cuts:
            both = {(one, two), (two, one)}
            self.at(since, partial(self._cut.update, both))
            self.at(until, partial(self._cut.difference_update, both))
        for since, until, name in self._faults.crashes:
            self.at(since, partial(self._down.add, name))
            self.at(until, partial(self._restart, name))

    def join(self, one: str, two: str) -> None:
        """Link two routers from now on."""
        latency = 0.001 + 0.009 * self._random.random()
        for pair in ((one, two), (two, one)):
            self._latency[pair] = latency
            self._ends[pair] = DurableLink()
        for pair in ((one, two), (two, one)):
            self._apply(pair[0], self.routers[pair[0]].link(pair[1]), self.history.begin())

    def at(self, time: float, step: Callable[[], None]) -> None:
        """Plan a step for a time."""
        self._planned += 1
        heapq.heappush(self._steps, (time, self._planned, step))

    def run(self, until: float | None = None) -> None:
        """Run all steps, or those up to a time."""
        while self._steps and (until is None or self._steps[0][0] <= until):
            self.now, _, step = heapq.heappop(self._steps)
            step()
        if until is not None:
            self.now = max(self.now, until)

    def is_up(self, name: str) -> bool:
        """Whether a router is running."""
        return name not in self._down

    def optimize(self, name: str) -> None:
        """Make a router the optimizer."""
        router = self.routers[name]
        assert isinstance(router, PrefixRouter)
        self._apply(name, router.optimize(self.now), self.history.begin())

    def subscribe(self, name: str, subscription: str, interest: Interest) -> None:
        """Add a subscription at a router that is up; others refuse."""
        if self.is_up(name):
            cause = self.history.subscribed(self.now, name, subscription, interest)
            self._apply(name, self.routers[name].subscribe(subscription, interest, self.now), cause)

    def unsubscribe(self, name: str, subscription: str) -> None:
        """End a subscription at a router that is up."""
        if self.is_up(name) and self.history.is_live(subscription):
            cause = self.history.unsubscribed(self.now, subscription)
            self._apply(name, self.routers[name].unsubscribe(subscription, self.now), cause)

    def publish(self, name: str, content: Mapping[str, object], event: Event | None = None) -> None:
        """Publish an event at a router that is up; `event` is the content as it was read before."""
        if self.is_up(name):
            event = event or Event(content)
            effects = self.routers[name].publish(event)
            self._apply(name, effects, self.history.published(self.now, name, content, event))

    def _apply(self, name: str, effects: Effects, cause: int) -> None:
        """Send the messages and record the deliveries of a call of a router."""
        for subscription, _ in effects.delivered:
            self.history.delivered(cause, subscription)
        for neighbour, message in effects.sent:
            if isinstance(message, Forwarded):
                self.link_events[name, neighbour] = self.link_events.get((name, neighbour), 0) + 1
            self.history.sent(cause)
            self._send((name, neighbour), (message, cause))
        self.history.settle(cause, self.now)
        router = self.routers[name]
        if isinstance(router, PrefixRouter):
            due = router.due(self.now)
            if due is not None and self._ticks.get(name, 0.0) <= self.now:
                self._ticks[name] = due
                self.at(due, lambda: self._tick(name))

    def _tick(self, name: str) -> None:
        router = self.routers[name]
        if self.is_up(name) and isinstance(router, PrefixRouter):
            self._apply(name, router.tick(self.now), self.history.begin())

    def _send(self, pair: tuple[str, str], item: _Item) -> None:
        if not self._faults:
            self.at(self.now + self._latency[pair], lambda: self._handle(pair, item))
            return
        number = self._ends[pair].send(item)
        self._transmit(pair, number, item)
        self._retry_later(pair)

    def _transmit(self, pair: tuple[str, str], number: int, item: _Item) -> None:
        if not self._is_lost(pair):
            self.at(self.now + self._delay(pair), lambda: self._receive(pair, number, item))

    def _receive(self, pair: tuple[str, str], number: int, item: _Item) -> None:
        sender, receiver = pair
        if receiver in self._down:
            return
        end = self._ends[receiver, sender]
        if end.take(number):
            self._handle(pair, item)
        if not self._is_lost((receiver, sender)):
            taken = end.taken
            self.at(self.now + self._delay(pair), lambda: self._acknowledged(pair, taken))

    def _acknowledged(self, pair: tuple[str, str], number: int) -> None:
        if pair[0] not in self._down:
            self._ends[pair].acknowledge(number)

    def _retry_later(self, pair: tuple[str, str]) -> None:
        if pair not in self._retrying:
            self._retrying.add(pair)
            self.at(self.now + 0.1, lambda: self._retry(pair))

    def _retry(self, pair: tuple[str, str]) -> None:
        self._retrying.discard(pair)
        waiting = self._ends[pair].waiting()
        if waiting:
            if pair[0] not in self._down:
                for number, item in waiting:
                    self._transmit(pair, number, item)
            self._retry_later(pair)

    def _is_lost(self, pair: tuple[str, str]) -> bool:
        return pair in self._cut or self._random.random() < self._faults.loss

    def _delay(self, pair: tuple[str, str]) -> float:
        """The latency of a link, which varies where there are faults: packets overtake each other."""
        return self._latency[pair] * (0.5 + self._random.random())

    def _handle(self, pair: tuple[str, str], item: _Item) -> None:
        sender, receiver = pair
        message, cause = item
        effects = self.routers[receiver].handle(sender, message, self.now)
        self.history.handled(cause)
        if isinstance(message, Forwarded):
            self.history.arrived(cause, receiver)
        self._apply(receiver, effects, cause)

    def _restart(self, name: str) -> None:
        self._down.discard(name)
        router = self.routers[name]
        if isinstance(router, PrefixRouter):
            self._apply(name, router.restart(self.now), self.history.begin())
