"""The mixed workload: a hundred attributes of uneven popularity, half categories and half numbers, most missing.

The shape of alerting and saved-search traffic: subscriptions crowd on few attributes, events bind a third of them.
"""

import numpy as np
import pyarrow as pa

from whimbrel.compiled.array_types import Floats
from whimbrel.lab.workloads.draws import Draws, Ints, zipf
from whimbrel.lab.workloads.text import concat, conjunctions, integer_text, interleave, pick, subscriptions
from whimbrel.lab.workloads.workload import Workload, check_counts

ATTRIBUTES = 100
NAMES = [f"a{i}" for i in range(ATTRIBUTES)]
POPULARITY = 0.9
CATEGORIES = [f"v{value:02}" for value in range(64)]
CATEGORY_POPULARITY = 0.7
NUMBER_VALUES = 10_000
EQUAL = 0.7
MEMBERS = 4
AT_MOST, AT_LEAST = 0.3, 0.3
WIDTHS = (200, 4_000)
SUBSCRIPTION_ATTRIBUTES = (3, 7)
EVENT_ATTRIBUTES = (30, 49)


def mixed(n: int, events: int = 10_000, seed: int = 0) -> Workload:
    """Subscriptions on 3 to 7 and events with 30 to 49 of the attributes a0..a99, drawn by Zipf's law (exponent 0.9).

    Even attributes are categories (64 strings, Zipf 0.7; 70 % `=`, 30 % `IN` of 4), odd ones integers 0..9999, uniform
    (30 % `<=`, 30 % `>=`, 40 % `BETWEEN` of width 200 to 4,000, its lower end uniform in 0..9999, so that some reach
    past the largest value; intervals kept inside 0..9999 would give 51 matches). At n = 100,000 an event matches 47.7
    subscriptions (measured: 45.6 to 49.3 over eight seeds).
    """
    check_counts("mixed", n=n, events=events, seed=seed)
    draws = Draws(seed, 0)
    table = subscriptions(n, lambda rows: _filters(draws, rows))
    return Workload("mixed", {"n": n, "events": events}, seed, table, _events(Draws(seed, 1), events))


def _attributes(draws: Draws, rows: int, counts: tuple[int, int]) -> Ints:
    """For each row between counts[0] and counts[1] attributes in ascending order, filled up with ATTRIBUTES."""
    chosen = draws.weighted_distinct(zipf(ATTRIBUTES, POPULARITY), rows, counts[1])
    count = draws.integers(*counts, rows)
    chosen[np.arange(counts[1]) >= count[:, None]] = ATTRIBUTES
    chosen.sort(axis=1)
    return chosen


def _filters(draws: Draws, rows: int) -> pa.Array:
    chosen = _attributes(draws, rows, SUBSCRIPTION_ATTRIBUTES)
    held = chosen < ATTRIBUTES
    attribute = chosen[held]
    share = draws.uniform(attribute.size)
    category = attribute % 2 == 0
    equal, member = category & (share < EQUAL), category & (share >= EQUAL)
    one_sided, two_sided = ~category & (share < AT_MOST + AT_LEAST), ~category & (share >= AT_MOST + AT_LEAST)
    predicates = interleave(
        [
            (equal, _equal(draws, attribute[equal])),
            (member, _member(draws, attribute[member])),
            (one_sided, _one_sided(draws, attribute[one_sided], share[one_sided])),
            (two_sided, _two_sided(draws, attribute[two_sided])),
        ]
    )
    return conjunctions(predicates, held.sum(axis=1))


def _equal(draws: Draws, attribute: Ints) -> pa.Array:
    value = draws.weighted(zipf(len(CATEGORIES), CATEGORY_POPULARITY), attribute.size)
    texts = [f"{name} = '{category}'" for name in NAMES for category in CATEGORIES]
    return pick(texts, attribute * len(CATEGORIES) + value)


def _member(draws: Draws, attribute: Ints) -> pa.Array:
    values = draws.weighted_distinct(zipf(len(CATEGORIES), CATEGORY_POPULARITY), attribute.size, MEMBERS)
    values.sort(axis=1)
    quoted = [f"'{category}'" for category in CATEGORIES]
    first, *rest = (pick(quoted, values[:, member]) for member in range(MEMBERS))
    listed = [part for column in rest for part in (", ", column)]
    return concat(pick([f"{name} IN (" for name in NAMES], attribute), first, *listed, ")")


def _one_sided(draws: Draws, attribute: Ints, share: Floats) -> pa.Array:
    openings = [f"{name} {sign} " for name in NAMES for sign in ("<=", ">=")]
    bound = draws.integers(0, NUMBER_VALUES - 1, attribute.size)
    return concat(pick(openings, attribute * 2 + (share >= AT_MOST)), integer_text(bound))


def _two_sided(draws: Draws, attribute: Ints) -> pa.Array:
    width = draws.integers(*WIDTHS, attribute.size)
    low = draws.integers(0, NUMBER_VALUES - 1, attribute.size)
    openings = pick([f"{name} BETWEEN " for name in NAMES], attribute)
    return concat(openings, integer_text(low), " AND ", integer_text(low + width))


def _events(draws: Draws, rows: int) -> pa.Table:
    chosen = _attributes(draws, rows, EVENT_ATTRIBUTES)
    held = np.zeros((rows, ATTRIBUTES + 1), dtype=np.bool_)
    np.put_along_axis(held, chosen, True, axis=1)
    columns = {}
    for attribute, name in enumerate(NAMES):
        if attribute % 2 == 0:
            value = draws.weighted(zipf(len(CATEGORIES), CATEGORY_POPULARITY), rows)
            columns[name] = pick(CATEGORIES, value, held[:, attribute])
        else:
            columns[name] = pa.array(draws.integers(0, NUMBER_VALUES - 1, rows), mask=~held[:, attribute])
    return pa.table(columns)
