"""The workload of the paper: filters of 2 to 8 constraints, events of 2 to 12 attributes, values from -50 to 50.

Names and values are drawn from one of three distributions. The paper leaves open how many names there are and how often
each operator is used; here it is 1,000 names, and orders in nine of ten constraints.

Z. Jerzak, C. Fetzer: Prefix Forwarding for Publish/Subscribe, DEBS 2007, section 6.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random

from whimbrel.model.expression import And, Compare, Comparison
from whimbrel.model.filter import Filter


class Distribution(StrEnum):
    """How names and values are drawn."""

    PARETO = "pareto"
    GAUSSIAN = "gaussian"
    UNIFORM = "uniform"


NAMES = 1_000
_WIDTH = len(str(NAMES - 1))
_ORDERS: tuple[Comparison, ...] = ("<", "<=", ">", ">=")


class PaperWorkload:
    """Draws filters and events. The same seed gives the same ones."""

    def __init__(self, distribution: Distribution, seed: int, names: int = NAMES) -> None:
        self._distribution = distribution
        self._random = Random(f"{distribution}:{seed}:{names}")
        self._names = names

    def filter(self) -> Filter:
        """Draw a filter that some event can match."""
        while True:
            terms = tuple(self._term() for _ in range(self._normal(2, 8)))
            made = Filter(And(terms))
            if made.conjunctions:
                return made

    def event(self) -> dict[str, object]:
        """Draw an event."""
        return {self._name(): self._value() for _ in range(self._normal(2, 12))}

    def _term(self) -> Compare:
        draw = self._random.random()
        op: Comparison = "!=" if draw < 0.05 else "=" if draw < 0.1 else self._random.choice(_ORDERS)
        value = self._value()
        return Compare(self._name(), op, round(value) if op in ("=", "!=") else value)

    def _normal(self, low: int, high: int) -> int:
        """A whole number around the middle of the range, which is two standard deviations wide on either side."""
        middle = (low + high) / 2
        return min(high, max(low, round(self._random.gauss(middle, (high - low) / 4))))

    def _name(self) -> str:
        return f"a{min(self._names - 1, int(self._share() * self._names)):0{_WIDTH}}"

    def _value(self) -> float:
        return round(self._share() * 100 - 50, 3)

    def _share(self) -> float:
        """A number from 0 to 1, drawn from the distribution."""
        if self._distribution is Distribution.UNIFORM:
            return self._random.random()
        if self._distribution is Distribution.GAUSSIAN:
            while True:
                share = self._random.gauss(0.5, 1 / 6)
                if 0 <= share < 1:
                    return share
        while True:  # Pareto, scaled so that the interval holds nearly all of it
            share = (self._random.paretovariate(1.0) - 1) / 50
            if share < 1:
                return share
