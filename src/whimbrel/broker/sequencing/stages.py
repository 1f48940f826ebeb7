"""How long each stage of a request takes, as histograms that cost a microsecond per group."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds; a last bucket takes all that lasts longer."""

STAGES = {
    "queue": "the oldest request of a group waits for the sequencer",
    "decide": "changes are decided, events matched, match lists coded",
    "disk": "the group waits for the writer of the log and is synced",
    "fold": "matches go to the lists, changes to the store",
}


class StageTimes:
    """The seconds of every stage, by group. One thread at a time observes a stage; any thread reads."""

    def __init__(self) -> None:
        self._counts = {stage: [0] * (len(BOUNDS) + 1) for stage in STAGES}
        self._sums = dict.fromkeys(STAGES, 0.0)

    def observe(self, stage: str, seconds: float) -> None:
        """Count how long a group took in a stage."""
        self._counts[stage][bisect_left(BOUNDS, seconds)] += 1
        self._sums[stage] += seconds

    def histograms(self) -> Iterator[tuple[str, list[tuple[str, int]], float]]:
        """For each stage the counts up to every bound, as Prometheus has them, and the sum of seconds."""
        for stage, counts in self._counts.items():
            bounds = [*map(str, BOUNDS), "+Inf"]
            yield stage, list(zip(bounds, accumulate(counts), strict=True)), self._sums[stage]
