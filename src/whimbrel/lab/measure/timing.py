"""Clocks: CPU and wall time side by side, of this process or with all below it; repeats in turns; medians."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Times:
    """The seconds of several runs of the same work, by both clocks. CPU time counts all threads of the process."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def of(self, work: Callable[[], T]) -> T:
        """Run the work, note its times, and return its result."""
        wall, cpu = time.perf_counter(), self.cpu_clock()
        result = work()
        self.cpu.append(self.cpu_clock() - cpu)
        self.wall.append(time.perf_counter() - wall)
        return result

    def cpu_clock(self) -> float:
        """The CPU seconds so far."""
        return time.process_time()

    def to_dict(self, per: float = 1.0) -> dict[str, float]:
        """Median, lowest and highest of both clocks, in microseconds, divided by `per`."""
        out = {}
        for clock, seconds in (("cpu", self.cpu), ("wall", self.wall)):
            for name, of in (("", statistics.median), ("_lowest", min), ("_highest", max)):
                out[f"{clock}_us{name}"] = round(of(seconds) * 1e6 / per, 4)
        return out

    @property
    def median_cpu(self) -> float:
        return statistics.median(self.cpu)

    @property
    def median_wall(self) -> float:
        return statistics.median(self.wall)


@dataclass(slots=True)
class ProcessTreeTimes(Times):
    """Times whose CPU seconds count all processes below this one, too: the JVM and the Python workers of Spark."""

    def cpu_clock(self) -> float:
        return time.process_time() + (child_cpu_seconds() or 0.0)


def child_cpu_seconds() -> float | None:
    """The CPU seconds so far of all processes below this one, those that ended included; None without /proc."""
    children: dict[int, list[tuple[int, int]]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has just ended
            fields = entry.read_text().rpartition(")")[2].split()
            ticks = sum(map(int, fields[11:15]))  # its own, and those of children that have ended
            children.setdefault(int(fields[1]), []).append((int(entry.parent.name), ticks))
    if not children:
        return None
    total, waiting = 0, [os.getpid()]
    while waiting:
        for number, ticks in children.get(waiting.pop(), []):
            total += ticks
            waiting.append(number)
    return total / os.sysconf("SC_CLK_TCK")


def seconds_of(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds of one run, by default wall time."""
    started = clock()
    work()
    return clock() - started


def interleaved(
    works: Sequence[Callable[[], object]], repeat: int, notice: Callable[[str], object] = lambda text: None
) -> list[Times]:
    """Run all works in turns, `repeat` times, so that other load on the machine affects all of them alike.

    `notice` is told before each turn which one it is.
    """
    times = [Times() for _ in works]
    for turn in range(1, repeat + 1):
        notice(f"repeat {turn} of {repeat}")
        for one, work in zip(times, works, strict=True):
            one.of(work)
    return times


def affordable(
    run: Callable[[int], object],
    most: int,
    seconds: float,
    few: int = 0,
    first: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """How many events, at most `most`, a run takes in about that many seconds.

    The run is tried with more and more events, from `first` on, which also warms it up. With `few`, a run of so few
    events measures the fixed cost, which is high in Spark. Where all work is in this process, let `clock` be that of
    CPU time: on a busy machine wall time makes the number too small.
    """
    run(few or first)  # compiles, plans, fills caches: not part of the estimate
    fixed = seconds_of(lambda: run(few), clock) if few else 0.0
    count = min(most, first)
    while True:
        spent = max(seconds_of(lambda: run(count), clock), 1e-6)  # noqa: B023 - called at once
        growth = (seconds - fixed) / max(spent - fixed, 0.02 * spent)  # how many times as many events would fit
        if count == most or growth < 1.5:
            return count
        count = min(most, int(count * min(8.0, 0.9 * growth)) + 1)
        if growth < 8:  # another trial would take as long as the real run: trust the estimate
            return count
