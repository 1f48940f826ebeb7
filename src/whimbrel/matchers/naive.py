"""Naive matching, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator

from whimbrel.matchers.shared.base import BaseMatcher
from whimbrel.matchers.shared.capabilities import Capabilities
from whimbrel.matchers.shared.papers import Paper
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event


class Naive(BaseMatcher):
    """Checks every conjunction, constraint by constraint, until one fails. The judge of all others.

    >>> from whimbrel.matchers import make
    >>> naive = make("naive")
    >>> naive.add("cheap", "price < 5")
    >>> naive.match({"price": 3})
    ['cheap']
    """

    name = "naive"
    paper = Paper.SURVEY
    section = "Figure 5; Figure 1 of Le Subscribe"
    capabilities = Capabilities()
    counted = ("conjunctions_checked",)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        """Nothing: the base keeps the conjunctions."""

    _delete = _insert

    def _search(self, event: Event) -> Iterator[int]:
        if self._counters is not None:
            self._counters[0] += len(self._conjunctions)
        return (number for number, conjunction in self._conjunctions.items() if conjunction.matches(event))
