"""Binary properties: subscriptions over {0, 1, *}, events over {0, 1}, light or heavy by their share of ones.

The setting of RAPIDMatch, after the survey's experiment (docs/papers.md, sections 7 and 8): fifty properties and a few
hundred subscriptions. The survey says neither how often a property is tested nor how many ones an event has; here a
fifth of the properties are tested, and light events have 6 % ones, heavy ones 6 % zeros.
"""

import numpy as np
import pyarrow as pa

from whimbrel.lab.workloads.draws import Draws
from whimbrel.lab.workloads.text import conjunctions, pick, subscriptions
from whimbrel.lab.workloads.workload import Workload, check_counts

NAMES = [f"p{i}" for i in range(1, 51)]
TESTED = 0.2


def properties(n: int, events: int = 10_000, ones: float = 0.06, seed: int = 0) -> Workload:
    """Subscriptions that test each of p1..p50 with probability 0.2, for 0 or 1 alike; events bind all of them.

    A property of an event is 1 with probability `ones`. Whatever that is, an event matches `n * 0.9 ** 50` of n
    subscriptions in expectation, or one in 194. A subscription that tests nothing is the filter TRUE.
    """
    check_counts("properties", shares={"ones": ones}, n=n, events=events, seed=seed)
    draws = Draws(seed, 0)
    table = subscriptions(n, lambda rows: _filters(draws, rows))
    others = Draws(seed, 1)
    made = pa.table({name: others.chance(ones, events).astype(np.int64) for name in NAMES})
    return Workload("properties", {"n": n, "events": events, "ones": ones}, seed, table, made)


def _filters(draws: Draws, rows: int) -> pa.Array:
    held = draws.chance(TESTED, rows, len(NAMES))
    tested = np.nonzero(held)[1]
    texts = [f"{name} = {bit}" for name in NAMES for bit in (0, 1)]
    return conjunctions(pick(texts, 2 * tested + draws.integers(0, 1, tested.size)), held.sum(axis=1))
