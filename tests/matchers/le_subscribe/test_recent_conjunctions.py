"""New conjunctions of Le Subscribe's members: answers, work and invariants before they are compiled."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from whimbrel.matchers import make
from whimbrel.model.filter import Filter

MEMBERS: list[tuple[str, dict[str, Any]]] = [
    ("fair_predicate", {}),
    ("equality_preferred", {}),
    ("quarantine", {}),
    ("quarantine", {"quarantined": "count"}),
    ("neon", {}),
]
NEW = ["a = 1 AND b < 5", "a = 2 AND b < 5", "b < 5", "b >= 2 AND c != 3", "a = 1 AND c = 7"]
EVENT = {"a": 1, "b": 3, "c": 3}


def with_fillers(name: str, **options: Any) -> Any:
    """A matcher of 160 compiled subscriptions on an attribute of their own: ten more wait to be compiled."""
    matcher = make(name, count=True, **options)
    for number in range(160):
        matcher.add(number, f"filler = {number}")
    matcher.match({"filler": 1})
    return matcher


@pytest.mark.parametrize(("name", "options"), MEMBERS)
def test_any_order_of_adds_and_removes_gives_the_answers_of_the_reference(name: str, options: dict[str, Any]) -> None:
    random = Random(5)
    matcher, kept = with_fillers(name, **options), dict[int, Filter]()
    waited = 0
    for number in range(1_000, 1_060):
        if kept and random.random() < 0.4:
            gone = random.choice(list(kept))
            matcher.remove(gone)
            del kept[gone]
        kept[number] = Filter.parse(random_text(random, name))
        matcher.add(number, kept[number])
        event = {n: random_value(random, name) for n in "wxyz" if random.random() < 0.8}
        assert matcher.match(event) == [id for id, filter in kept.items() if filter.matches(event)], event
        matcher._check()
        waited += int(matcher.stats()["waiting"])
    assert waited > 60


def random_text(random: Random, name: str) -> str:
    number = random.randrange
    texts = [
        f"x > {number(9)}", f"x <= {number(9)}", f"y = {number(4)}", f"z BETWEEN 2 AND {number(3, 9)}",
        f"y CONTAINS {number(4)}", "w != 3", "z < 'm'", "x > 'k'",
    ]  # fmt: skip
    return " AND ".join(random.sample(texts if name == "neon" else [*texts, "w IN (1, 2)"], number(1, 4)))


def random_value(random: Random, name: str) -> object:
    if random.random() < 0.2:
        return random.choice("alz")
    return random.randrange(9) if name == "neon" or random.random() < 0.6 else random.sample(range(9), 2)


@pytest.mark.parametrize(
    ("name", "options", "counts"),
    [
        # b < 5 adds to three, a = 1 to two, b >= 2 to one; c != 3 and c = 7 fail.
        ("fair_predicate", {}, {"additions": 6, "comparisons": 6, "candidates": 0}),
        # The keys (a: 1) and (a: 1, c: 7) are probed; of what is counted b < 5 adds to three, b >= 2 to one.
        ("equality_preferred", {}, {"additions": 4, "candidates": 1, "false_candidates": 0, "comparisons": 2 + 1}),
        ("quarantine", {"quarantined": "count"}, {"candidates": 1, "false_candidates": 0, "quarantine_additions": 2}),
        # Rows on a: 3, on b: 4, on c: 2; six hold, in four conjunctions and one that a = 1 reaches.
        ("neon", {}, {"predicate_evaluations": 9, "additions": 6, "comparisons": 5}),
    ],
)
def test_the_work_is_counted_as_by_hand_and_as_after_compiling(
    name: str, options: dict[str, Any], counts: dict[str, int]
) -> None:
    matcher = with_fillers(name, **options)
    for number, text in enumerate(NEW, 1_000):
        matcher.add(number, text)
    for waiting in (5, 0):
        before = matcher.stats()
        assert matcher.match(EVENT) == [1_000, 1_002]
        after = matcher.stats()
        assert after["waiting"] == waiting
        assert {counter: after[counter] - before[counter] for counter in counts} == counts
        matcher.freeze()
