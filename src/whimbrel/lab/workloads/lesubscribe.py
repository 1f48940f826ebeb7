"""The Le Subscribe workload: six optional attributes, strings with equality and numbers with any comparison.

Fabret et al., Efficient Matching for Content-based Publish/Subscribe Systems, the experiments (docs/papers.md,
section 17). The paper leaves the empty subscription and the operators open (AMB-17a): here a subscription without a
predicate is drawn again, and an operator that is not = is drawn evenly from < <= > >=.
"""

import numpy as np
import pyarrow as pa

from whimbrel.lab.workloads.draws import Draws
from whimbrel.lab.workloads.text import conjunctions, pick, subscriptions
from whimbrel.lab.workloads.workload import Workload, check_counts

STRINGS = ("a1", "a2", "a3")
NUMBERS = ("a4", "a5", "a6")
STRING_VALUES = [f"v{value:03}" for value in range(200)]
NUMBER_VALUES = 5_000
OPERATORS = ("=", "<", "<=", ">", ">=")
PRESENT = 0.5


def lesubscribe(n: int, p: float = 0.5, events: int = 10_000, seed: int = 0) -> Workload:
    """Subscriptions over a1..a3 (200 strings, equality) and a4..a6 (integers 0..4999, equality with probability p).

    Each attribute is in a subscription, and in an event, with probability 0.5; constants and values are uniform. At
    n = 1,000,000 an event is expected to match 6,900 subscriptions for p = 0.5 and 124 for p = 1.
    """
    check_counts("lesubscribe", shares={"p": p}, n=n, events=events, seed=seed)
    draws = Draws(seed, 0)
    texts = _predicate_texts()
    table = subscriptions(n, lambda rows: _filters(draws, rows, p, texts))
    return Workload("lesubscribe", {"n": n, "p": p, "events": events}, seed, table, _events(Draws(seed, 1), events))


def _predicate_texts() -> pa.Array:
    """Every predicate there can be: first those of the strings, then those of the numbers by attribute and operator."""
    strings = [f"{name} = '{value}'" for name in STRINGS for value in STRING_VALUES]
    numbers = [f"{name} {sign} {value}" for name in NUMBERS for sign in OPERATORS for value in range(NUMBER_VALUES)]
    return pa.array(strings + numbers, pa.string())


def _filters(draws: Draws, rows: int, p: float, texts: pa.Array) -> pa.Array:
    width = len(STRINGS) + len(NUMBERS)
    held = draws.chance(PRESENT, rows, width)
    while (empty := np.flatnonzero(~held.any(axis=1))).size:
        held[empty] = draws.chance(PRESENT, empty.size, width)
    attribute = np.nonzero(held)[1]
    total = attribute.size
    values = draws.uniform(total)
    operator = np.where(draws.chance(p, total), 0, draws.integers(1, len(OPERATORS) - 1, total))
    as_string = attribute * len(STRING_VALUES) + (values * len(STRING_VALUES)).astype(np.int64)
    first_number = len(STRINGS) * len(STRING_VALUES)
    number_row = (attribute - len(STRINGS)) * len(OPERATORS) + operator
    as_number = first_number + number_row * NUMBER_VALUES + (values * NUMBER_VALUES).astype(np.int64)
    index = np.where(attribute < len(STRINGS), as_string, as_number)
    return conjunctions(pick(texts, index), held.sum(axis=1))


def _events(draws: Draws, rows: int) -> pa.Table:
    columns = {}
    for name in STRINGS:
        held = draws.chance(PRESENT, rows)
        columns[name] = pick(STRING_VALUES, draws.integers(0, len(STRING_VALUES) - 1, rows), held)
    for name in NUMBERS:
        held = draws.chance(PRESENT, rows)
        columns[name] = pa.array(draws.integers(0, NUMBER_VALUES - 1, rows), mask=~held)
    return pa.table(columns)
