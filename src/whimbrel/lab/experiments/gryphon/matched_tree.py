"""What the Gryphon experiments share: the tree with each of its options, and the sizes of figure 7."""

from __future__ import annotations

from collections.abc import Mapping

from whimbrel.lab.harness.contenders import Options, Series, raced, work_counted
from whimbrel.lab.harness.experiment import CountedRows, Point, Scale, TimedWorks, grid
from whimbrel.lab.workloads import make

INDEXED = ["a1", "a2", "a3"]
"""The attributes by which figure 7 factors the tree: 27 subtrees."""
PLAIN: Options = {"collapse": False, "successors": False, "aggressive": False}
COLLAPSED: Options = {"collapse": True, "successors": False, "aggressive": False}
TREE: Series = {"equality_tree": ("equality_tree", {"index_attributes": INDEXED, "closed": True})}
"""The tree of figure 7: successor sets, refined, and three index attributes with closed domains."""
SIZES: Mapping[Scale, list[Point]] = {
    "tiny": grid(n=[300, 1_000]),
    "small": grid(n=[1_000, 5_000, 25_000]),
    "paper": grid(n=[500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000]),
    "full": grid(n=[1_000, 10_000, 100_000, 1_000_000]),
}


def events_for(point: Point) -> int:
    """Fewer events where there are few subscriptions, so that tests are short."""
    return 200 if float(point["n"]) <= 1_000 else 2_000


def timed(point: Point, series: Series) -> TimedWorks:
    """Time the matchers and the engine on Gryphon's workload."""
    return raced(series, make("gryphon", n=int(point["n"]), events=events_for(point)))


def counted(point: Point, series: Series, measures: Mapping[str, str]) -> CountedRows:
    """Count what the matchers do on Gryphon's workload."""
    workload = make("gryphon", n=int(point["n"]), events=events_for(point))
    yield from work_counted(series, workload, measures)
