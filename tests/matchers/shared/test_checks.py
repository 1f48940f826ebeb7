"""Every matcher runs every conformance check."""

from __future__ import annotations

from typing import Any

import pytest

from whimbrel import Index
from whimbrel.matchers import MATCHERS, make
from whimbrel.matchers.shared.checks import CHECKS, Check
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
