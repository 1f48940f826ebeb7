"""Answers that can be compared: per event how many subscriptions match, and a sum over their ids."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from whimbrel.lab.measure.matching.rival import Pairs
from whimbrel.model.errors import WhimbrelError

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(38)  # leaves 26 bits: sums of millions of them are exact in a float64


class MatchesDiffer(WhimbrelError):
    """Two competitors found different subscriptions for an event: no figure of either is worth anything."""

    def __init__(self, workload: str, rival: str, event: int, found: int, expected: int) -> None:
        self.workload, self.rival, self.event, self.found, self.expected = workload, rival, event, found, expected
        what = f"{found:,} subscriptions" if found != expected else f"{found:,} other subscriptions"
        super().__init__(f"{workload}: {rival} found {what} for event {event}, and the engine {expected:,}")


class Answers:
    """What a competitor answered to the first events of a workload."""

    def __init__(self, events: int, pairs: Iterable[Pairs]) -> None:
        self.counts = np.zeros(events, np.int64)
        self.sums = np.zeros(events, np.float64)
        for rows, ids in pairs:
            mixed = (ids.astype(np.uint64) + np.uint64(1)) * _FACTOR >> _SHIFT
            self.counts += np.bincount(rows, minlength=events)
            self.sums += np.bincount(rows, mixed.astype(np.float64), minlength=events)

    def total(self, events: int) -> int:
        """The pairs of the first events."""
        return int(self.counts[:events].sum())

    def check(self, other: Answers, workload: str, rival: str) -> None:
        """Raise `MatchesDiffer` unless the other, of as many or fewer events, says the same of each."""
        events = len(other.counts)
        same = (self.counts[:events] == other.counts) & (self.sums[:events] == other.sums)
        if not same.all():
            row = int(np.argmin(same))
            raise MatchesDiffer(workload, rival, row, int(other.counts[row]), int(self.counts[row]))
