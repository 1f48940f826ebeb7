"""Several event types: a structure for each, or names that begin with the type; the answers are the same."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import events, filters
from whimbrel.matchers import MATCHERS, make
from whimbrel.matchers.shared.checks import CHECKS, Check
from whimbrel.matchers.shared.option_checks import MatcherOptionError
from whimbrel.model.errors import LimitExceeded, UnsupportedEvent, UnsupportedFilter
from whimbrel.model.filter import Filter
from whimbrel.model.schema import Hierarchy, Schema

WAYS = ("structures", "names")
IN_WHICH_A_IS_THE_TYPE = patch("whimbrel.matchers.shared.event_types.TYPE_ATTRIBUTE", "a")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["quarantine", "neon"])
def test_conformance(name: str, way: str, check: Check) -> None:
    with IN_WHICH_A_IS_THE_TYPE:
        check(lambda: make(name, types=way))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["fair_predicate", "naive"])
@settings(max_examples=30)
@given(data=st.data())
def test_agrees_with_the_reference(name: str, way: str, data: st.DataObject) -> None:
    with IN_WHICH_A_IS_THE_TYPE:
        matcher, kept = make(name, types=way), dict[int, Filter]()
        for id, filter in enumerate(data.draw(st.lists(filters, max_size=8))):
            try:
                matcher.add(id, filter)
            except (UnsupportedFilter, LimitExceeded):
                continue
            kept[id] = filter
        for id in data.draw(st.lists(st.sampled_from(sorted(kept)), unique=True)) if kept else []:
            matcher.remove(id)
            del kept[id]
        matcher._check()
        for event in data.draw(st.lists(events(), min_size=1, max_size=4)):
            try:
                found = matcher.match(event)
            except UnsupportedEvent:
                continue
            assert found == [id for id, filter in kept.items() if filter.matches(event)]


def market() -> Schema:
    schema = Schema(type_attribute="kind")
    schema.create_domain("furniture", Hierarchy({"table": ("dining table",), "dining table": ("trestle table",)}))
    schema.create_attribute("category", "furniture")
    schema.create_attribute("price", "float")
    schema.create_type("antiques", {"price": "mandatory"})
    schema.create_type("furniture", {"price": "mandatory", "category": "mandatory"})
    return schema


@pytest.mark.parametrize("way", WAYS)
def test_the_schema_says_which_attribute_holds_the_types(way: str) -> None:
    schema = market()
    matcher = make("quarantine", types=way, count=True)
    texts = ["kind CONTAINS 'furniture' AND category < 'table'", "kind = 'antiques' AND price < 5", "price < 9"]
    for number, text in enumerate(texts):
        matcher.add(number, Filter.parse(text, schema=schema))
    table: dict[str, Any] = {"kind": "furniture", "price": 7, "category": "dining table"}
    assert matcher.match(table) == [0, 2]
    assert matcher.match({"kind": "antiques", "price": 3}) == [1, 2]
    assert matcher.stats()["structures"] == (3 if way == "structures" else 1)
    both = {**table, "kind": ["antiques", "furniture"], "price": 3}
    if way == "structures":
        assert matcher.match(both) == [0, 1, 2]
    else:
        with pytest.raises(UnsupportedEvent, match="several event types"):
            matcher.match(both)
    matcher._check()


def test_an_event_pays_for_its_own_type_only() -> None:
    texts = [f"event_type = 't{number % 10}' AND price < {5 + number // 10}" for number in range(100)]
    work = {}
    for way in (None, *WAYS):
        matcher = make("fair_predicate", types=way, count=True)
        for number, text in enumerate(texts):
            matcher.add(number, text)
        assert len(matcher.match({"event_type": "t3", "price": 3})) == 10
        work[way] = matcher.stats()["additions"]
    assert work == {None: 100 + 10, "structures": 10, "names": 10}


@pytest.mark.parametrize("way", WAYS)
def test_what_holds_for_missing_attributes_still_wants_the_type(way: str) -> None:
    matcher = make("naive", types=way)
    matcher.add(1, "event_type = 'sale' AND price IS MISSING")
    events = {"event_type": "sale"}, {}, {"event_type": "gift"}, {"event_type": "sale", "price": 3}
    assert [matcher.match(event) for event in events] == [[1], [], [], []]


@pytest.mark.parametrize("way", WAYS)
def test_no_attribute_of_an_event_is_taken_for_that_of_a_type(way: str) -> None:
    matcher = make("naive", types=way)
    matcher.add(1, "event_type = 'sale' AND price = 3")
    assert matcher.match({"event_type": "gift", "0": {"price": 3}}) == []
    if way == "names":
        with pytest.raises(UnsupportedEvent, match="NUL"):
            matcher.match({"\0000": {"price": 3}})


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(MatcherOptionError, match="structures, names"):
        make("naive", types="folders")


def test_no_class_without_a_name_is_a_member() -> None:
    assert all(member.name == name for name, member in MATCHERS.items())
