"""Every matcher runs every conformance check, and agrees with the reference on generated input."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import events, filters
from whimbrel import Index
from whimbrel.matchers import MATCHERS, make
from whimbrel.matchers.checks import CHECKS, Check
from whimbrel.model.errors import LimitExceeded, UnsupportedEvent, UnsupportedFilter
from whimbrel.model.filter import Filter
from whimbrel.model.schema import Hierarchy, Schema


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", MATCHERS)
def test_conformance(name: str, check: Check) -> None:
    check(lambda: make(name))


@pytest.mark.parametrize("name", ["naive", "fair_predicate", "equality_preferred", "quarantine", "index"])
def test_the_papers_subscription_on_its_types_and_a_hierarchy(name: str) -> None:
    """Le Subscribe, section 2.3: a member of the event's types, and a kind of dining table."""
    schema = Schema()
    kinds = {"furniture": ("table", "chair"), "table": ("dining table",), "dining table": ("trestle table",)}
    schema.create_domain("furniture", Hierarchy(kinds))
    schema.create_attribute("furniture_category", "furniture")
    schema.create_type("antiques", {})
    schema.create_type("furniture", {"furniture_category": "mandatory multiple"})
    text = "event_type CONTAINS 'antiques' AND furniture_category < 'dining table'"
    matcher: Any = Index(schema=schema) if name == "index" else make(name)
    matcher.add(1, Filter.parse(text, schema=schema))
    both = ["antiques", "furniture"]
    for types, category, expected in (
        (both, "trestle table", [1]), (both, ["chair", "trestle table"], [1]), (both, "dining table", []),
        (both, "chair", []), (["furniture"], "trestle table", []),
    ):  # fmt: skip
        assert matcher.match({"event_type": types, "furniture_category": category}) == expected


@pytest.mark.parametrize("name", MATCHERS)
@given(data=st.data())
def test_agrees_with_the_reference_within_its_capabilities(name: str, data: st.DataObject) -> None:
    matcher = make(name)
    kept: dict[int, Filter] = {}
    for id, filter in enumerate(data.draw(st.lists(filters, max_size=8))):
        try:
            matcher.add(id, filter)
        except (UnsupportedFilter, LimitExceeded):
            continue
        kept[id] = filter
    matcher._check()
    for event in data.draw(st.lists(events(), min_size=1, max_size=4)):
        _agree(matcher, kept, event)
    for id in data.draw(st.lists(st.sampled_from(sorted(kept)), unique=True)) if kept else []:
        matcher.remove(id)
        del kept[id]
    matcher._check()
    _agree(matcher, kept, data.draw(events()))


def _agree(matcher: Any, kept: dict[int, Filter], event: dict[str, Any]) -> None:
    try:
        found = matcher.match(event)
    except UnsupportedEvent:
        return
    assert found == [id for id, filter in kept.items() if filter.matches(event)]
