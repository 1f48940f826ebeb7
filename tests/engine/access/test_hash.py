"""Hash keys of members and buckets: conjunctions filed under several keys give the same answers as their filters."""

from __future__ import annotations

import random
from typing import Any

import pytest

from whimbrel import Filter, Index

WORLDS = [(attributes, values) for attributes in (3, 12, 40) for values in (5, 400)]


def a_predicate(rng: random.Random, attributes: int, values: int) -> str:
    name, value, share = f"a{rng.randrange(attributes)}", rng.randrange(values), rng.random()
    if share < 0.3:
        return f"{name} = {value}"
    if share < 0.5:
        return f"{name} IN ({', '.join(str(rng.randrange(values)) for _ in range(rng.randint(2, 20)))})"
    if share < 0.8:
        return f"{name} BETWEEN {value} AND {value + rng.randrange(1, max(2, values // 4))}"
    if share < 0.9:
        return f"{name} {rng.choice(['<', '<=', '>', '>='])} {value}"
    return rng.choice([f"{name} != {value}", f"{name} IS NULL", f"{name} = 's{value % 7}'"])


def a_value(rng: random.Random, values: int) -> Any:
    share = rng.random()
    if share < 0.85:
        return rng.randrange(-1, values + 2)
    if share < 0.92:
        return rng.choice([None, rng.random() * values, f"s{rng.randrange(7)}"])
    return [rng.randrange(values) for _ in range(rng.choice([0, 1, 2, 40]))]


@pytest.mark.parametrize(("attributes", "values"), WORLDS)
def test_keys_of_every_kind_give_what_the_filters_say(attributes: int, values: int) -> None:
    rng = random.Random(attributes * values)
    texts = [" AND ".join(a_predicate(rng, attributes, values) for _ in range(rng.randint(1, 6))) for _ in range(700)]
    texts += rng.choices(texts, k=300)
    names = [f"a{number}" for number in range(attributes)]
    events = [{name: a_value(rng, values) for name in rng.sample(names, rng.randint(0, attributes))} for _ in range(40)]
    filters = [Filter.parse(text) for text in texts]
    expected = [[row for row, filter in enumerate(filters) if filter.matches(event)] for event in events]
    index = Index()
    index.add_many(enumerate(texts))
    assert [sorted(index.match(event)) for event in events] == expected
    index.analyze(events)  # merges, so reads the keys back, and plans anew
    assert [sorted(index.match(event)) for event in events] == expected
    pairs = index.match_batch(events).to_pylist()
    assert sorted((pair["event"], pair["subscription"]) for pair in pairs) == [
        (event, row) for event, rows in enumerate(expected) for row in rows
    ]


def test_a_bucket_does_not_prove_its_range() -> None:
    """A range within one bucket has one key, as an equality has, but other values and null share the bucket."""
    texts = {row: f"a BETWEEN {10 * row} AND {10 * row + 8}" for row in range(400)}
    index = Index()
    index.add_many(texts.items())
    index.analyze([{"a": value} for value in range(0, 4_000, 7)])
    assert index.match({"a": None}) == []
    assert [index.match({"a": value}) for value in (0, 8, 9, 3_998)] == [[0], [0], [], [399]]


def test_a_plan_names_all_keys() -> None:
    index = Index()
    index.add_many((row, f"a IN ({row}, {row + 1}, {row + 2}) AND b = {row % 5}") for row in range(500))
    plan = index.plan(7)
    (conjunction,) = plan["conjunctions"]  # type: ignore[misc]
    assert conjunction["key"] == "hash" and conjunction["keys"] == 3
    assert 0 < conjunction["share"] < 0.1
