"""The cost functions of subject spaces: the counters of searches against exact numbers, closed forms against both.

Table 2 quotes theorem 1 of the equality tree with ln |A| where ln(|A| + 1) is needed (ERR-4a).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log

import numpy as np
import pytest

from whimbrel.lab.equality_tree_cost import decay_exponent, theorem_1
from whimbrel.lab.space_cost import SpacePopulation
from whimbrel.lab.workloads.regions import filled, moved, points, region
from whimbrel.spaces import SubjectSpaces

SIZE = 4_000

Cuts = Mapping[str, tuple[float, float]]
"""A region: the low and the high cut of each dimension that it constrains; intervals include their ends."""
_FREE = (float("-inf"), float("inf"))


def elimination_entries(stored: Sequence[Cuts], new: Cuts) -> int:
    """The entries that show some stored region to be disjoint from a new one. O(all constraints)."""
    return sum(
        low > new[name][1] or high < new[name][0]
        for region in stored
        for name, (low, high) in region.items()
        if name in new
    )


def elimination_candidates(stored: Sequence[Cuts], new: Cuts) -> int:
    """The stored regions that are left: those that match, where there is one space. O(all constraints)."""
    return sum(
        all(low <= new[name][1] and new[name][0] <= high for name, (low, high) in region.items() if name in new)
        for region in stored
    )


def crossing_entries(stored: Sequence[Cuts], old: Cuts, new: Cuts) -> int:
    """The bounds that an update crosses: low ones from the old high end to the new, high ones from the new low end to
    the old. Each is the candidate that is checked then. O(all constraints)."""
    count = 0
    for held in stored:
        for name, (low, high) in held.items():
            if name in old or name in new:
                (old_low, old_high), (new_low, new_high) = old.get(name, _FREE), new.get(name, _FREE)
                count += old_high < low <= new_high
                count += new_low <= high < old_low
    return count


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
    for attributes in (2, 5, 30):
        levels, subscriptions, values = attributes + 1, 1_000, 3
        grown = levels * exp(log(subscriptions) * (1 - decay_exponent(values, attributes))) - 1
        printed = values * levels * grown * (log(values) + log(attributes)) / ((values * levels - 1) * log(attributes))
        assert printed > theorem_1(values, attributes, subscriptions)
