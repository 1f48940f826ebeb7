"""Lists of values in keys: long IN lists are filed under every member, CONTAINS ALL under two of its members."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whimbrel import Filter, Index
from whimbrel.engine.access.hash import keys

VALUES: list[Any] = [*range(-2, 30), 2.5, 2**53 + 1, *(f"t{n}" for n in range(30)), True, False]


def literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).upper()


def members(source: Random, count: int, values: list[Any]) -> str:
    return ", ".join(map(literal, source.sample(values, min(count, len(values)))))


def filter_text(source: Random, values: list[Any]) -> str:
    count = source.choice((1, 2, 3, 20, 300, 3_000))
    few = source.choice((1, 2, 2, 3, 5))
    first = source.choice(
        (
            f"a IN ({members(source, count, values)})",
            f"a NOT IN ({members(source, count, values)})",
            f"tags CONTAINS ALL ({members(source, few, values)})",
            f"tags CONTAINS ANY ({members(source, count, values)}) AND tags CONTAINS {literal(source.choice(values))}",
            f"a IN ({members(source, count, values)}) AND tags CONTAINS ALL ({members(source, few, values)})",
            f"tags = {literal(source.choice(values))} AND tags CONTAINS ALL ({members(source, few, values)})",
        )
    )
    more = source.choice(("", f" AND price > {source.randrange(10)}", f" AND a != {literal(source.choice(values))}"))
    return first + more


def event(source: Random, values: list[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"price": source.randrange(10)}
    if source.random() < 0.9:
        made["a"] = source.choice(values) if source.random() < 0.7 else source.sample(values, 2)
    if source.random() < 0.9:
        made["tags"] = source.sample(values, source.choice((0, 1, 3, 8)))
    return made


def check(index: Index, texts: list[str], events: list[dict[str, Any]]) -> None:
    filters = [Filter.parse(text) for text in texts]
    wanted = [[number for number, filter in enumerate(filters) if filter.matches(one)] for one in events]
    assert [index.match(one) for one in events] == wanted
    found = index.match_batch(events)
    pairs = sorted(zip(*(found[name].to_pylist() for name in ("event", "subscription")), strict=True))
    assert pairs == [(row, id) for row, ids in enumerate(wanted) for id in ids]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from((VALUES, [f"u{n}" for n in range(4_000)], list(range(4_000)))))
def test_lists_of_any_length_and_type_match_as_the_filters_say(seed: int, values: list[Any]) -> None:
    source = Random(seed)
    texts = [filter_text(source, values) for _ in range(60)]
    events = [event(source, values) for _ in range(20)]
    events += [{"a": value, "tags": [value, source.choice(values)]} for value in source.sample(values, 10)]
    index = Index()
    index.add_many(enumerate(texts))
    check(index, texts, events)
    index.merge()
    check(index, texts, events)


def loaded(texts: list[str]) -> Index:
    index = Index()
    index.add_many(pa.table({"id": range(len(texts)), "filter": texts}))
    return index


def test_a_long_list_is_filed_under_every_member() -> None:
    source = Random(1)
    users = [f"u{n}" for n in range(5_000)]
    texts = [
        f"user IN ({members(source, 50, users)}) AND price > {source.randrange(9_000, 9_999)}" for _ in range(4_000)
    ]
    index = loaded(texts)
    assert index.stats()["keys"] == {"hash": 4_000, "present": 0, "sorted": 0, "bitmap": 0, "signature": 0}
    events = [{"user": source.choice(users), "price": source.randrange(10_000)} for _ in range(200)]
    index.match_batch(events)
    assert index.stats()["candidates_per_event"] < 60  # of 4,000: 40 lists have a user


def test_a_contains_all_is_filed_under_two_members() -> None:
    source = Random(2)
    tags = [f"t{n}" for n in range(30)]
    texts = [
        f"tags CONTAINS ALL ({members(source, 2, tags)}) AND price > {source.randrange(9_000, 9_999)}"
        for _ in range(4_000)
    ]
    index = loaded(texts)
    events = [{"tags": source.sample(tags, 4), "price": source.randrange(10_000)} for _ in range(40)]
    index.match_batch(events)
    assert index.stats()["candidates_per_event"] < 150  # of 4,000: 55 have both, 500 have one
    assert index.match(events[0]) == [n for n, text in enumerate(texts) if Filter.parse(text).matches(events[0])]


def test_lists_beyond_the_entries_of_a_segment_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "ENTRIES", 100)
    source = Random(3)
    users = [f"u{n}" for n in range(200)]
    texts = [f"user IN ({members(source, count, users)})" for count in [5] * 15 + [40] * 15]
    check(loaded(texts), texts, [{"user": source.choice(users)} for _ in range(40)])


def test_a_set_of_ranges_has_no_members() -> None:
    index = loaded(["a < 5 OR a > 9", "a IN (1, 2, 3)"])
    assert (index.match({"a": 7}), index.match({"a": 10}), index.match({"a": 3})) == ([], [0], [0, 1])
