"""What the experiments of Le Subscribe share: its three algorithms, and sizes."""

from __future__ import annotations

from collections.abc import Mapping

from whimbrel.lab.harness.contenders import plain
from whimbrel.lab.harness.experiment import Point, Scale, grid
from whimbrel.lab.workloads import Workload, make

THREE = plain("fair_predicate", "equality_preferred", "quarantine")
SIZES: Mapping[Scale, list[Point]] = {
    "tiny": grid(n=[500, 1_000]),
    "small": grid(n=[10_000, 30_000, 100_000]),
    "paper": grid(n=[50_000, 100_000, 200_000, 400_000, 800_000]),
    "full": grid(n=[100_000, 400_000, 1_600_000, 3_200_000]),
}
BYTES_EACH = 2_500
"""About how much the engine and three matchers take for a subscription, with its text."""


def workload_of(point: Point, p: float = 0.5) -> Workload:
    """Le Subscribe's workload at that point; a coordinate p comes before the argument."""
    n = int(point["n"])
    return make("lesubscribe", n=n, p=float(point.get("p", p)), events=100 if n <= 1_000 else 2_000)
