"""Subscriptions with hysteresis or dwell: their regions, and what they are told.

Such a subscription has an inner and an outer region. A publication enters when it matches the inner one, and is out
when it no longer matches the outer one, which hysteresis widens by a margin. With dwell it leaves only after it has
been out for that long without a break. `publications.dwell` remembers who is inside; only these pairs are stored, all
others follow from the regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from whimbrel.publications.dwell import DwellPairs
from whimbrel.spaces.state.notifications import DELETE, ENTER, LEAVE, NotificationBuilder


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """The options of a subscription: whether it is told of leaves, margins by dimension, dwell in seconds."""

    leave: bool = False
    hysteresis: Mapping[str, float] = field(default_factory=dict)
    dwell: float = 0.0

    @property
    def remembers_pairs(self) -> bool:
        """Whether its pairs must be stored."""
        return bool(self.hysteresis) or self.dwell > 0


class DwellSubscriptions:
    """The subscriptions whose pairs are stored, by number, and the members that hold their outer regions."""

    def __init__(self) -> None:
        self.options: dict[int, SubscriptionOptions] = {}
        self.pairs: DwellPairs[int, int] = DwellPairs()
        self.outer: dict[int, int] = {}
        """By subscription: the member with its outer region, which is itself without hysteresis."""
        self._inner: dict[int, int] = {}
        """By member with an outer region: its subscription."""

    def add(self, number: int, options: SubscriptionOptions, outer: int) -> None:
        """Add a subscription whose outer region the member `outer` has."""
        self.options[number] = options
        self.pairs.add(number, options.dwell)
        self.outer[number] = outer
        self._inner[outer] = number

    def remove(self, number: int) -> None:
        """Forget a subscription and its pairs."""
        del self.options[number]
        self.pairs.remove(number)
        del self._inner[self.outer.pop(number)]

    def restore(self, number: int, inside: Mapping[int, float | None]) -> None:
        """Replace the pairs of a subscription: the publications inside, and when they leave if they are out."""
        self.pairs.remove(number)
        self.pairs.add(number, self.options[number].dwell)
        self.pairs.restore((number, publication, due) for publication, due in inside.items())

    def entered(self, member: int, publication: int, to: NotificationBuilder) -> None:
        """Note that a publication begins to match a member, which holds the inner or outer region of a subscription."""
        number = self._inner.get(member, member)
        if member != number:
            self.pairs.stay(number, publication)
        elif self.pairs.enter(number, publication):
            to.add_pairs([(number, publication)], ENTER)

    def left(self, member: int, publication: int, now: float, to: NotificationBuilder) -> None:
        """Note that a publication ceases to match a member, which holds the outer region of a subscription."""
        number = self._inner[member]
        if self.pairs.exit(number, publication, now) and self.options[number].leave:
            to.add_pairs([(number, publication)], LEAVE)

    def replaced(
        self, number: int, inner: Iterable[int], outer: Iterable[int], now: float, to: NotificationBuilder
    ) -> None:
        """Compare the pairs of a subscription with new regions, which match the publications `inner` and `outer`."""
        overlapping = set(outer)
        for publication in inner:
            self.entered(number, publication, to)
        for publication in list(self.pairs.inside(number)):
            if publication in overlapping:
                self.pairs.stay(number, publication)
            else:
                self.left(self.outer[number], publication, now, to)

    def deleted(self, publication: int, to: NotificationBuilder) -> None:
        """Forget a publication, and tell the subscriptions that it was inside of."""
        to.add_pairs([(number, publication) for number in self.pairs.delete(publication)], DELETE)

    def expire(self, now: float) -> list[tuple[int, int]]:
        """Remove the pairs whose dwell is over. Return the pairs whose subscription is told of leaves."""
        return [pair for pair in self.pairs.expire(now) if self.options[pair[0]].leave]
