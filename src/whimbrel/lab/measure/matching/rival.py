"""The role of a competitor: load the subscriptions, then give the pairs of event and subscription that match."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

Pairs = tuple[np.ndarray, np.ndarray]
"""Rows of events and ids of subscriptions, side by side, in any order."""


class CannotTakePart(Exception):
    """A competitor cannot take a workload; the text says why."""


class Rival(ABC):
    """One competitor. An object is loaded once and then matches any number of times.

    `most`: subscriptions that it is given at most, None for all; a rival that is given fewer than others is measured
    in a field of its own size, with the engine beside it. `group` is the name by which `--rivals` asks for it. `cores`:
    those that it uses; the rate of one that uses several is by the clock on the wall.
    """

    name: str
    group: str
    most: int | None = None
    cores: int = 1

    @abstractmethod
    def load(self, subscriptions: pa.Table, seconds: float) -> None:
        """Take the table (id, filter); `Refused` if it cannot, or if it would take much longer than that."""

    @abstractmethod
    def pairs(self, events: pa.Table) -> Iterator[Pairs]:
        """The pairs that match, for checking: as `run`, and then the ids by name."""

    def run(self, events: pa.Table) -> int:
        """What is timed: match all events, bring every pair into memory, and give their number."""
        return sum(len(ids) for _, ids in self.pairs(events))

    def bytes(self) -> int | None:
        """The memory of what it loaded, if it can tell."""
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give back what it holds."""


def pairs_of_blocks(blocks: Iterator[tuple[np.ndarray, np.ndarray]], ids: object = None) -> Iterator[Pairs]:
    """The pairs of blocks (offsets, rows); `ids(rows)` names the rows, which are the ids themselves without it."""
    first = 0
    for offsets, rows in blocks:
        count = len(offsets) - 1
        events = np.repeat(np.arange(first, first + count), np.diff(offsets))
        yield events, np.asarray(ids(rows) if callable(ids) else rows)
        first += count
