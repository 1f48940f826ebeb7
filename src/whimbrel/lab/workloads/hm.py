"""The rule workload of hypermatch's benchmark page: long rules that differ in one number, ten rules for each.

It shows what an index does when four of five conditions hold for every event and only one of them tells rules apart.
"""

import numpy as np
import pyarrow as pa

from whimbrel.lab.workloads.draws import Draws
from whimbrel.lab.workloads.text import pick
from whimbrel.lab.workloads.workload import Workload, check_counts

RULE = (
    "env = 'prod' AND number = {} AND tags CONTAINS ALL ('tag1', 'tag2')"
    " AND region != 'moon' AND type IN ('app', 'database')"
)
RULES_PER_NUMBER = 10
REGIONS = ("africa", "america", "asia", "europe")
TYPES = ("app", "database")
TAGS = ("tag1", "tag2", "tag3", "tag4")


def hm(n: int, events: int = 10_000, seed: int = 0) -> Workload:
    """n rules over env, number, tags, region and type, with n / 10 different numbers; every event matches exactly ten.

    Events are uniform over the numbers, over four regions and two types, and hold tag1, tag2 and up to two more tags.
    """
    whole = isinstance(n, int) and n % RULES_PER_NUMBER == 0
    check_counts("hm", (whole, f"expected n to be a multiple of 10, but got {n!r}"), n=n, events=events, seed=seed)
    numbers = n // RULES_PER_NUMBER
    rules = [RULE.format(number) for number in range(numbers)]
    table = pa.table(
        {
            "id": np.arange(n, dtype=np.int64),
            "filter": pa.chunked_array([pa.array(rules, pa.string())] * RULES_PER_NUMBER),
        }
    )
    return Workload("hm", {"n": n, "events": events}, seed, table, _events(Draws(seed, 1), events, numbers))


def _events(draws: Draws, rows: int, numbers: int) -> pa.Table:
    count = draws.integers(2, len(TAGS), rows)
    offsets = np.concatenate(([0], np.cumsum(count))).astype(np.int32)
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], count)
    return pa.table(
        {
            "env": pa.array(["prod"] * rows, pa.string()),
            "number": draws.integers(0, numbers - 1, rows),
            "tags": pa.ListArray.from_arrays(offsets, pick(TAGS, place)),
            "region": pick(REGIONS, draws.integers(0, len(REGIONS) - 1, rows)),
            "type": pick(TYPES, draws.integers(0, len(TYPES) - 1, rows)),
        }
    )
