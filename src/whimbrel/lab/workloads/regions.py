"""The workload of the subject-space paper: points and narrow regions in 50 dimensions (docs/papers.md, section 20).

The paper does not give widths and ranges (AMB-20a): here publications are points in 0..99 and subscriptions constrain
two dimensions with intervals of width 10. Draws follow NumPy's generator: no figure depends on the exact bytes.
"""

from __future__ import annotations

import numpy as np

from whimbrel.spaces import Columns

DIMENSIONS = 50
WIDTH = 10.0


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
