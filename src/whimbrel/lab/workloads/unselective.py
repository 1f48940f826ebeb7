"""Equalities that nearly everything satisfies beside a comparison that hardly anything satisfies.

Le Subscribe says that its equality-preferred algorithm wins where equalities are unselective: a cluster then holds many
subscriptions, and checking each of them costs more than counting the few comparisons that are satisfied.
"""

import numpy as np
import pyarrow as pa

from whimbrel.lab.workloads.draws import Draws
from whimbrel.lab.workloads.text import concat, integer_text, subscriptions
from whimbrel.lab.workloads.workload import Workload, check_counts

NUMBER_VALUES = 1_000_000


def unselective(n: int, values: int = 2, selectivity: float = 0.001, events: int = 10_000, seed: int = 0) -> Workload:
    """Subscriptions `a1 = v AND a2 < c`, v one of `values`; an event satisfies that share of the comparisons.

    Events bind both attributes: a1 uniform over its values, a2 over 0..999,999. The constants c are uniform between 0
    and twice the selectivity of the range, so an event matches n * selectivity / values subscriptions in expectation.
    """
    share = isinstance(selectivity, int | float) and 0 < selectivity <= 0.5
    rule = (share, f"expected selectivity in (0, 0.5], but got {selectivity!r}")
    check_counts("unselective", rule, n=n, values=values, events=events, seed=seed)
    draws, others = Draws(seed, 0), Draws(seed, 1)
    largest = max(1, round(2 * selectivity * NUMBER_VALUES))

    def filters(rows: int) -> pa.Array:
        equal = integer_text(draws.integers(0, values - 1, rows))
        return concat("a1 = ", equal, " AND a2 < ", integer_text(draws.integers(1, largest, rows)))

    table = subscriptions(n, filters)
    made = {"a1": others.integers(0, values - 1, events), "a2": others.integers(0, NUMBER_VALUES - 1, events)}
    parameters = {"n": n, "values": values, "selectivity": selectivity, "events": events}
    return Workload("unselective", parameters, seed, table, pa.table({k: v.astype(np.int64) for k, v in made.items()}))
