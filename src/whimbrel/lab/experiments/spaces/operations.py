"""What the subject-space experiments share: the operations that they time, and the memory that they take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whimbrel.lab.harness.experiment import Point, Timed
from whimbrel.lab.workloads.regions import moved, point_of, points, region
from whimbrel.spaces import SubjectSpaces

SERIES = "subject spaces"
NEW = 10**9
"""The first key of publications that an experiment adds."""


def new_points(count: int, constraints: int, seed: int = 21) -> list[dict[str, float]]:
    """Points that are not in the spaces yet."""
    return [region(row) for row in points(count, constraints, np.random.default_rng(seed))]


def insertion(spaces: SubjectSpaces, new: list[dict[str, float]], series: str = SERIES) -> Timed:
    """Publish the points, one call for each; undone by deleting them."""

    def work() -> None:
        for number, point in enumerate(new):
            spaces.publish(NEW + number, [point])

    def undo() -> None:
        for number in range(len(new)):
            spaces.delete_publication(NEW + number)

    work()
    undo()
    return Timed(series, work, len(new), undo, unit="us per operation")


def updates(spaces: SubjectSpaces, step: int | None, keys: range, series: str) -> Timed:
    """Move publications that are there, all of their constraints; each run goes on from where the last one ended.

    Series that are timed in turns need different keys, or each would move what the other has moved.
    """
    rng = np.random.default_rng(22)
    held = {key: point_of(spaces, key) for key in keys}
    waiting: list[dict[int, dict[str, float]]] = []

    def prepare() -> None:
        waiting.append({key: moved(at, step, rng) for key, at in held.items()})
        held.update(waiting[-1])

    def work() -> None:
        for key, at in waiting.pop().items():
            spaces.update_publication(key, at)

    prepare()
    work()
    prepare()
    return Timed(series, work, len(keys), prepare, unit="us per operation")


def memory(*names: str) -> Callable[[Point], float]:
    """About 4 kB for each publication and subscription, which the coordinates of these names count."""
    return lambda point: 3e8 + 4e3 * sum(float(point[name]) for name in names)
