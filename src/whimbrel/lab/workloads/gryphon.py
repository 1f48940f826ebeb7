"""The Gryphon workload: equality tests on thirty attributes, popular ones first, with 100 matches per event at any n.

Aguilera et al., Matching Events in a Content-based Subscription System, PODC'99, the experiments (docs/papers.md,
section 6). The paper gives neither the first probability, nor its decay, nor the exponent of Zipf's law (AMB-6a): here
they are 0.98, solved for, and 1.
"""

import numpy as np
import pyarrow as pa

from whimbrel.lab.workloads.base import Workload, check_counts
from whimbrel.lab.workloads.draws import Draws, Floats, zipf
from whimbrel.lab.workloads.text import conjunctions, pick, subscriptions

NAMES = [f"a{i}" for i in range(1, 31)]
VALUES = 3
FIRST = 0.98
MATCHES = 100.0


def gryphon(n: int, events: int = 10_000, seed: int = 0) -> Workload:
    """Subscriptions that test attribute i of a1..a30 with probability 0.98 * D ** (i - 1); events bind them all.

    Values are the integers 0, 1, 2: uniform in events, Zipf with exponent 1 in subscriptions. D = `decay(n)` holds the
    expected matches at 100 per event, whatever n; below n = 289 that is out of reach and D is 0 (only a1 is tested).
    A subscription that tests nothing is the filter TRUE.
    """
    check_counts("gryphon", n=n, events=events, seed=seed)
    draws = Draws(seed, 0)
    tested = probabilities(decay(n))
    table = subscriptions(n, lambda rows: _filters(draws, rows, tested))
    others = Draws(seed, 1)
    made = pa.table({name: others.integers(0, VALUES - 1, events) for name in NAMES})
    return Workload("gryphon", {"n": n, "events": events}, seed, table, made)


def decay(n: int) -> float:
    """The D for which n subscriptions give 100 expected matches, by bisection; 0 where n is too small for any."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if expected_matches(n, middle) > MATCHES:
            low = middle
        else:
            high = middle
    return low


def expected_matches(n: int, decay: float) -> float:
    """Matches per event in expectation: n * prod(1 - p_i * (1 - 1/3)), as event values are uniform."""
    return float(n * np.prod(1 - probabilities(decay) * (1 - 1 / VALUES)))


def probabilities(decay: float) -> Floats:
    """The probability with which each attribute is tested."""
    return np.cumprod([FIRST, *[decay] * (len(NAMES) - 1)], dtype=np.float64)


def _filters(draws: Draws, rows: int, tested: Floats) -> pa.Array:
    held = draws.chance(tested, rows, len(NAMES))
    attribute = np.nonzero(held)[1]
    value = draws.weighted(zipf(VALUES, 1), attribute.size)
    texts = [f"{name} = {value}" for name in NAMES for value in range(VALUES)]
    return conjunctions(pick(texts, attribute * VALUES + value), held.sum(axis=1))
