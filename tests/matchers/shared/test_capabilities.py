"""Capabilities: which constructs a conjunction uses, so that a member refuses what it cannot hold."""

from __future__ import annotations

import pytest

from whimbrel import Filter
from whimbrel.matchers import make
from whimbrel.matchers.shared.capabilities import CONSTRUCTS, Capabilities, constructs, shape_of
from whimbrel.model.errors import UnsupportedEvent, UnsupportedFilter
from whimbrel.model.event import Event

ALL_CONSTRUCTS = [*CONSTRUCTS]


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("a = 1", "equality"),
        ("a = 1 AND a > 0", "equality"),
        ("a > 1", "ranges"),
        ("a BETWEEN 1 AND 2", "ranges"),
        ("a <= 1e999", "ranges"),
        ("a STARTS WITH 'x'", "ranges"),
        ("a LIKE '%'", "ranges"),
        ("a > TIMESTAMP '2026-01-01'", "ranges"),
        ("a != 1", "exclusions"),
        ("a NOT IN (1, 'x')", "exclusions"),
        ("a IN (1, 2)", "unions"),
        ("a = TRUE OR a = FALSE", "unions"),
        ("a < 1 OR a > 2", "unions"),
        ("a > 5 OR a < 'x'", "unions"),  # one interval, but over two types
        ("a = TRUE OR a < 5", "unions"),
        ("a <= 1e999 OR a LIKE '%'", "unions"),
        ("a NOT LIKE 'x%'", "unions"),
    ],
)
def test_the_shape_of_a_set_of_values(text: str, shape: str) -> None:
    (conjunction,) = Filter.parse(text).conjunctions
    assert shape_of(conjunction.constraints[0][1]) == shape
    assert list(constructs(conjunction)) == [shape]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("a LIKE '%x'", ["patterns"]),
        ("a CONTAINS 1 AND a = 2", ["members", "equality"]),
        ("a CONTAINS 1", ["members"]),
        ("a CONTAINS ANY (1, 2)", ["members", "unions"]),
        ("a CONTAINS NULL", ["members", "states"]),
        ("NOT a CONTAINS 1", ["nonmembers", "states"]),
        ("a IS NULL", ["states"]),
        ("a IS NULL OR a = 1", ["states"]),
        ("a < b", ["links"]),
        ("a < b AND c = 1 AND d > 2", ["equality", "ranges", "links"]),
    ],
)
def test_the_constructs_of_a_conjunction(text: str, used: list[str]) -> None:
    (conjunction,) = Filter.parse(text).conjunctions
    assert list(constructs(conjunction)) == used


def test_capabilities_support_what_it_names() -> None:
    capabilities = Capabilities(ranges=False, links=False)
    assert capabilities.supports(Filter.parse("a = 1 AND b != 2").conjunctions[0])
    assert not capabilities.supports(Filter.parse("a = 1 AND b < 2").conjunctions[0])
    assert capabilities.summary() == [name for name in ALL_CONSTRUCTS if name not in ("ranges", "links")]
    assert Capabilities().summary() == ALL_CONSTRUCTS


def test_a_refusal_names_the_construct_and_who_supports_it() -> None:
    with pytest.raises(UnsupportedFilter, match="does not support comparisons of two attributes") as caught:
        make("hanson").add(1, "a = 1 AND b < c")
    assert caught.value.matcher == "hanson"
    assert "naive" in caught.value.alternatives


@pytest.mark.parametrize(
    ("capabilities", "construct"),
    [
        (Capabilities(lists=False), "several values of an attribute"),
        (Capabilities(elements=False), "arrays of objects"),
    ],
)
def test_an_event_outside_the_capabilities_is_refused_where_a_filter_mentions_it(
    capabilities: Capabilities, construct: str
) -> None:
    event = Event({"b": 1, "d": [{"x": 1}, {"x": 2}]})
    with pytest.raises(UnsupportedEvent, match=f"does not support {construct} - at d.x"):
        capabilities.check_event("tree", event, lambda name: name == "d.x")
    capabilities.check_event("tree", event, lambda name: name == "b")
    Capabilities().check_event("tree", event, lambda name: True)
