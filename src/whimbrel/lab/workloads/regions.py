"""The workload of the subject-space paper: points and narrow regions in 50 dimensions (docs/papers.md, section 20).

The paper does not give widths and ranges (AMB-20a): here publications are points in 0..99 and subscriptions constrain
two dimensions with intervals of width 10. Draws follow NumPy's generator: no figure depends on the exact bytes.
"""

from __future__ import annotations

import numpy as np

from whimbrel.spaces import Columns, SubjectSpaces

DIMENSIONS = 50
WIDTH = 10.0
AT_ONCE = 20_000
"""Regions that are added in one call."""


def points(count: int, constraints: int, rng: np.random.Generator) -> np.ndarray:
    """Points in 0..99 with `constraints` constraints each; NaN in dimensions without one."""
    values = np.full((count, DIMENSIONS), np.nan)
    chosen = np.argsort(rng.random((count, DIMENSIONS)), axis=1)[:, :constraints]
    np.put_along_axis(values, chosen, rng.integers(0, 100, (count, constraints)).astype(float), axis=1)
    return values


def columns(first: int, values: np.ndarray, width: float | None = None) -> Columns:
    """One region per row: points, or intervals of that width; keys count up from `first`."""
    keys = range(first, first + len(values))
    if width is None:
        return Columns(keys, {f"d{d}": values[:, d] for d in range(DIMENSIONS)})
    return Columns(keys, {f"d{d}": (values[:, d], values[:, d] + width) for d in range(DIMENSIONS)})


def region(values: np.ndarray) -> dict[str, float]:
    """One point as a region."""
    return {f"d{d}": float(values[d]) for d in np.flatnonzero(~np.isnan(values)).tolist()}


def moved(at: dict[str, float], step: int | None, rng: np.random.Generator) -> dict[str, float]:
    """Another point with the same constraints: anywhere in 0..99, or a step away in each dimension."""
    old = np.array(list(at.values()))
    new = rng.integers(0, 100, old.size) if step is None else old + rng.choice([-step, step], old.size)
    return dict(zip(at, np.clip(new, 0, 99).astype(float).tolist(), strict=True))


def point_of(spaces: SubjectSpaces, key: int) -> dict[str, float]:
    """The point that a publication is at."""
    (content,) = spaces.publication(key)
    return {name: float(one.low) for name, one in content.items()}  # type: ignore[arg-type]


def filled(
    publications: int, subscriptions: int, constraints: int, rng: np.random.Generator | None = None
) -> SubjectSpaces:
    """Spaces with that many publications and subscriptions. Publications are points with `constraints` constraints."""
    rng = rng or np.random.default_rng(20)
    spaces = SubjectSpaces()
    spaces.define("paper", {f"d{d}": "number" for d in range(DIMENSIONS)})
    for at in range(0, subscriptions, AT_ONCE):
        some = min(AT_ONCE, subscriptions - at)
        spaces.subscribe_many(columns(at, points(some, 2, rng), WIDTH), quiet=True)
    for at in range(0, publications, AT_ONCE):
        some = min(AT_ONCE, publications - at)
        spaces.publish_many(columns(at, points(some, constraints, rng)), quiet=True)
    return spaces
