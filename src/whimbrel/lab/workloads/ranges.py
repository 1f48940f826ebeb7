"""The range workload: a few intervals of one width over uniform numbers, as range matchers are measured on.

Every subscription tests the same number of different attributes. The frozen cases test 5 of 20 attributes with width
0.1 and 10 of 20 with width 0.5.
"""

import numpy as np
import pyarrow as pa

from whimbrel.lab.workloads.draws import Draws, zipf
from whimbrel.lab.workloads.text import concat, conjunctions, float_text, pick, subscriptions
from whimbrel.lab.workloads.workload import Workload, check_counts


def ranges(
    n: int, attributes: int = 20, predicates: int = 5, width: float = 0.1, *, events: int = 10_000, seed: int = 0
) -> Workload:
    """Subscriptions of `predicates` intervals `aI BETWEEN lo AND lo + width`, lo uniform in [0, 1 - width].

    The attributes are a1, a2, ...; events bind them all, uniform in [0, 1). An event is expected to match
    n * width ** predicates subscriptions: 10 at n = 1,000,000 with the defaults.
    """
    fits = isinstance(predicates, int) and isinstance(attributes, int) and predicates <= attributes
    rule = (fits, f"expected at most as many predicates as attributes ({attributes!r}), but got {predicates!r}")
    counts = {"n": n, "attributes": attributes, "predicates": predicates, "events": events, "seed": seed}
    check_counts("ranges", rule, shares={"width": width}, **counts)
    names = [f"a{i}" for i in range(1, attributes + 1)]
    draws = Draws(seed, 0)
    table = subscriptions(n, lambda rows: _filters(draws, rows, names, predicates, width))
    others = Draws(seed, 1)
    event_table = pa.table({name: others.uniform(events) for name in names})
    parameters = {"n": n, "attributes": attributes, "predicates": predicates, "width": width, "events": events}
    return Workload("ranges", parameters, seed, table, event_table)


def _filters(draws: Draws, rows: int, names: list[str], predicates: int, width: float) -> pa.Array:
    attribute = draws.weighted_distinct(zipf(len(names), 0), rows, predicates)
    attribute.sort(axis=1)
    low = draws.uniform(rows * predicates) * (1 - width)
    openings = pick([f"{name} BETWEEN " for name in names], attribute.ravel())
    texts = concat(openings, float_text(low), " AND ", float_text(low + width))
    return conjunctions(texts, np.full(rows, predicates, dtype=np.int64))
