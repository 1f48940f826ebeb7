"""Explanations agree with the reference evaluator, and near misses with a plain count of what failed."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import events, filters
from whimbrel import Filter
from whimbrel.matchers import make
from whimbrel.model.event import Event
from whimbrel.model.explain import ConstraintExplanation, explain
from whimbrel.model.near_misses import near_misses
from whimbrel.model.subscription import Subscription
from whimbrel.model.values import Timestamp


def only_constraint(text: str, event: dict[str, Any], timestamps: tuple[str, ...] = ()) -> ConstraintExplanation:
    explanation = explain(Filter.parse(text), Event(event, timestamps))
    assert len(explanation.conjunctions) == 1
    assert len(explanation.conjunctions[0].constraints) == 1
    return explanation.conjunctions[0].constraints[0]


def test_each_constraint_says_what_was_seen_and_whether_it_held() -> None:
    explanation = explain(Filter.parse("category = 'Toy' AND price < 5"), Event({"category": "Toy", "price": 7}))
    assert not explanation.matched
    category, price = explanation.conjunctions[0].constraints
    assert category == ConstraintExplanation("category", "category = 'Toy'", True, ("Toy",))
    assert price == ConstraintExplanation("price", "price < 5", False, (7,), 2.0)


@pytest.mark.parametrize(
    ("text", "value", "distance"),
    [
        ("x < 5", 5, 0.0),
        ("x < 5", 7.5, 2.5),
        ("x BETWEEN 1 AND 5", -2, 3.0),
        ("x IN (1, 10)", 7, 3.0),
        ("x < 5", [100, 6], 1.0),
        ("x < 5", "7", None),
        ("x < 5", None, None),
        ("x < 5", [], None),
        ("x < 5", 3, None),
        ("x = 'a'", "b", None),
        ("x > 0", -(10**400), float("inf")),
        ("x < 5 AND x CONTAINS 9", 3, None),
    ],
)
def test_distance_is_how_far_the_nearest_number_lies_outside(text: str, value: object, distance: float | None) -> None:
    assert only_constraint(text, {"x": value}).distance == distance


def test_distance_of_timestamps_is_in_seconds() -> None:
    event = {"t": "2026-01-01T00:01:30Z"}
    constraint = only_constraint("t < TIMESTAMP '2026-01-01T00:00:00Z'", event, timestamps=("t",))
    assert constraint.distance == 90.0
    assert constraint.seen == (Timestamp.parse("2026-01-01T00:01:30Z"),)


def test_a_comparison_of_two_attributes_shows_both() -> None:
    link = only_constraint("low < price", {"low": 10, "price": [4, 7]})
    assert (link.attribute, link.seen, link.other, link.other_seen) == ("low", (10,), "price", (4, 7))
    assert (link.text, link.held, link.distance) == ("low < price", False, 3.0)
    assert only_constraint("a != b", {"a": 1, "b": 1}).distance is None


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("items.kind = 'a' AND items.size = 2", {"items": [{"kind": "a", "size": 1}, {"kind": "b", "size": 2}]}),
        ("a < b AND b < c", {"a": 5, "b": [2, 6], "c": 4}),
    ],
)
def test_constraints_that_hold_alone_but_not_together_are_said_to_be_coupled(text: str, event: dict[str, Any]) -> None:
    conjunction = explain(Filter.parse(text), Event(event)).conjunctions[0]
    assert conjunction.coupled
    assert conjunction.failed == 1
    assert "hold together" in str(conjunction)


def test_unsatisfiable_and_always_true_filters_are_explained() -> None:
    never = explain(Filter.parse("a = 1 AND a = 2"), Event({"a": 1}))
    assert (never.matched, never.conjunctions) == (False, ())
    assert str(never) == "no match: the filter is unsatisfiable"
    always = explain(Filter.parse("TRUE"), Event({}))
    assert always.matched
    assert str(always) == "match\n  + TRUE"


def test_text_lists_every_alternative() -> None:
    explanation = explain(Filter.parse("a = 1 OR b CONTAINS 'x'"), Event({"a": 1}))
    assert str(explanation).splitlines() == [
        "match: 1 of 2 alternatives hold",
        "  + alternative 1",
        "    + a = 1  [a: 1]",
        "  - alternative 2",
        "    - b CONTAINS 'x'  [b: missing]",
    ]


def test_text_stays_on_its_line_and_short() -> None:
    text = str(only_constraint("a = 1", {"a": ["\x1b[2J\n", "y" * 10_000, *range(2, 30)]}))
    assert "\n" not in text and "\x1b" not in text
    assert len(text) < 1_000
    assert "22 more" in text


def test_near_misses_rank_by_failures_and_then_by_order() -> None:
    index = make("naive")
    index.add("two", "a = 2 AND b = 2")
    index.add("one", "a = 1 AND b = 2")
    index.add("never", "a = 1 AND a = 2")
    index.add("hit", "a = 1")
    index.add("another", "b > 5 OR (a = 9 AND b = 9)")
    found = index.near_misses({"a": 1, "b": 1})
    assert [(miss.id, miss.failed) for miss in found] == [("one", 1), ("another", 1), ("two", 2)]
    assert str(found[1]) == "another: 1 failed\n  - b > 5  [b: 1, off by 4]"
    assert [miss.id for miss in index.near_misses({"a": 1, "b": 1}, limit=1)] == ["one"]
    assert index.near_misses({"a": 1, "b": 1}, limit=0) == []


@given(filter=filters, event=events())
def test_an_explanation_agrees_with_the_reference(filter: Filter, event: dict[str, Any]) -> None:
    explanation = explain(filter, Event(event))
    assert explanation.matched == filter.matches(event)
    for conjunction in explanation.conjunctions:
        assert not conjunction.matched or all(constraint.held for constraint in conjunction.constraints)
        assert conjunction.matched == (conjunction.failed == 0)
        for constraint in conjunction.constraints:
            assert Filter.parse(constraint.text).matches(event) == constraint.held
    assert str(explanation)
    json.dumps(explanation.to_dict(), allow_nan=False)


@given(pool=st.lists(filters, max_size=8), event=events(), limit=st.integers(0, 5))
def test_near_misses_are_the_fewest_failures(pool: list[Filter], event: dict[str, Any], limit: int) -> None:
    subscriptions = [Subscription(id, filter) for id, filter in enumerate(pool)]
    expected = sorted(
        (min(conjunction.failed for conjunction in explanation.conjunctions), id)
        for id, filter in enumerate(pool)
        if (explanation := explain(filter, Event(event))).conjunctions and not explanation.matched
    )
    found = near_misses(subscriptions, Event(event), limit)
    assert [(miss.failed, miss.id) for miss in found] == expected[:limit]
    assert all(miss.explanation.failed == miss.failed for miss in found)
    json.dumps([miss.to_dict() for miss in found], allow_nan=False)


@pytest.mark.parametrize(
    ("text", "value", "hint"),
    [
        ("price > '5'", 7, "strings and numbers are never compared; write the number without quotes"),
        ("price > 5", "7", "numbers and strings are never compared; write the text in quotes"),
        ("price = 'true'", True, "strings and booleans are never compared; write TRUE or FALSE without quotes"),
        ("price LIKE '5%'", 5, "strings and numbers are never compared; write the number without quotes"),
        ("price > '2026-01-01'", datetime(2026, 5, 5), "strings and timestamps are never compared; write TIMESTAMP"),
        ("price > TIMESTAMP '2026-01-01'", "2026-05-05", "timestamps and strings are never compared; name price in"),
        ("price > '2026-01-01'", "2025-05-05", "texts are compared letter by letter; write TIMESTAMP"),
    ],
)
def test_values_of_another_type_are_told_with_what_to_write(text: str, value: object, hint: str) -> None:
    explanation = explain(Filter.parse(text), Event({"price": value}))
    (constraint,) = explanation.conjunctions[0].constraints
    assert constraint.hint is not None and constraint.hint.startswith(hint)
    assert hint in str(explanation) and constraint.to_dict()["hint"] == constraint.hint


@pytest.mark.parametrize(("text", "value"), [("a > 5", 3), ("a > 5", None), ("a = 'x'", "y"), ("a IS NULL", 3)])
def test_values_of_the_right_type_need_no_hint(text: str, value: object) -> None:
    explanation = explain(Filter.parse(text), Event({"a": value}))
    assert [constraint.hint for constraint in explanation.conjunctions[0].constraints] == [None]


def test_an_explanation_says_what_was_probably_meant() -> None:
    explanation = explain(Filter.parse('category = "Toy" AND name != NULL'), Event({"category": "Toy"}))
    assert explanation.hints == (
        """"Toy" is the name of an attribute; did you mean 'Toy'?""",
        "nothing equals NULL; did you mean IS NOT NULL?",
    )
    assert all(hint in str(explanation) for hint in explanation.hints)
    assert explanation.to_dict()["hints"] == list(explanation.hints)
