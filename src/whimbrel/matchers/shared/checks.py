"""The conformance checks that every matcher runs.

A check gets a maker of empty matchers and asserts one sentence about behaviour. Checks use the part of the language
that all matchers support (an equality on 0/1 values), unless the capabilities of a matcher say that it can do more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import pyarrow as pa

from whimbrel.model.errors import (
    DuplicateId,
    EventError,
    IdKindError,
    MalformedSubscription,
    UnknownId,
    UnsupportedEvent,
    UnsupportedFilter,
)
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.matcher import Errors, Matcher


class CheckedMatcher(Matcher, Protocol):
    """A matcher that can assert its own invariants."""

    def _check(self) -> None: ...


Maker = Callable[[], CheckedMatcher]
Check = Callable[[Maker], None]

_SAMPLES = (
    "a = 1",
    "a = 0 AND b = 1",
    "a = 1 OR b = 1",
    "a > 0",
    "a >= 0 AND a < 1 AND b = 1",
    "a != 1",
    "a IN (0, 1)",
    "b LIKE '%x_'",
    "a CONTAINS 1",
    "a CONTAINS ALL (0, 1)",
    "a CONTAINS 1 AND a < 1",
    "a CONTAINS ANY (0, 2) AND a != 0 AND b = 1",
    "NOT a CONTAINS 1",
    "a IS NULL",
    "a IS NOT MISSING",
    "a < b",
    "TRUE",
    "FALSE",
)
_EVENTS: tuple[dict[str, object], ...] = (
    {},
    {"a": 1},
    {"a": 0, "b": 1},
    {"a": 1, "b": 1},
    {"a": 0, "b": 0, "c": 1},
    {"a": "1", "b": "axb"},
    {"a": True, "b": None},
    {"a": 0.5, "b": 2},
    {"a": [0, 1], "b": 1},
    {"a": [2, 1], "b": [0, 1]},
    {"a": [], "b": [None]},
)


def check_empty_matches_nothing(make: Maker) -> None:
    """An empty matcher matches nothing and has length 0."""
    matcher = make()
    assert matcher.match({"a": 1}) == []
    assert len(matcher) == 0
    assert matcher.match_batch([]).num_rows == 0
    matcher._check()


def check_each_id_once_in_order_of_addition(make: Maker) -> None:
    """An id that several conjunctions match is reported once, and ids come in order of addition."""
    matcher = make()
    for id, text in (("z", "b = 1"), ("m", "a = 1 OR b = 1"), ("a", "a = 1")):
        matcher.add(id, text)
    assert matcher.match({"a": 1, "b": 1}) == ["z", "m", "a"]


def check_same_answers_as_the_reference(make: Maker) -> None:
    """Every supported sample filter gives what `Filter.matches` gives, on every supported sample event."""
    matcher, filters = _filled(make)
    for event in _EVENTS:
        try:
            found = matcher.match(event)
        except UnsupportedEvent:
            continue
        assert found == [id for id, filter in filters.items() if filter.matches(event)], event


def check_always_true_and_unsatisfiable(make: Maker) -> None:
    """TRUE matches every event, an unsatisfiable filter none; both are held and can be removed."""
    matcher = make()
    matcher.add(1, "TRUE")
    matcher.add(2, "a = 0 AND a = 1")
    assert len(matcher) == 2
    assert matcher.match({}) == [1]
    assert matcher.match({"a": 1}) == [1]
    assert matcher.match_batch(pa.table({"b": [0, 0, 0]}).select([])).column("event").to_pylist() == [0, 1, 2]
    matcher.remove(1)
    matcher.remove(2)
    assert matcher.match({"a": 1}) == []


def check_equal_filters_under_several_ids(make: Maker) -> None:
    """Equal filters are kept apart by id: removing one leaves the others."""
    matcher = make()
    for id in range(5):
        matcher.add(id, "a = 1 AND b = 0")
    matcher.remove(2)
    assert matcher.match({"a": 1, "b": 0}) == [0, 1, 3, 4]
    matcher._check()


def check_remove_forgets(make: Maker) -> None:
    """After removal nothing matches and the id is free again."""
    matcher, filters = _filled(make)
    for id in list(filters):
        matcher.remove(id)
        matcher._check()
    assert len(matcher) == 0
    assert matcher.match({"a": 1, "b": 1}) == []
    matcher.add(next(iter(filters)), "a = 1")
    assert matcher.match({"a": 1}) == [next(iter(filters))]


def check_replace_keeps_the_place(make: Maker) -> None:
    """A replaced filter answers at once, in the place of the old one."""
    matcher = make()
    matcher.add("x", "a = 1")
    matcher.add("y", "a = 1")
    matcher.replace("x", "b = 1")
    assert matcher.match({"a": 1}) == ["y"]
    assert matcher.match({"a": 1, "b": 1}) == ["x", "y"]
    assert str(matcher["x"].filter) == "b = 1"


def check_errors_change_nothing(make: Maker) -> None:
    """Duplicate and unknown ids, and ids of another kind, are typed errors that change nothing."""
    matcher = make()
    matcher.add("x", "a = 1")
    calls: tuple[tuple[Callable[[], None], type[Exception]], ...] = (
        (lambda: matcher.add("x", "b = 1"), DuplicateId),
        (lambda: matcher.remove("y"), UnknownId),
        (lambda: matcher.replace("y", "a = 1"), UnknownId),
        (lambda: matcher.add(1, "a = 1"), IdKindError),
        (lambda: matcher.add(True, "a = 1"), IdKindError),
    )
    for call, error in calls:
        with _raises(error):
            call()
    assert matcher.match({"a": 1, "b": 1}) == ["x"]
    matcher._check()


def check_ids_of_numpy(make: Maker) -> None:
    """Integers and texts of NumPy are ids, and come out as plain ones."""
    for id, found in ((np.int64(7), 7), (np.str_("x"), "x")):
        matcher = make()
        matcher.add(id, "a = 1")  # type: ignore[arg-type]
        matcher.replace(id, "b = 1")  # type: ignore[arg-type]
        assert (id in matcher, matcher[found].id, matcher.match({"b": 1})) == (True, found, [found])
        assert {type(one) for one in (matcher[id].id, *matcher.match({"b": 1}), *matcher)} == {type(found)}  # type: ignore[index]
        matcher.remove(id)  # type: ignore[arg-type]
        assert len(matcher) == 0


def check_subscriptions_are_pairs(make: Maker) -> None:
    """What is no pair of id and filter is refused with its row, and nothing is added."""
    matcher = make()
    triple: object = [(1, "a = 1"), (2, "a = 1", "sql")]
    for bad in (triple, {"ab": "a = 1"}):
        with _raises(MalformedSubscription):
            matcher.add_many(bad)
        assert len(matcher) == 0


def check_a_failed_insert_changes_nothing(make: Maker) -> None:
    """Where a matcher fails to store a conjunction, `add`, `add_many` and `replace` change nothing."""
    matcher = make()
    insert = getattr(matcher, "_insert", None)
    if insert is None:  # the engine stores subscriptions in another way
        return
    matcher.add(1, "a = 1")
    several = Filter.parse("a = 0 OR b = 0 OR c = 1")
    calls: tuple[Callable[[], None], ...] = (
        lambda: matcher.add(2, several),
        lambda: matcher.add_many([(2, Filter.parse("a = 0")), (3, several)]),
        lambda: matcher.replace(1, several),
    )
    for call in calls:
        for stored in range(3):
            vars(matcher)["_insert"] = _failing(insert, stored)
            with _raises(MemoryError):
                call()
            vars(matcher)["_insert"] = insert
            matcher._check()
            assert list(matcher) == matcher.match({"a": 1, "b": 0, "c": 1}) == [1]


def check_batch_equals_single_events(make: Maker) -> None:
    """match_batch gives the pairs of match, in event order."""
    matcher, _ = _filled(make)
    events = [event for event in _EVENTS if _answers(matcher, event)]
    pairs = [(row, id) for row, event in enumerate(events) for id in matcher.match(event)]
    assert _pairs(matcher.match_batch(events)) == pairs


def check_all_forms_of_events_give_the_same_pairs(make: Maker) -> None:
    """Objects and JSON texts of the same events give the same pairs, however they come; so do tables of numbers."""
    matcher, _ = _filled(make)
    numbers = [event for event in _EVENTS if all(type(value) is int for value in event.values())]
    table = pa.table({name: [event.get(name) for event in numbers] for name in ("a", "b", "c")})
    expected = [(row, id) for row, event in enumerate(numbers) for id in matcher.match(event)]
    for rows in (table, table.to_batches()[0]):
        assert _pairs(matcher.match_batch(rows)) == expected, type(rows)
    events = [event for event in _EVENTS if _answers(matcher, event)]
    expected = [(row, id) for row, event in enumerate(events) for id in matcher.match(event)]
    forms: list[object] = [events, (event for event in events), [Event(event) for event in events]]
    texts = [json.dumps(event) for event in events]
    lines = "\n".join(texts).encode()
    forms += [texts, [text.encode() for text in texts], iter(texts), lines, memoryview(lines), lines.decode()]
    column = pa.array(texts)
    forms += [column, pa.chunked_array([texts[:1], texts[1:]]), column.cast(pa.binary()), column.dictionary_encode()]
    assert [id for text in texts for id in matcher.match(text)] == [id for _, id in expected]
    for form in forms:
        assert _pairs(matcher.match_batch(form)) == expected, type(form)


def check_bad_events_are_skipped_or_raised(make: Maker) -> None:
    """A bad event of a batch is raised with its row, or collected; then it keeps its row and has no matches."""
    matcher = make()
    matcher.add(1, "a = 1")
    matcher.add(2, "TRUE")
    events: list[object] = [{"a": 1}, {"a": b"x"}, {"a": 0}, 7, {"c": 10**1_001}, {"a": 1}]
    errors: Errors = []
    assert _pairs(matcher.match_batch(events, errors=errors)) == [(0, 1), (0, 2), (2, 2), (5, 1), (5, 2)]
    assert [(row, error.row) for row, error in errors] == [(1, 1), (3, 3), (4, 4)]
    with _raises(EventError) as raised:
        matcher.match_batch(events)
    assert isinstance(raised[0], EventError) and raised[0].row == 1


def check_a_set_test_beside_a_comparison(make: Maker) -> None:
    """Le Subscribe's own subscription (section 2.3): a member of the event's types beside a comparison."""
    text = "event_type CONTAINS 'antiques' AND furniture_category < 'dining table'"
    matcher, filter = make(), Filter.parse(text)
    try:
        matcher.add(1, filter)
    except UnsupportedFilter:
        return
    for types in (["antiques", "furniture"], ["furniture"], "antiques"):
        for category in ("chair", "dining table", ["table", "chair"], ["table", "dining table"]):
            event = {"event_type": types, "furniture_category": category}
            try:
                assert matcher.match(event) == [1] * filter.matches(event), event
            except UnsupportedEvent:
                continue


def check_refusals_are_typed(make: Maker) -> None:
    """An unsupported filter is refused with the construct and the matchers that support it, and nothing changes."""
    matcher = make()
    for text in _SAMPLES:
        before = len(matcher)
        try:
            matcher.add(text, text)
        except UnsupportedFilter as refusal:
            if not (refusal.alternatives and refusal.construct):
                raise AssertionError("Expected the construct and the members that support it") from refusal
            assert len(matcher) == before
            matcher._check()


@contextmanager
def _raises(error: type[Exception]) -> Iterator[list[Exception]]:
    """Assert that the block raises such an error, which is then in the list."""
    caught: list[Exception] = []
    try:
        yield caught
    except error as one:
        caught.append(one)
    else:
        raise AssertionError(f"Expected {error.__name__}")


def _pairs(table: pa.Table) -> list[tuple[int, int]]:
    """The pairs of a result, which must be in event order; sorted within an event."""
    rows = table.column("event").to_pylist()
    assert rows == sorted(rows)
    return sorted(zip(rows, table.column("subscription").to_pylist(), strict=True))


def _failing(insert: Callable[..., None], stored: int) -> Callable[..., None]:
    """An `_insert` that raises once it has stored `stored` conjunctions."""
    left = iter(range(stored))

    def failing(number: int, conjunction: object) -> None:
        if next(left, None) is None:
            raise MemoryError
        insert(number, conjunction)

    return failing


def _answers(matcher: CheckedMatcher, event: dict[str, object]) -> bool:
    try:
        matcher.match(event)
    except UnsupportedEvent:
        return False
    return True


def _filled(make: Maker) -> tuple[CheckedMatcher, dict[int, Filter]]:
    matcher, filters = make(), {}
    for id, text in enumerate(_SAMPLES):
        filter = Filter.parse(text)
        try:
            matcher.add(id, filter)
        except UnsupportedFilter:
            continue
        filters[id] = filter
    return matcher, filters


CHECKS: tuple[Check, ...] = tuple(value for name, value in vars().items() if name.startswith("check_"))
"""Every check of this module, in its order."""
