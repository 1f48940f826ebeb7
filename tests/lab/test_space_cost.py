"""The cost functions of subject spaces: the counters of searches against them, and closed forms against both."""

from __future__ import annotations

import numpy as np
import pytest

from whimbrel.lab.experiments.spaces.population import filled
from whimbrel.lab.space_cost import (
    Cuts,
    SpacePopulation,
    crossing_entries,
    elimination_candidates,
    elimination_entries,
    naive_cost,
    printed_tree_cost,
    tree_cost,
)
from whimbrel.lab.workloads.regions import moved, points, region
from whimbrel.spaces import SubjectSpaces

SIZE = 4_000


@pytest.fixture(scope="module")
def spaces() -> SubjectSpaces:
    made = filled(0, SIZE, 20)
    made.publish("warm", [{"d0": 1.0}])  # the lists are made by the first search
    made.delete_publication("warm")
    return made


@pytest.fixture(scope="module")
def stored(spaces: SubjectSpaces) -> list[Cuts]:
    found = []
    for key in range(SIZE):
        (content,) = spaces.subscription(key)
        found.append({name: (float(str(one.low)), float(str(one.high))) for name, one in content.items()})
    return found


def cuts(point: dict[str, float]) -> Cuts:
    return {name: (value, value) for name, value in point.items()}


def counted(spaces: SubjectSpaces, before: dict[str, int]) -> dict[str, int]:
    return {name: value - before[name] for name, value in spaces.work().items()}


def test_an_insertion_passes_the_entries_that_show_regions_to_be_disjoint(
    spaces: SubjectSpaces, stored: list[Cuts]
) -> None:
    new = [region(row) for row in points(30, 20, np.random.default_rng(1))]
    total = 0
    for number, at in enumerate(new):
        before = spaces.work()
        told = spaces.publish(number, [at])
        found = counted(spaces, before)
        assert found["elimination_entries"] == elimination_entries(stored, cuts(at))
        assert found["candidates"] == elimination_candidates(stored, cuts(at)) == len(told)
        assert found["crossing_entries"] == found["overlap_entries"] == 0
        total += found["elimination_entries"]
        spaces.delete_publication(number)
    assert total / len(new) == pytest.approx(SpacePopulation(SIZE, 2).expected_elimination(20), rel=0.05)


@pytest.mark.parametrize("step", [1, 3])
def test_an_update_passes_the_bounds_that_it_crosses(spaces: SubjectSpaces, stored: list[Cuts], step: int) -> None:
    rng = np.random.default_rng(2)
    at = region(points(1, 25, rng)[0])
    spaces.publish("moving", [at])
    total = 0
    for _ in range(40):
        new = moved(at, step, rng)
        before = spaces.work()
        spaces.update_publication("moving", new)
        found = counted(spaces, before)
        assert found["crossing_entries"] == found["candidates"] == crossing_entries(stored, cuts(at), cuts(new))
        assert found["elimination_entries"] == found["overlap_entries"] == 0
        total += found["crossing_entries"]
        at = new
    assert total / 40 == pytest.approx(SpacePopulation(SIZE, 2).expected_crossing(25, step), rel=0.15)
    spaces.delete_publication("moving")


def test_adding_is_linear_in_the_regions_and_a_move_in_its_length() -> None:
    small, large = SpacePopulation(1_000, 2), SpacePopulation(100_000, 2)
    assert large.expected_elimination(20) == pytest.approx(100 * small.expected_elimination(20))
    assert large.expected_crossing(25, 7) == pytest.approx(7 * large.expected_crossing(25, 1))
    assert large.expected_crossing(25, 1) < large.expected_elimination(25) / 50


def test_the_printed_bound_of_the_tree_is_not_the_theorem() -> None:
    assert naive_cost(1_000, 30) == 30_000
    for attributes in (2, 5, 30):
        assert printed_tree_cost(3, attributes, 1_000) > tree_cost(3, attributes, 1_000)
