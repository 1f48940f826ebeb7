"""Which versions of subscriptions have a sink: a sorted array, so that idle ones cost eight bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


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
