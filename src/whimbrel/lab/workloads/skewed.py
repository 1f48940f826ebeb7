"""Values that are not uniform: popular values, attributes that go together, events that change over time.

The papers draw uniform and independent values. Here subscriptions and events prefer the same values by Zipf's law, an
attribute may repeat the value of the first one, and the events may drift away from what they were.
"""

import numpy as np
import pyarrow as pa

from whimbrel.lab.workloads.draws import Draws, Ints, zipf
from whimbrel.lab.workloads.text import concat, conjoin, integer_text, pick, subscriptions
from whimbrel.lab.workloads.workload import Workload, check_counts

ATTRIBUTES, VALUES = 10, 1_000
NAMES = [f"a{i}" for i in range(1, ATTRIBUTES + 1)]
EQUALITIES = 3
NUMBERS = 10_000
WIDTH = 2_000
DRIFTED_SKEW = 3.0


def skewed(
    n: int, skew: float = 0.0, correlation: float = 0.0, drift: float = 0.0, events: int = 10_000, seed: int = 0
) -> Workload:
    """Subscriptions of three equalities on a1..a10 (1,000 values) and a range of x (a fifth of 0..9,999).

    Values follow Zipf's law with exponent `skew` in subscriptions and in events. With probability `correlation` an
    attribute has the value of a1 (in a subscription: of the first attribute that it tests). With probability `drift` an
    event is of another kind: a1..a5, spread so far, then crowd on few values (exponent 3).
    """
    bounded = isinstance(skew, int | float) and 0 <= skew <= 5, f"expected skew in [0, 5], but got {skew!r}"
    shares = {"correlation": correlation, "drift": drift}
    check_counts("skewed", bounded, shares=shares, n=n, events=events, seed=seed)
    draws, others = Draws(seed, 0), Draws(seed, 1)
    table = subscriptions(n, lambda rows: _filters(draws, rows, skew, correlation))
    values = _values(others, events, ATTRIBUTES, skew, correlation)
    crowded = others.weighted(zipf(VALUES, DRIFTED_SKEW), events, ATTRIBUTES // 2)
    values[:, : ATTRIBUTES // 2] = np.where(others.chance(drift, events, 1), crowded, values[:, : ATTRIBUTES // 2])
    columns = {name: values[:, place] for place, name in enumerate(NAMES)}
    made = pa.table({**columns, "x": others.integers(0, NUMBERS - 1, events)})
    parameters = {"n": n, "skew": skew, "correlation": correlation, "drift": drift, "events": events}
    return Workload("skewed", parameters, seed, table, made)


def _values(draws: Draws, rows: int, columns: int, skew: float, correlation: float) -> Ints:
    values = draws.weighted(zipf(VALUES, skew), rows, columns)
    return np.where(draws.chance(correlation, rows, columns), values[:, :1], values)


def _filters(draws: Draws, rows: int, skew: float, correlation: float) -> pa.Array:
    attributes = draws.weighted_distinct(zipf(ATTRIBUTES, 0), rows, EQUALITIES)
    values = _values(draws, rows, EQUALITIES, skew, correlation)
    low = draws.integers(0, NUMBERS - WIDTH, rows)
    equalities = [
        concat(pick([f"{name} = " for name in NAMES], attributes[:, place]), integer_text(values[:, place]))
        for place in range(EQUALITIES)
    ]
    return conjoin(*equalities, concat("x BETWEEN ", integer_text(low), " AND ", integer_text(low + WIDTH)))
