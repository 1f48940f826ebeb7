"""The Gryphon workload: equality tests on thirty attributes, popular ones first, with 100 matches per event at any n.

Aguilera et al., Matching Events in a Content-based Subscription System, PODC'99, the experiments (docs/papers.md,
section 6). The paper gives neither the first probability, nor its decay, nor the exponent of Zipf's law (AMB-6a): here
they are 0.98, solved for, and 1.
"""

import numpy as np
import pyarrow as pa

from whimbrel.compiled.array_types import Floats
from whimbrel.lab.workloads.draws import Draws, zipf
from whimbrel.lab.workloads.text import conjunctions, pick, subscriptions
from whimbrel.lab.workloads.workload import Workload, check_counts

VALUES, ATTRIBUTES = 3, 30
FIRST = 0.98
MATCHES = 100.0


def gryphon(
    n: int,
    events: int = 10_000,
    seed: int = 0,
    values: int = VALUES,
    attributes: int = ATTRIBUTES,
    stars: float | None = None,
) -> Workload:
    """Subscriptions that test attribute i of a1..a30 with probability 0.98 * D ** (i - 1); events bind them all.

    Values are the integers 0, 1, 2: uniform in events, Zipf with exponent 1 in subscriptions. D = `decay(n)` holds the
    expected matches at 100 per event, whatever n; below n = 289 that is out of reach and D is 0 (only a1 is tested).
    With `stars` every attribute is left untested with that probability instead, and constants are uniform: the footnote
    on 25,000 subscriptions has 30 attributes, 30 values and 65 % stars. A subscription that tests nothing is TRUE.
    """
    shares = {} if stars is None else {"stars": stars}
    check_counts("gryphon", shares=shares, n=n, events=events, seed=seed, values=values, attributes=attributes)
    draws = Draws(seed, 0)
    if stars is None:
        tested, constants = probabilities(decay(n, values, attributes), attributes), zipf(values, 1)
    else:
        tested, constants = np.full(attributes, 1.0 - stars), zipf(values, 0)
    names = [f"a{i}" for i in range(1, attributes + 1)]
    table = subscriptions(n, lambda rows: _filters(draws, rows, tested, constants, names))
    others = Draws(seed, 1)
    made = pa.table({name: others.integers(0, values - 1, events) for name in names})
    parameters: dict[str, int | float] = {"n": n, "events": events}
    if (values, attributes, stars) != (VALUES, ATTRIBUTES, None):
        parameters |= {"values": values, "attributes": attributes} | shares
    return Workload("gryphon", parameters, seed, table, made)


def decay(n: int, values: int = VALUES, attributes: int = ATTRIBUTES) -> float:
    """The D for which n subscriptions give 100 expected matches, by bisection; 0 where n is too small for any."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if expected_matches(n, middle, values, attributes) > MATCHES:
            low = middle
        else:
            high = middle
    return low


def expected_matches(n: int, decay: float, values: int = VALUES, attributes: int = ATTRIBUTES) -> float:
    """Matches per event in expectation: n * prod(1 - p_i * (1 - 1/values)), as event values are uniform."""
    return float(n * np.prod(1 - probabilities(decay, attributes) * (1 - 1 / values)))


def probabilities(decay: float, attributes: int = ATTRIBUTES) -> Floats:
    """The probability with which each attribute is tested."""
    return np.cumprod([FIRST, *[decay] * (attributes - 1)], dtype=np.float64)


def _filters(draws: Draws, rows: int, tested: Floats, constants: Floats, names: list[str]) -> pa.Array:
    held = draws.chance(tested, rows, len(names))
    attribute = np.nonzero(held)[1]
    value = draws.weighted(constants, attribute.size)
    texts = [f"{name} = {value}" for name in names for value in range(len(constants))]
    return conjunctions(pick(texts, attribute * len(constants) + value), held.sum(axis=1))
