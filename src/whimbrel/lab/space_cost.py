"""The cost functions of subject spaces: how many entries of ordered lists an operation is expected to pass.

Leung and Jacobsen, CASCON'03, table 1 (docs/papers.md, sections 19 and 20), rebuilt from the algorithms, corrected.
Adding a region passes the entries that show a stored region to be disjoint, in each dimension that the new one
constrains; so does deleting. An update passes the entries between old and new bounds. ERR-19g: the first is linear in
the stored regions, where the paper claims independence; the second depends on how far the bounds move.
"""

from __future__ import annotations

from dataclasses import dataclass


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
