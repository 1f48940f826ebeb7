"""The cost expressions of Le Subscribe against hand counts, and the counters of the matchers against them."""

from __future__ import annotations

import pytest

from tests.matchers.le_subscribe.counting_cost import CountingCost, counting_costs
from whimbrel.lab.workloads import make as make_workload
from whimbrel.matchers import make
from whimbrel.model.filter import Filter

TEXTS = ["a = 1 AND b < 5", "a = 2", "b < 5", "b > 1 AND b < 9", "b <= 7 AND c = 1"]
COUNTERS = {
    "fair_predicate": ("probes", "additions", "candidates", "comparisons"),
    "equality_preferred": ("probes", "additions", "candidates", "comparisons"),
    "quarantine": ("probes", "quarantine_additions", "candidates", "quarantine_additions"),
}
OPTIONS = {"quarantine": {"quarantined": "count"}}


def test_a_hand_count() -> None:
    costs = counting_costs(map(Filter.parse, TEXTS), {"a": 1, "b": 3})
    # b < 5 adds to two rows, both ends of the interval and b <= 7 to one each, a = 1 to one.
    # Searches: a hash look-up for a and b; of b the clusters <, <=, from and to.
    assert costs["fair_predicate"] == CountingCost(2 + 4, 6, 0, 6)
    # The shape (a) is probed, (c) is not; of rows without an equality b < 5 adds once and the interval twice.
    assert costs["equality_preferred"] == CountingCost(1 + 2 + 4, 5, 1, 3 + 1)
    assert costs["quarantine"] == CountingCost(1 + 2 + 3, 3, 1, 3)


@pytest.mark.parametrize("name", COUNTERS)
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_the_counters_show_what_the_expressions_say(name: str, p: float) -> None:
    workload = make_workload("lesubscribe", n=80, p=p, events=10)
    texts = [*workload.subscriptions["filter"].to_pylist(), *TEXTS, "a4 > 10 AND a4 <= 3000 AND a5 >= 7"]
    matcher = make(name, count=True, **OPTIONS.get(name, {}))
    matcher.add_many(enumerate(texts))
    filters = [Filter.parse(text) for text in texts]
    before = dict.fromkeys(COUNTERS[name], 0)
    for row in workload.events.to_pylist():
        event = {attribute: value for attribute, value in row.items() if value is not None}
        matcher.match(event)
        stats = {counter: int(matcher.stats()[counter]) for counter in COUNTERS[name]}
        cost = counting_costs(filters, event)[name]
        expected = (cost.probes, cost.additions, cost.candidates, cost.comparisons)
        assert tuple(stats[counter] - before[counter] for counter in COUNTERS[name]) == expected, event
        before = stats


def test_what_the_paper_has_no_word_for_is_refused() -> None:
    for text in ("a IN (1, 2)", "a != 1", "a LIKE '%x'", "a < b"):
        with pytest.raises(ValueError, match="Expected equalities and intervals"):
            counting_costs([Filter.parse(text)], {"a": 1})
