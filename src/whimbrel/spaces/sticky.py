"""Pairs that are remembered: subscriptions with hysteresis or dwell.

Such a subscription has an inner and an outer region. A publication enters when it matches the inner one, and is out
when it does not match the outer one, which hysteresis widens by a margin. With dwell it leaves only after it has been
out for so long without a break. Only these pairs are stored; all others follow from the regions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from whimbrel.spaces.notices import DELETE, ENTER, LEAVE, Collected


@dataclass(frozen=True, slots=True)
class Options:
    """What a subscription asked for."""

    leave: bool = False
    hysteresis: Mapping[str, float] = field(default_factory=dict)
    dwell: float = 0.0

    @property
    def is_sticky(self) -> bool:
        """Whether its pairs must be remembered."""
        return bool(self.hysteresis) or self.dwell > 0


class Sticky:
    """Who is inside of which subscription, and who is about to leave."""

    def __init__(self) -> None:
        self.options: dict[int, Options] = {}
        self.outer: dict[int, int] = {}
        self.inner: dict[int, int] = {}
        self.inside: dict[int, dict[int, float | None]] = {}
        """By subscription: the publications inside; when they leave, if they are out already."""
        self._due: list[tuple[float, int, int]] = []

    def add(self, number: int, options: Options, outer: int) -> None:
        """A subscription and the member that has its outer region (itself, without hysteresis)."""
        self.options[number] = options
        self.inside[number] = {}
        self.outer[number] = outer
        self.inner[outer] = number

    def drop(self, number: int) -> None:
        """Forget a subscription."""
        del self.options[number], self.inside[number]
        del self.inner[self.outer.pop(number)]

    def entered(self, member: int, publication: int, to: Collected) -> None:
        """The publication now matches a member: the inner region, or the outer one."""
        number = self.inner.get(member, member)
        pairs = self.inside[number]
        if publication in pairs:
            pairs[publication] = None
        elif member == number:
            pairs[publication] = None
            to.add_pairs([(number, publication)], ENTER)

    def left(self, member: int, publication: int, now: float, to: Collected) -> None:
        """The publication no longer matches an outer region."""
        number = self.inner[member]
        pairs = self.inside[number]
        if publication not in pairs or pairs[publication] is not None:
            return
        options = self.options[number]
        if options.dwell > 0:
            pairs[publication] = now + options.dwell
            heapq.heappush(self._due, (now + options.dwell, number, publication))
        else:
            self.leave(number, publication, to)

    def replaced(self, number: int, inner: Iterable[int], outer: Iterable[int], now: float, to: Collected) -> None:
        """The subscription has other regions, which these publications match."""
        around = set(outer)
        for publication in inner:
            self.entered(number, publication, to)
        for publication in list(self.inside[number]):
            if publication in around:
                self.inside[number][publication] = None
            else:
                self.left(self.outer[number], publication, now, to)

    def deleted(self, publication: int, to: Collected) -> None:
        """The publication is no more."""
        for number, pairs in self.inside.items():
            if publication in pairs:
                del pairs[publication]
                to.add_pairs([(number, publication)], DELETE)

    def due(self, now: float) -> list[tuple[int, int]]:
        """The pairs whose time has come."""
        found = []
        while self._due and self._due[0][0] <= now:
            due, number, publication = heapq.heappop(self._due)
            if self.inside.get(number, {}).get(publication) == due:
                found.append((number, publication))
        return list(dict.fromkeys(found))

    def has(self, publication: int) -> list[int]:
        """The subscriptions that a publication is inside of."""
        return [number for number, pairs in self.inside.items() if publication in pairs]

    def restore(self, number: int, pairs: dict[int, float | None]) -> None:
        """Take over who is inside."""
        self.inside[number] = pairs
        for publication, due in pairs.items():
            if due is not None:
                heapq.heappush(self._due, (due, number, publication))

    def leave(self, number: int, publication: int, to: Collected) -> None:
        """The pair is over."""
        del self.inside[number][publication]
        if self.options[number].leave:
            to.add_pairs([(number, publication)], LEAVE)
