"""The cost functions of subject spaces: what an operation does, from the definitions, and what it is expected to do.

Leung and Jacobsen, CASCON'03, tables 1 and 2 (docs/papers.md, sections 19 and 20). The tables bound each operation by
the entries of ordered lists that it passes and by the regions that are checked then; the forms below are rebuilt from
the algorithms, corrected. The counters of `SubjectSpaces.work` must show the exact numbers.

Table 1, an operation of the paper's algorithm: adding a region passes the entries that show a stored region to be
disjoint, in each dimension that the new one constrains, and checks what is left; so does deleting. An update passes the
entries between old and new bounds and checks the regions that they belong to. ERR-19g: the first is linear in the
stored regions, where the paper claims independence; the second depends on how far the bounds move.

Table 2, others' algorithms for one event: all predicates for naive matching, and theorem 1 for the tree. The table
quotes the theorem with ln |A| where ln(|A| + 1) is needed (ERR-4a).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

from whimbrel.lab.equality_tree_cost import decay_exponent, theorem_1

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
    for region in stored:
        for name, (low, high) in region.items():
            if name in old or name in new:
                (old_low, old_high), (new_low, new_high) = old.get(name, _FREE), new.get(name, _FREE)
                count += old_high < low <= new_high
                count += new_low <= high < old_low
    return count


@dataclass(frozen=True, slots=True)
class SpacePopulation:
    """Stored regions that constrain `constraints` of `dimensions` by intervals of `width` from 0..values - 1 on."""

    regions: int
    constraints: int
    dimensions: int = 50
    values: int = 100
    width: int = 10

    @property
    def density(self) -> float:
        """The entries of one list of one dimension."""
        return self.regions * self.constraints / self.dimensions

    def expected_elimination(self, constraints: int) -> float:
        """Table 1, add or delete: the entries passed for a point with so many constraints. Linear in the regions.

        >>> SpacePopulation(100_000, 2).expected_elimination(20)
        71640.0
        """
        inside = sum(min(point, self.width) + 1 for point in range(self.values)) / self.values**2
        return round(constraints * self.density * (1 - inside), 6)

    def expected_crossing(self, constraints: int, step: int) -> float:
        """Table 1, update: the entries passed when a point moves by `step` in so many dimensions, ends left aside.

        A step of one passes the bounds at one value: either a low or a high one for each stored constraint.

        >>> SpacePopulation(100_000, 2).expected_crossing(25, 1)
        1000.0
        """
        return constraints * self.density * step / self.values


def naive_cost(regions: int, constraints: int) -> int:
    """Table 2, naive: every predicate."""
    return regions * constraints


def tree_cost(values: int, attributes: int, subscriptions: int) -> float:
    """Table 2, the equality tree: theorem 1 as it is proved."""
    return theorem_1(values, attributes, subscriptions)


def printed_tree_cost(values: int, attributes: int, subscriptions: int) -> float:
    """Table 2 as printed, with ln |A| (ERR-4a): above the theorem, the more so the fewer attributes there are.

    >>> round(printed_tree_cost(3, 30, 1_000)), round(tree_cost(3, 30, 1_000))
    (7770, 7752)
    """
    levels = attributes + 1
    grown = levels * exp(log(subscriptions) * (1 - decay_exponent(values, attributes))) - 1
    return values * levels * grown * (log(values) + log(attributes)) / ((values * levels - 1) * log(attributes))
