"""The random numbers of the workloads, and floats as texts."""

import numpy as np
import pytest

from whimbrel.lab.workloads.draws import Draws, zipf
from whimbrel.lab.workloads.text import float_text


class TestDraws:
    def test_uniform_numbers_are_those_of_numpy(self) -> None:
        bits = np.random.PCG64(np.random.SeedSequence(3, spawn_key=(1,)))
        assert (Draws(3, 1).uniform(1_000) == np.random.Generator(bits).random(1_000)).all()

    def test_integers_reach_both_ends(self) -> None:
        assert np.bincount(Draws(0, 0).integers(2, 4, 9_000)) == pytest.approx([0, 0, 3_000, 3_000, 3_000], rel=0.05)

    def test_distinct_draws_follow_the_weights_that_are_left(self) -> None:
        drawn = Draws(0, 0).weighted_distinct(zipf(3, 1), 60_000, 2)
        shares = {
            (first, second): np.mean((drawn == (first, second)).all(axis=1))
            for first in range(3)
            for second in range(3)
        }
        weights = np.array([6, 3, 2]) / 11
        for (first, second), share in shares.items():
            expected = 0.0 if first == second else weights[first] * weights[second] / (1 - weights[first])
            assert share == pytest.approx(expected, abs=0.006)


def test_float_text_is_repr() -> None:
    edges = [0.0, -0.0, 1.0, 0.5, 7.0, -0.1, 0.1 + 0.2, 1e-4, 9.999999999999999e-05, 1e-7, 5e-324, 1e6, 1e16, 1e300]
    values = np.array([*edges, *Draws(0, 0).uniform(20_000), *(Draws(0, 1).uniform(2_000) * 1e-3)])
    assert float_text(values).to_pylist() == [repr(value) for value in values.tolist()]
