"""Clocks: CPU and wall time side by side, interleaved repeats, medians with their spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Times:
    """The seconds of several runs of the same work, by both clocks. CPU time is that of all threads of the process."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def of(self, work: Callable[[], T]) -> T:
        """Run the work and note its times."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)
        return result

    def to_dict(self, per: float = 1.0) -> dict[str, float]:
        """Median, lowest and highest of both clocks, in microseconds per one of `per`."""
        out = {}
        for clock, seconds in (("cpu", self.cpu), ("wall", self.wall)):
            for name, value in (
                ("", statistics.median(seconds)),
                ("_lowest", min(seconds)),
                ("_highest", max(seconds)),
            ):
                out[f"{clock}_us{name}"] = round(value * 1e6 / per, 4)
        return out

    @property
    def median_cpu(self) -> float:
        """The median of the CPU seconds."""
        return statistics.median(self.cpu)

    @property
    def median_wall(self) -> float:
        """The median of the wall seconds."""
        return statistics.median(self.wall)


def interleaved(works: Sequence[Callable[[], object]], repeat: int) -> list[Times]:
    """Run all works in turn, `repeat` times over, so that what disturbs the machine disturbs them all."""
    times = [Times() for _ in works]
    for _ in range(repeat):
        for one, work in zip(times, works, strict=True):
            one.of(work)
    return times


def affordable(run: Callable[[int], object], most: int, seconds: float) -> int:
    """How many events a run takes in about that time: tried out with more and more events, which also warms it up."""
    count = 1
    run(1)  # compiles, plans, fills caches: no part of the estimate
    while True:
        started = time.perf_counter()
        run(count)
        spent = max(time.perf_counter() - started, 1e-6)
        if count >= most or spent >= seconds:
            return min(count, most)
        count = min(most, max(count + 1, int(count * min(8.0, 0.9 * seconds / spent))))
        if spent >= seconds / 3:  # the next run would be as long as the real ones: trust the estimate
            return count
