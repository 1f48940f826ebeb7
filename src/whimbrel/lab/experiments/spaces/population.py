"""What the subject-space experiments share: spaces filled with publications and subscriptions of the paper."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whimbrel.lab.harness.experiment import Point, Timed
from whimbrel.lab.workloads.regions import DIMENSIONS, WIDTH, columns, moved, points, region
from whimbrel.spaces import SubjectSpaces

SERIES = "subject spaces"
AT_ONCE = 20_000
NEW = 10**9
"""The first key of publications that an experiment adds."""


def filled(publications: int, subscriptions: int, constraints: int, seed: int = 20) -> SubjectSpaces:
    """Spaces with that many publications and subscriptions. Publications are points with `constraints` constraints."""
    rng = np.random.default_rng(seed)
    spaces = SubjectSpaces()
    spaces.define("paper", {f"d{d}": "number" for d in range(DIMENSIONS)})
    for at in range(0, subscriptions, AT_ONCE):
        some = min(AT_ONCE, subscriptions - at)
        spaces.subscribe_many(columns(at, points(some, 2, rng), WIDTH), quiet=True)
    for at in range(0, publications, AT_ONCE):
        some = min(AT_ONCE, publications - at)
        spaces.publish_many(columns(at, points(some, constraints, rng)), quiet=True)
    return spaces


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
    held = {key: dict(_point(spaces, key)) for key in keys}
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


def _point(spaces: SubjectSpaces, key: int) -> dict[str, float]:
    (content,) = spaces.publication(key)
    return {name: float(one.low) for name, one in content.items()}  # type: ignore[arg-type]


def memory(*names: str) -> Callable[[Point], float]:
    """About 4 kB for each publication and subscription, which the coordinates of these names count."""
    return lambda point: 3e8 + 4e3 * sum(float(point[name]) for name in names)
