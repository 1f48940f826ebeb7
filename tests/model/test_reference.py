"""The reference evaluator against brute force over every binding."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from tests import oracle
from tests.strategies import events, expressions, filters
from whimbrel.model import expression as x
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter


@given(expressions, events())
def test_the_normal_form_matches_what_the_expression_matches(expression: x.Expression, event: dict[str, Any]) -> None:
    assert Filter(expression).matches(event) == oracle.matches(expression, event)


@given(filters, filters, events())
def test_covers_is_never_wrong(f: Filter, g: Filter, event: dict[str, Any]) -> None:
    if f.covers(g) and g.matches(event):
        assert f.matches(event)


@given(filters, filters, events())
def test_two_filters_that_share_an_event_intersect(f: Filter, g: Filter, event: dict[str, Any]) -> None:
    if f.matches(event) and g.matches(event):
        assert f.intersects(g)


@given(filters, events())
def test_always_true_and_unsatisfiable_are_never_wrong(f: Filter, event: dict[str, Any]) -> None:
    matched = f.matches(Event(event))
    assert matched or not f.is_always_true()
    assert f.is_satisfiable() or not matched


@given(filters)
def test_a_filter_covers_itself_and_equals_its_normal_form(f: Filter) -> None:
    assert f.covers(f)
    assert Filter(f.expression) == f
    assert hash(Filter(f.expression)) == hash(f)
