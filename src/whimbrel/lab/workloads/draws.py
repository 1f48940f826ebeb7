"""Random numbers that stay the same for ever.

NumPy promises that the raw stream of a bit generator never changes, but not what the methods of `Generator` make of it
(NEP 19). Everything here is therefore derived from `PCG64.random_raw` with IEEE arithmetic alone, so that a workload is
the same bytes with every NumPy on every machine.
"""

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Bools, Floats

Ints = npt.NDArray[np.int64]


class Draws:
    """One stream of draws; `stream` separates subscriptions from events, so that `n` never changes the events."""

    def __init__(self, seed: int, stream: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,)))

    def uniform(self, *shape: int) -> Floats:
        """Floats uniform in [0, 1), 53 bits each: what `Generator.random` gives today."""
        raw = self._bits.random_raw(shape)
        uniform: Floats = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return uniform

    def integers(self, low: int, high: int, *shape: int) -> Ints:
        """Integers uniform in [low, high], both ends included."""
        return low + (self.uniform(*shape) * (high - low + 1)).astype(np.int64)

    def chance(self, probability: float | Floats, *shape: int) -> Bools:
        """True with that probability; an array of probabilities is broadcast to the shape."""
        return self.uniform(*shape) < probability

    def weighted(self, cumulative: Floats, *shape: int) -> Ints:
        """Indices drawn with the weights whose `cumulative` distribution is given."""
        return np.searchsorted(cumulative, self.uniform(*shape), side="right")

    def weighted_distinct(self, cumulative: Floats, rows: int, count: int) -> Ints:
        """For each row `count` different indices, one after the other, each by weight among those that are left.

        A draw that the row already holds is drawn again: the distribution of drawing without replacement, with about
        `count` draws a row instead of one for every candidate.
        """
        chosen = np.empty((rows, count), dtype=np.int64)
        for column in range(count):
            open_rows = np.arange(rows)
            while open_rows.size:
                picks = self.weighted(cumulative, open_rows.size)
                chosen[open_rows, column] = picks
                repeated = (chosen[open_rows, :column] == picks[:, None]).any(axis=1)
                open_rows = open_rows[repeated]
        return chosen


def zipf(size: int, exponent: float) -> Floats:
    """The cumulative Zipf distribution: weight of index i is (i + 1) ** -exponent; exponent 0 is uniform."""
    weights = np.arange(1, size + 1, dtype=np.float64) ** -exponent
    cumulative: Floats = np.cumsum(weights, dtype=np.float64)
    cumulative /= cumulative[-1]
    return cumulative
