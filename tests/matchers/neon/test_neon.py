"""Neon: its tables, its refusals, and its relational form run by a database."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import events, filters
from whimbrel.lab.workloads import make as make_workload
from whimbrel.matchers import make
from whimbrel.matchers.neon.neon import Neon
from whimbrel.matchers.shared.option_checks import MatcherOptionError
from whimbrel.model.errors import LimitExceeded, UnsupportedEvent, UnsupportedFilter
from whimbrel.model.filter import Filter

duckdb: Any = pytest.importorskip("duckdb")


def neon(**options: object) -> Neon:
    matcher = make("neon", **options)
    assert isinstance(matcher, Neon)
    return matcher


def query(matcher: Neon, events: object) -> list[tuple[int, int | str]]:
    """The pairs that a database finds, with those of the subscriptions that have no predicate."""
    form = matcher.relational_form()
    with duckdb.connect() as database:
        for name in ("predicates", "n_predicates", "holders"):
            database.register(name, getattr(form, name))
        database.register("events", matcher.relational_events(events))
        return sorted(database.execute(form.query).fetchall())


def test_an_interval_is_two_predicates_and_not_in_is_one_for_each_constant() -> None:
    matcher = neon()
    matcher.add("x", "a > 1 AND a <= 5 AND b NOT IN ('u', 'v') AND c = 1")
    assert matcher.match({"a": 5, "b": "w", "c": 1}) == ["x"]
    stats = matcher.stats()
    assert (stats["operations"], stats["predicates_stored"]) == (4, 5)
    assert matcher.match({"a": 5, "b": "v", "c": 1}) == []
    assert matcher.match({"a": True, "b": "w", "c": 1}) == []


def test_equal_predicates_of_two_conjunctions_are_stored_and_evaluated_twice() -> None:
    matcher = neon(count=True)
    matcher.add_many(enumerate(["a < 5 AND b = 1", "a < 5 AND b = 2"]))
    assert matcher.match({"a": 3, "b": 2}) == [1]
    stats = matcher.stats()
    assert (stats["predicate_evaluations"], stats["additions"], stats["comparisons"]) == (4, 3, 2)
    matcher.match({"b": 2})
    assert matcher.stats()["predicate_evaluations"] == 4 + 2
    assert matcher.stats()["comparisons"] == 2 + 1  # only the count that b = 2 reached


def test_lists_and_unions_are_refused() -> None:
    matcher = neon()
    matcher.add(1, "a > 10 AND a < 20")
    for refused in ({"a": [5, 30]}, [{"a": 1}, {"a": [5, 30]}]):
        with pytest.raises(UnsupportedEvent) as caught:
            matcher.match_batch(refused) if isinstance(refused, list) else matcher.match(refused)
        assert caught.value.attribute == "a"
    with pytest.raises(UnsupportedFilter, match="unions") as refusal:
        matcher.add(2, "a IN (1, 2)")
    assert "quarantine" in refusal.value.alternatives
    assert matcher.match({"a": [15], "z": [1, 2]}) == [1]


def test_an_event_reaches_the_tables_of_its_type_and_those_of_all_types() -> None:
    matcher = neon(count=True)
    matcher.add_many(
        enumerate(["event_type = 'sale' AND price < 5", "event_type = 'gift' AND price < 5", "price < 5", "size = 1"])
    )
    assert matcher.match({"event_type": "sale", "price": 3}) == [0, 2]
    stats = matcher.stats()
    assert (stats["event_types"], stats["operations"], stats["predicates_stored"]) == (2, 4, 4)
    assert (stats["operations_used"], stats["predicate_evaluations"], stats["comparisons"]) == (2, 2, 2)
    assert matcher.match({"price": 3}) == matcher.match({"event_type": "other", "price": 3}) == [2]
    matcher._check()


def test_a_subscription_to_a_type_alone_is_a_predicate_of_that_type() -> None:
    matcher = neon()
    matcher.add_many(
        enumerate(["event_type = 'sale'", "event_type != 'gift'", "event_type = 'sale' AND event_type < 'z'"])
    )
    assert matcher.match({"event_type": "sale"}) == [0, 1, 2]
    assert matcher.match({"event_type": "other"}) == [1]
    matcher.add(3, "event_type = 'sale'")  # not compiled yet
    assert matcher.match({"event_type": "sale"}) == [0, 1, 2, 3]


def test_another_attribute_may_be_the_type() -> None:
    matcher = neon(event_type="kind")
    matcher.add(1, "kind = 'sale' AND event_type = 'x'")
    assert matcher.match({"kind": "sale", "event_type": "x"}) == [1]
    assert matcher.stats()["event_types"] == matcher.stats()["predicates_stored"] == 1
    with pytest.raises(MatcherOptionError, match="event_type"):
        neon(event_type=7)


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("waiting", [False, True])
def test_two_attributes_are_compared_as_the_reference_does(op: str, waiting: bool) -> None:
    matcher, filter = neon(), Filter.parse(f"a {op} b AND c = 1")
    if waiting:
        matcher.add_many([(number, f"d = {number}") for number in range(64)])
        matcher.match({})
    matcher.add(99, filter)
    values: list[object] = [1, 2, 2.0, 2**70, "x", "y", True, False, None]
    events = [{"a": left, "b": right, "c": 1} for left in values for right in values]
    for event in events:
        assert matcher.match(event) == [99] * filter.matches(event), event
    assert matcher.stats()["waiting"] == int(waiting)
    assert query(matcher, events) == [(row, 99) for row, event in enumerate(events) if filter.matches(event)]
    matcher._check()


@settings(max_examples=20)
@given(st.lists(filters, max_size=6), st.lists(events(), min_size=1, max_size=3))
def test_the_relational_form_finds_the_same_pairs(candidates: list[Filter], found: list[dict[str, Any]]) -> None:
    matcher = neon()
    for number, filter in enumerate(candidates):
        try:
            matcher.add(number, filter)
        except (UnsupportedFilter, LimitExceeded):
            continue
    answered = []
    for event in found:
        try:
            matcher.match(event)
        except UnsupportedEvent:
            continue
        answered.append(event)
    always = set(matcher.relational_form().always)
    expected = {(row, id) for row, event in enumerate(answered) for id in matcher.match(event)}
    pairs = query(matcher, answered)
    assert len(pairs) == len(set(pairs))
    assert set(pairs) | {(row, id) for row in range(len(answered)) for id in always} == expected


def test_the_relational_form_of_a_workload() -> None:
    made = make_workload("lesubscribe", n=100, events=40)
    matcher = neon()
    matcher.add_many(zip([f"s{i}" for i in range(100)], made.subscriptions.column("filter").to_pylist(), strict=True))
    table = matcher.match_batch(made.events)
    pairs = zip(table.column("event").to_pylist(), table.column("subscription").to_pylist(), strict=True)
    assert query(matcher, made.events) == sorted(pairs)
    assert "HAVING COUNT(*)" in matcher.relational_form().query
    assert query(matcher, []) == []
