"""Naive matching: every conjunction, constraint by constraint, until one fails. The judge of all others.

Plain Python over `Conjunction.matches`; the algorithm of the survey, Figure 5, and of Le Subscribe, Figure 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from whimbrel.matchers.base import BaseMatcher, Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.papers import Paper
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event


class Naive(BaseMatcher):
    """Checks every conjunction against the event.

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

    def __init__(self, timestamps: tuple[str, ...] = ()) -> None:
        super().__init__(timestamps)
        self._evaluations = 0

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        """Nothing: the base keeps the conjunctions."""

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        """Nothing, as for `_insert`."""

    def _search(self, event: Event) -> Iterator[int]:
        self._evaluations += len(self._conjunctions)
        return (number for number, conjunction in self._conjunctions.items() if conjunction.matches(event))

    def _member_stats(self) -> Stats:
        return {"conjunctions_checked": self._evaluations}
