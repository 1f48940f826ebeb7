"""Patterns of every kind on the texts of events, in every form of an event, against `Filter.matches`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel import Index
from whimbrel.model.filter import Filter

PATTERNS = [
    "a ILIKE '%aB%'", "a ILIKE 'ab%'", "a ILIKE '%É'", "a NOT ILIKE '%b'", "lower(a) = 'ab'", "upper(a) IN ('AB', 'É')",
    "a LIKE '%a%b'", "a LIKE 'a_b%'", "a LIKE '%a\\_b%'", "a NOT LIKE '%a%b%'", "a ILIKE '%A%b_'", "a RLIKE '^a.*b$'",
    "a NOT RLIKE 'ab'", "a IN CIDR '10.0.0.0/8'", "a IN CIDR '10.1.0.0/16'", "a NOT IN CIDR '10.1.2.0/24'",
    "a IN CIDR '::/16'", "a LIKE '%10.1%2.3'", "a = 'ab'", "a LIKE '%b' AND b = 1",
]  # fmt: skip
letters = st.text("abABéÉ_-", max_size=6)
addresses = st.sampled_from(
    ["10.1.2.3", "10.1.2.30", "10.9.9.9", "11.0.0.1", "10.01.2.3", "::1", "2001::", "10.1.2", ":"]
)
texts = st.one_of(letters, addresses, st.sampled_from([None, 7, True]))
values = st.one_of(texts, st.lists(texts, max_size=3))


@given(
    st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=8, unique=True),
    st.lists(st.fixed_dictionaries({"a": values}, optional={"b": st.integers(0, 1)}), min_size=1, max_size=6),
)
def test_patterns_find_what_filters_match(patterns: list[str], events: list[dict[str, Any]]) -> None:
    index = Index()
    index.add_many(enumerate(patterns))
    wanted = [[id for id, one in enumerate(patterns) if Filter.parse(one).matches(event)] for event in events]
    assert [index.match(event) for event in events] == wanted
    assert [index.match(json.dumps(event, ensure_ascii=False)) for event in events] == wanted
    pairs = [(number, id) for number, ids in enumerate(wanted) for id in ids]
    for batch in (events, [json.dumps(event) for event in events]):
        found = index.match_batch(batch, threads=1).to_pydict()
        assert sorted(zip(found["event"], found["subscription"], strict=True)) == pairs


@pytest.mark.parametrize("count", [8, 9, 64, 65, 200])
def test_a_text_may_have_any_number_of_fragments(count: int) -> None:
    words = [f"<{number}>" for number in range(count)]
    index = Index()
    index.add_many((number, f"a LIKE '%{word}%'") for number, word in enumerate(words))
    text = "".join(reversed(words)) * 2
    wanted = list(range(count))
    assert index.match({"a": text}) == index.match(json.dumps({"a": text})) == wanted
    found = index.match_batch([{"a": "none"}, {"a": text}, {"a": words[3]}], threads=1)
    assert sorted(found.filter(found["event"].to_numpy() == 1)["subscription"].to_pylist()) == wanted
    assert found.num_rows == count + 1


def test_rules_of_one_key_are_told_apart_by_the_pairs_of_bytes_they_want() -> None:
    patterns = [f"%{word}%7" for word in ("alpha", "bravo", "alp", "a", "", "a\\%b", "é")]
    index = Index()
    index.add_many((number, f"a LIKE '{one}'") for number, one in enumerate(patterns))
    assert index.match({"a": "x-alpha-7"}) == [0, 2, 3, 4]
    assert index.match({"a": "a%b7"}) == [3, 4, 5]
    assert index.match({"a": "é7"}) == [4, 6]
    assert index.match({"a": "7"}) == [4]
