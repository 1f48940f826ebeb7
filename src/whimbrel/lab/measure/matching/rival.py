"""The role of a rival: load the subscriptions, then give the pairs that match, which are compared with the engine's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from whimbrel.lab.measure.matching.cases import MatchCase
from whimbrel.model.errors import WhimbrelError

Pairs = tuple[np.ndarray, np.ndarray]
"""The event row and the subscription id of each pair, as two arrays of the same length, in any order."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(38)  # leaves 26 bits: sums of millions of them are exact in a float64


class CannotTakePart(WhimbrelError):
    """A rival cannot take a workload; the text says why."""


class Rival(ABC):
    """One competitor. An object is loaded once and then matches any number of times.

    `group` is the name by which `--rivals` asks for it. `most` is the number of subscriptions that it is given at most,
    None for all: a rival that is given fewer than others is measured in a race of its own size, with the engine beside
    it. `cores` is the number of cores that it uses; with several, its rate is by wall time.
    """

    name: str
    group: str
    most: int | None = None
    cores: int = 1

    @abstractmethod
    def load(self, subscriptions: pa.Table) -> None:
        """Load the table (id, filter). Raise `CannotTakePart` if that is impossible or takes too long."""

    @abstractmethod
    def pairs(self, events: pa.Table) -> Iterator[Pairs]:
        """Match all events and return the pairs with their ids, for checking."""

    def run(self, events: pa.Table) -> int:
        """Match all events, bring every pair into memory, and return the number of pairs. This is what is timed."""
        return sum(len(ids) for _, ids in self.pairs(events))

    def bytes(self) -> int | None:
        """The memory of what was loaded; None if it is not known."""
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Free what the rival holds."""


RivalMaker = Callable[[MatchCase], list[Rival]]
"""Makes the new rivals of one group for a workload."""


def pairs_of_blocks(
    blocks: Iterator[tuple[np.ndarray, np.ndarray]], ids: Callable[[np.ndarray], object]
) -> Iterator[Pairs]:
    """The pairs of blocks (offsets, rows). `ids(rows)` gives the ids of rows."""
    first = 0
    for offsets, rows in blocks:
        count = len(offsets) - 1
        events = np.repeat(np.arange(first, first + count), np.diff(offsets))
        yield events, np.asarray(ids(rows))
        first += count


class MatchesDiffer(WhimbrelError):
    """Two competitors found different subscriptions for an event, so no figure of either counts."""

    def __init__(self, workload: str, rival: str, event: int, found: int, expected: int) -> None:
        self.workload, self.rival, self.event, self.found, self.expected = workload, rival, event, found, expected
        what = f"{found:,} subscriptions" if found != expected else f"{found:,} other subscriptions"
        super().__init__(f"{workload}: {rival} found {what} for event {event}, and the engine {expected:,}")


class Answers:
    """What a competitor found for the first events: for each event the number of matches and a sum over mixed ids."""

    def __init__(self, events: int, pairs: Iterable[Pairs]) -> None:
        self.counts = np.zeros(events, np.int64)
        self.sums = np.zeros(events, np.float64)
        for rows, ids in pairs:
            mixed = (ids.astype(np.uint64) + np.uint64(1)) * _FACTOR >> _SHIFT
            self.counts += np.bincount(rows, minlength=events)
            self.sums += np.bincount(rows, mixed.astype(np.float64), minlength=events)

    def total(self, events: int) -> int:
        """The number of pairs of the first events."""
        return int(self.counts[:events].sum())

    def check(self, other: Answers, workload: str, rival: str) -> None:
        """Raise `MatchesDiffer` unless the other agrees on each of its events, which may be fewer."""
        events = len(other.counts)
        same = (self.counts[:events] == other.counts) & (self.sums[:events] == other.sums)
        if not same.all():
            row = int(np.argmin(same))
            raise MatchesDiffer(workload, rival, row, int(other.counts[row]), int(self.counts[row]))
