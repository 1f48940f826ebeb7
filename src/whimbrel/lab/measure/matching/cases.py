"""The frozen workloads of matching and every target: the one place where they are written down.

Names and full sizes never change, so that figures taken years apart compare. The small sizes give a look at a machine
in minutes; no target is judged by them. Figures of peers were measured apart, on one core, in CPU time, on a machine
like the one that the targets are for; the figure of hypermatch is its author's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whimbrel.lab.measure.benchmark_results import Scale, check_names
from whimbrel.lab.measure.workload_cache import Parameters


@dataclass(frozen=True, slots=True)
class Target:
    """The target of `match_blocks` on one core, encoding included: a rate, and a ratio to compiled naive."""

    events_per_second: float
    times_naive: float


@dataclass(frozen=True, slots=True)
class Peer:
    """The fastest matcher of others on this workload. Its figure is quoted: it was measured apart."""

    name: str
    us_per_event: float
    remark: str = ""


@dataclass(frozen=True, slots=True)
class MatchCase:
    """A workload with the parameters of its full and of its small form. A target holds for the full form.

    `matches` says how many matches per event are expected. `papers` is the number of subscriptions that the papers'
    matchers are given: as many as all of those that load in bulk take in a minute or two.
    """

    name: str
    workload: str
    full: Parameters
    small: Parameters
    matches: str
    papers: int
    target: Target | None = None
    peer: Peer | None = None

    def parameters(self, scale: Scale) -> Parameters:
        return self.full if scale == "full" else {**self.full, **self.small}


@dataclass(frozen=True, slots=True)
class SpeedClaim:
    """A claim about a workload: `slower` takes at least `times` as long per event as `faster`.

    With `times` below 1 the claim bounds how far `faster` may fall behind.
    """

    workload: str
    faster: str
    slower: str
    times: float = 1.0


CASES = (
    MatchCase(
        "lesubscribe-p0.5", "lesubscribe",
        full={"n": 1_000_000, "p": 0.5, "events": 20_000}, small={"n": 20_000, "events": 2_000},
        target=Target(45_000, 300), matches="about 6,900", papers=400_000,
        peer=Peer("be-tree (C)", 338, "at 400,000"),
    ),
    MatchCase(
        "lesubscribe-p1", "lesubscribe",
        full={"n": 1_000_000, "p": 1.0, "events": 200_000}, small={"n": 20_000, "events": 5_000},
        target=Target(500_000, 2_000), matches="about 124", papers=400_000,
    ),
    MatchCase(
        "gryphon", "gryphon",
        full={"n": 25_000, "events": 100_000}, small={"n": 2_500, "events": 5_000},
        target=Target(300_000, 80), matches="100", papers=25_000,
        peer=Peer("be-tree (C)", 121),
    ),
    MatchCase(
        "ranges-5x0.1", "ranges",
        full={"n": 1_000_000, "attributes": 20, "predicates": 5, "width": 0.1, "events": 10_000},
        small={"n": 5_000, "events": 2_000},
        target=Target(10_000, 100), matches="10", papers=50_000,
        peer=Peer("TAMA (C++)", 3_860, "approximate"),
    ),
    MatchCase(
        "ranges-10x0.5", "ranges",
        full={"n": 1_000_000, "attributes": 20, "predicates": 10, "width": 0.5, "events": 5_000},
        small={"n": 2_000, "events": 1_000},
        target=Target(4_000, 60), matches="about 730 to 1,000", papers=20_000,
        peer=Peer("TAMA (C++)", 7_610, "approximate"),
    ),
    MatchCase(
        "mixed-100k", "mixed",
        full={"n": 100_000, "events": 50_000}, small={"n": 4_000, "events": 2_000},
        target=Target(60_000, 80), matches="about 46", papers=20_000,
        peer=Peer("be-tree (C)", 2_164),
    ),
    MatchCase(
        "mixed-1m", "mixed",
        full={"n": 1_000_000, "events": 10_000}, small={"n": 8_000, "events": 1_000},
        target=Target(8_000, 100), matches="about 460", papers=0,
        peer=Peer("be-tree (C)", 21_193),
    ),
    MatchCase(
        "hm", "hm",
        full={"n": 100_000, "events": 200_000}, small={"n": 10_000, "events": 5_000},
        target=Target(700_000, 250), matches="10", papers=20_000,
        peer=Peer("hypermatch (Go)", 0.52, "its author's figure, on an M4 Max"),
    ),
    MatchCase(
        "properties-light", "properties",
        full={"n": 10_000, "ones": 0.06, "events": 50_000}, small={"n": 1_000, "events": 2_000},
        matches="about 52", papers=10_000,
    ),
    MatchCase(
        "properties-heavy", "properties",
        full={"n": 10_000, "ones": 0.94, "events": 50_000}, small={"n": 1_000, "events": 2_000},
        matches="about 52", papers=10_000,
    ),
)  # fmt: skip

BATCH_RATIO = 2.5
"""At most: the time of `match_batch` divided by that of `match_blocks`."""
BOTH_CORES = 1.7
"""At least: the speed on two cores divided by that on one."""
COLUMNAR_PER_SECOND = 400_000
TEXT_PER_SECOND, TEXT_BOTH_CORES_PER_SECOND = 80_000, 140_000
COLD_SECONDS, WARM_SECONDS = 20, 1
SINGLE_US, SINGLE_OUTSIDE, SINGLE_ON = 40, 0.5, frozenset({"mixed-100k"})
"""Targets of single events, and the workloads for which they are judged."""
BYTES_PER_SUBSCRIPTION, BYTES_ON = 100, frozenset({"lesubscribe-p0.5", "lesubscribe-p1"})
CLAIMS = (
    SpeedClaim("lesubscribe-p0.5", faster="quarantine", slower="equality_preferred"),
    SpeedClaim("lesubscribe-p0.5", faster="equality_preferred", slower="fair_predicate"),
    SpeedClaim("lesubscribe-p0.5", faster="quarantine", slower="engine", times=1 / 3),
    SpeedClaim("gryphon", faster="equality_tree", slower="equality_tree (no options)", times=2.5),
)


def chosen_cases(names: Sequence[str]) -> list[MatchCase]:
    """The cases of these names, or of these workloads; all without a name. `UnknownName` for any other name."""
    known = dict.fromkeys([case.name for case in CASES] + [case.workload for case in CASES])
    check_names("a workload", names, known)
    return [case for case in CASES if not names or {case.name, case.workload} & set(names)]
