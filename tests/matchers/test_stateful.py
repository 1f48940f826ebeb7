"""Matchers over time: every change and every match in any order, against a dict of filters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.strategies import events, filters
from whimbrel import Filter
from whimbrel.matchers import MATCHERS, make
from whimbrel.model.errors import DuplicateId, IdKindError, UnknownId, UnsupportedEvent, UnsupportedFilter

Id = int | str
IDS: list[list[Id]] = [
    ["", "x", "y", "\U0001f600", "1", "2", "3", "4"],
    [0, 1, -1, 2**63 - 1, -(2**63), 2, 3, 4],
]
places = st.integers(0, 7)


class Subscriptions(RuleBasedStateMachine):
    """The public methods of a matcher, and a dict that does the same without one."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.matcher: Any = make(name)
        self.kept: dict[Id, Filter] = {}
        self.was_filled = False

    @initialize(ids=st.sampled_from(IDS))
    def choose_the_kind_of_ids(self, ids: list[Id]) -> None:
        self.ids = ids

    @rule(place=places, filter=filters)
    def add(self, place: int, filter: Filter) -> None:
        id = self.ids[place]
        if id in self.kept:
            with pytest.raises(DuplicateId):
                self.matcher.add(id, filter)
            return
        try:
            self.matcher.add(id, filter)
        except UnsupportedFilter:
            return
        self.kept[id] = filter
        self.was_filled = True

    @rule(data=st.data(), as_texts=st.booleans())
    def add_many(self, data: st.DataObject, as_texts: bool) -> None:
        matcher = self.matcher
        load = {
            self.ids[place]: filter
            for place, filter in data.draw(st.dictionaries(places, filters)).items()
            if all(matcher.capabilities.supports(one) for one in filter.conjunctions)
        }
        pairs = [(id, str(filter) if as_texts else filter) for id, filter in load.items()]
        if load.keys() & self.kept.keys():
            with pytest.raises(DuplicateId):
                matcher.add_many(pairs)
            return
        try:
            matcher.add_many(pairs)
        except UnsupportedFilter:  # for a reason that capabilities do not tell
            return
        self.kept |= load
        self.was_filled = self.was_filled or bool(load)

    @rule(place=places)
    def remove(self, place: int) -> None:
        id = self.ids[place]
        if id in self.kept:
            self.matcher.remove(id)
            del self.kept[id]
        else:
            with pytest.raises(UnknownId):
                self.matcher.remove(id)

    @rule(place=places, filter=filters)
    def replace(self, place: int, filter: Filter) -> None:
        id = self.ids[place]
        if id not in self.kept:
            with pytest.raises(UnknownId):
                self.matcher.replace(id, filter)
            return
        try:
            self.matcher.replace(id, filter)
        except UnsupportedFilter:
            return
        self.kept[id] = filter

    @precondition(lambda self: self.was_filled)
    @rule(filter=filters)
    def ids_of_another_kind_are_refused(self, filter: Filter) -> None:
        other: Id = 7 if isinstance(self.ids[0], str) else "7"
        for id in (other, True):
            with pytest.raises(IdKindError):
                self.matcher.add(id, filter)
        assert other not in self.matcher

    @rule(event=events())
    def match(self, event: dict[str, Any]) -> None:
        try:
            found = self.matcher.match(event)
        except UnsupportedEvent:
            return
        assert found == [id for id, filter in self.kept.items() if filter.matches(event)]

    @rule(batch=st.lists(events(), max_size=4))
    def match_batch(self, batch: list[dict[str, Any]]) -> None:
        try:
            table = self.matcher.match_batch(batch)
        except UnsupportedEvent:
            return
        rows = table.column("event").to_pylist()
        pairs = list(zip(rows, table.column("subscription").to_pylist(), strict=True))
        expected = [(row, id) for row, e in enumerate(batch) for id, filter in self.kept.items() if filter.matches(e)]
        assert rows == sorted(rows)
        assert len(pairs) == len(expected)
        assert set(pairs) == set(expected)

    @invariant()
    def holds_what_was_added(self) -> None:
        assert len(self.matcher) == len(self.kept)
        for id, filter in self.kept.items():
            assert id in self.matcher
            assert self.matcher[id].filter == filter
        for id in getattr(self, "ids", ()):
            assert (id in self.matcher) == (id in self.kept)
        self.matcher._check()


def run(name: str, max_examples: int, steps: int) -> None:
    chosen = settings(max_examples=max_examples, stateful_step_count=steps)
    run_state_machine_as_test(lambda: Subscriptions(name), settings=chosen)


@pytest.mark.parametrize("name", MATCHERS)
def test_any_order_of_changes_and_matches(name: str) -> None:
    run(name, max_examples=15, steps=20)


@pytest.mark.soak
@pytest.mark.parametrize("name", MATCHERS)
def test_long_runs(name: str) -> None:
    run(name, max_examples=200, steps=100)
