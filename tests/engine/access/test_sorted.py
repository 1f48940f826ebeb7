"""Sorted keys: one-sided ranges, alone or with one range more, against the filters themselves."""

from __future__ import annotations

import random

from whimbrel import Filter, Index

NAMES = ("price", "size", "age")


def _range(draw: random.Random, name: str) -> str:
    bound, kind = draw.randrange(100), draw.choice(("<", "<=", ">", ">=", "between"))
    return f"{name} BETWEEN {bound // 2} AND {bound + 40}" if kind == "between" else f"{name} {kind} {bound}"


def _value(draw: random.Random) -> object:
    usual = [draw.randrange(-1, 102)] * 8 + [draw.random() * 100, None, "a", True]
    return draw.choice([*usual, [draw.randrange(100) for _ in range(draw.randrange(4))]])


def test_sorted_keys_give_what_the_filters_say() -> None:
    draw = random.Random(3)
    texts = [" AND ".join(_range(draw, name) for name in draw.sample(NAMES, draw.choice((1, 2)))) for _ in range(900)]
    index = Index()
    index.add_many(enumerate(texts))
    index.merge()
    assert index.stats()["keys"]["sorted"] > 500  # type: ignore[index]
    filters = [Filter.parse(text) for text in texts]
    events = [{name: _value(draw) for name in NAMES if draw.random() < 0.9} for _ in range(80)]
    expected = [[row for row, one in enumerate(filters) if one.matches(event)] for event in events]
    assert sum(map(len, expected)) > 5_000
    assert [index.match(event) for event in events] == expected
    index.analyze(events)  # merges, so reads the keys back
    assert [index.match(event) for event in events] == expected


def test_the_plan_names_the_one_sided_range() -> None:
    index = Index()
    index.add_many((row, f"price < {row} AND size BETWEEN 1 AND 500") for row in range(1_000))
    (told,) = index.plan(40)["conjunctions"]  # type: ignore[misc]
    assert told["key"] == "sorted" and told["attributes"] == ["price"] and told["checks"] == 1
    assert 0 < told["share"] < 0.1
