"""The two routers to compare with: SIENA's, which matches every event by its content, and one that floods."""

from __future__ import annotations

from collections.abc import Hashable

from whimbrel.overlay.covering.cover_table import CoverTable
from whimbrel.overlay.covering.poset import Poset
from whimbrel.overlay.router.router import LOCAL, Route, Router
from whimbrel.overlay.router.router_messages import Effects, Forwarded
from whimbrel.overlay.tree.paths import Interest


class SienaRouter(Router):
    """Matches every event with a poset of filters. Each local filter is an interface of its own."""

    def __init__(self, name: str, table: CoverTable | None = None) -> None:
        super().__init__(name, table)
        self._poset = Poset(self.table.relation)

    def _changed(self, key: bytes, before: int, after: int) -> None:
        for bit in (LOCAL, *self._bits.values()):
            interface: Hashable = key if bit == LOCAL else bit
            if after & bit and not before & bit:
                self._poset.insert(key, interface)
            elif before & bit and not after & bit:
                self._poset.remove(key, interface)

    def _route(self, message: Forwarded, arrival: int) -> Route:
        self.counters.content_matches += 1

        def test(key: bytes) -> tuple[bool, int]:
            if self.interests[key] & LOCAL:
                self.counters.edge_checks += 1
            return self.evaluator(self.table[key], message)

        found = self._poset.match(test)
        self.counters.visited += found.visited
        self.counters.tested += found.tested
        mask = sum(one for one in found.interfaces if isinstance(one, int))
        return Route(mask, [one for one in found.interfaces if isinstance(one, bytes)], message)

    def _check_edge(self, route: Route, effects: Effects) -> bool:
        """Deliver an event to the local subscriptions that the poset found; no filter is checked again."""
        for key in route.candidates:
            effects.delivered += [(subscription, route.message) for subscription in self._local[key]]
        return bool(route.candidates)


class FloodRouter(Router):
    """Sends every event everywhere, and filters nowhere; local filters are checked one by one."""

    def _gain(self, interest: Interest, bit: int, effects: Effects) -> None:
        self.table.add(interest)
        self.interests[interest.key] = self.interests.get(interest.key, 0) | bit

    def _lose(self, key: bytes, bit: int, effects: Effects) -> None:
        del self.interests[key]

    def _route(self, message: Forwarded, arrival: int) -> Route:
        return Route(sum(self._bits.values()), list(self._local), message)
