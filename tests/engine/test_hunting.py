"""Random worlds of filters and events, a few in every run and many under soak; shrunk finds are tests by name."""

from __future__ import annotations

import time

import pytest

from tests.engine.hunting import hunt


@pytest.mark.parametrize("seed", range(8))
def test_a_random_world_is_matched_as_the_reference_says(seed: int) -> None:
    hunt(seed)


@pytest.mark.soak
def test_many_random_worlds_are_matched_as_the_reference_says() -> None:
    """For two minutes, other worlds every day; a failure names its seed."""
    seed = int(time.time()) // 86_400 * 10_000
    ends = time.monotonic() + 120
    while time.monotonic() < ends:
        try:
            hunt(seed)
        except Exception as error:
            raise AssertionError(f"hunt({seed}) failed") from error
        seed += 1
