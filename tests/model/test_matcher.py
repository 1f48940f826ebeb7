"""The matcher role: every algorithm and the index do the same with the same subscriptions."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from whimbrel import Filter, Index
from whimbrel.matchers import MATCHERS, make
from whimbrel.model.errors import DuplicateId, WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.explain import explain
from whimbrel.model.matcher import Matcher
from whimbrel.model.near_misses import near_misses

TEXTS = {"toy": "toy = 1", "book": "book = 1", "red": "red = 1 AND toy = 1"}  # which every algorithm supports
MAKERS: dict[str, Callable[[], Matcher]] = {name: lambda name=name: make(name) for name in MATCHERS}  # type: ignore[misc]
MAKERS["index"] = Index


@pytest.mark.parametrize("name", MAKERS)
def test_many_subscriptions_come_as_pairs_or_as_a_table(name: str) -> None:
    pairs, table, filters = MAKERS[name](), MAKERS[name](), MAKERS[name]()
    pairs.add_many(TEXTS.items())
    table.add_many(pa.table({"id": list(TEXTS), "filter": list(TEXTS.values())}))
    filters.add_many((id, Filter.parse(text)) for id, text in TEXTS.items())
    for matcher in (pairs, table, filters):
        assert list(matcher) == list(TEXTS) and len(matcher) == 3
        assert {id: str(matcher[id].filter) for id in matcher} == {id: str(Filter.parse(t)) for id, t in TEXTS.items()}
        assert matcher.attributes() == {"toy", "book", "red"}


@pytest.mark.parametrize("name", MAKERS)
def test_a_bad_load_adds_nothing(name: str) -> None:
    matcher = MAKERS[name]()
    for bad, error in (
        ([("a", "x = 1"), ("a", "x = 2")], DuplicateId),
        ([("a", "x = 1"), ("b", "x =")], WhimbrelError),
    ):
        with pytest.raises(error):
            matcher.add_many(bad)
        assert len(matcher) == 0 and "a" not in matcher
    matcher.add_many([(1, Filter.parse("x = 1"))])
    assert list(matcher) == [1]


@pytest.mark.parametrize("name", MAKERS)
def test_explanations_and_near_misses_are_those_of_the_filters(name: str) -> None:
    matcher = MAKERS[name]()
    matcher.add_many(TEXTS.items())
    event = {"toy": 1, "red": 0, "book": 0}
    assert matcher.explain("red", event) == explain(Filter.parse(TEXTS["red"]), Event(event))
    assert matcher.near_misses(event, 1) == near_misses([matcher[id] for id in TEXTS], Event(event), 1)
