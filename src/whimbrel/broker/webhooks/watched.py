"""Which subscriptions with a sink have something to deliver: when events match, and at a start.

The versions that have a sink are a sorted array, so that idle ones cost eight bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from whimbrel.broker.lists import RunSet
from whimbrel.broker.store import WebhookTables


class WatchedNumbers:
    """A set of numbers that only grows while a broker runs; a number that ended never matches again. Any thread."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._lock = threading.Lock()
        self._sorted: NDArray[np.int64] = np.array(sorted(numbers), np.int64)
        self._new: set[int] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._new)

    def add(self, number: int) -> None:
        """Watch another number."""
        with self._lock:
            self._new.add(number)

    def among(self, numbers: NDArray[np.int64]) -> list[int]:
        """The distinct watched ones of some numbers."""
        with self._lock:
            if self._new:
                self._sorted = np.union1d(self._sorted, np.fromiter(self._new, np.int64, len(self._new)))
                self._new = set()
            held = self._sorted
        if not len(numbers) or not len(held):
            return []
        places = np.searchsorted(held, numbers)
        places[places == len(held)] = 0
        found: list[int] = np.unique(numbers[held[places] == numbers]).tolist()
        return found


def lagging_subscriptions(store: WebhookTables, lists: RunSet) -> list[str]:
    """The ids of subscriptions with a sink that have messages behind their cursor, may have some, or are tried again.

    Costs a search for all numbers in each run of the lists: some milliseconds for 100,000 subscriptions.
    """
    rows = store.positions()
    waiting = dict.fromkeys(id for id, _ in store.due())
    waiting |= dict.fromkeys(id for id, _, first, start, done in rows if start is not None and done < first)
    if not rows:
        return list(waiting)
    order = sorted(range(len(rows)), key=lambda place: rows[place][1])
    numbers = np.array([rows[place][1] for place in order], np.int64)
    done = np.array([rows[place][4] for place in order], np.int64)
    has_more = np.zeros(len(rows), bool)
    for run in lists.runs:
        if not len(run.keys):
            continue
        places = np.searchsorted(run.keys, numbers)
        places[places == len(run.keys)] = 0
        found = np.flatnonzero(run.keys[places] == numbers)
        if len(found):
            last = run.places[run.starts[places[found] + 1] - 1].astype(np.int64) + run.base
            has_more[found[last > done[found]]] = True
    waiting |= dict.fromkeys(rows[order[place]][0] for place in np.flatnonzero(has_more).tolist())
    return list(waiting)
