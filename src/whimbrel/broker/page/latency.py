"""Percentiles of the last seconds, from counts in buckets that are 8 % wide."""

from __future__ import annotations

import math
from collections import deque

SECONDS = 10
"""The seconds over which percentiles are computed."""
_LOWEST = 1e-5
_PER_E = 12.5  # buckets for a factor of e
_BUCKETS = 202  # up to 100 s


class LatencyWindow:
    """Counts how long things took. Used in the event loop only; `observe` costs half a microsecond."""

    def __init__(self) -> None:
        self._present = [0] * _BUCKETS
        self._past: deque[list[int]] = deque(maxlen=SECONDS - 1)

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        place = int(_PER_E * math.log(max(seconds, _LOWEST) / _LOWEST))
        self._present[min(place, _BUCKETS - 1)] += 1

    def next_second(self) -> None:
        """Begin another second; the oldest one no longer counts."""
        self._past.append(self._present)
        self._present = [0] * _BUCKETS

    def percentiles(self, shares: tuple[float, ...]) -> list[float] | None:
        """The seconds below which these shares lie, to 8 %; None if nothing was observed.

        >>> window = LatencyWindow()
        >>> for milliseconds in range(1, 101):
        ...     window.observe(milliseconds / 1000)
        >>> [round(seconds * 1000) for seconds in window.percentiles((0.5, 0.99))]
        [52, 107]
        """
        counts = [sum(column) for column in zip(self._present, *self._past, strict=True)]
        total = sum(counts)
        if not total:
            return None
        found: list[float] = []
        seen, place = 0, -1
        for share in shares:
            while seen < share * total:
                place += 1
                seen += counts[place]
            found.append(_LOWEST * math.exp((place + 1) / _PER_E))
        return found
