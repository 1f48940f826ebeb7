"""The five operations in any order, against M recomputed from scratch: every notification, and no other."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.spaces.model import Model
from tests.spaces.regions import SPACES, regions
from whimbrel.spaces import Notification, Notifications, SubjectSpaces
from whimbrel.spaces.dimensions.interval import Interval
from whimbrel.spaces.index import ordered_lists

KEYS = ["a", "b", "c", 7, -1]
keys = st.sampled_from(KEYS)
data = st.data()


class Spaces(RuleBasedStateMachine):
    """Subject spaces beside the model. Subscriptions whose key is text are told of leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.tail = ordered_lists.TAIL

    @initialize(chosen=st.sampled_from(SPACES), tail=st.sampled_from([0, 3, 2_048]), durable=st.booleans())
    def define(self, chosen: dict[str, dict[str, str]], tail: int, durable: bool) -> None:
        ordered_lists.TAIL = tail
        self.durable = durable
        self.spaces = SubjectSpaces.open(self.directory) if durable else SubjectSpaces()
        self.model = Model(chosen)
        for name, dimensions in chosen.items():
            self.spaces.define(name, dimensions)
        self.few = st.lists(regions(chosen), min_size=1, max_size=3) | st.lists(regions(chosen), min_size=1, max_size=1)
        self.before = self.model.pairs()
        self.kept: list[tuple[Notification, Any]] = []

    def teardown(self) -> None:
        ordered_lists.TAIL = self.tail
        if hasattr(self, "spaces"):
            self.spaces.close()
        shutil.rmtree(self.directory)

    def check(self, found: Notifications, deleted: Any = None) -> None:
        """The notifications are those of the change in M."""
        after = self.model.pairs()
        expected = [("enter", p, s) for p, s in after - self.before]
        for p, s in self.before - after:
            if p == deleted:
                expected.append(("delete", p, s))
            elif isinstance(s, str) and s in self.model.subscriptions:
                expected.append(("leave", p, s))
        told = Counter((each.kind, each.publication, each.subscription) for each in found)
        assert told == Counter(expected)
        assert {each.sequence for each in found} <= {self.spaces.sequence}
        for each in found:
            content = None if each.kind == "delete" else self.spaces.publication(each.publication)
            assert each.content == content
            self.kept.append((each, content))
        del self.kept[:-30]
        self.before = after

    @rule(key=keys, data=data)
    def publish(self, key: Any, data: st.DataObject) -> None:
        if key in self.model.publications:
            return
        self.model.publications[key] = data.draw(self.few)
        self.check(self.spaces.publish(key, self.model.publications[key]))

    @rule(key=keys, data=data)
    def subscribe(self, key: Any, data: st.DataObject) -> None:
        if key in self.model.subscriptions:
            return
        self.model.subscriptions[key] = data.draw(self.few)
        self.check(self.spaces.subscribe(key, self.model.subscriptions[key], leave=isinstance(key, str)))

    @rule(key=keys, data=data)
    def update_publication(self, key: Any, data: st.DataObject) -> None:
        if key in self.model.publications:
            self.model.publications[key] = data.draw(self.few)
            self.check(self.spaces.update_publication(key, self.model.publications[key]))

    @rule(key=keys, data=data)
    def update_partly(self, key: Any, data: st.DataObject) -> None:
        if len(self.model.publications.get(key, ())) == 1:
            change = self.draw_change(key, data)
            self.check(self.spaces.update_publication(key, change))

    def draw_change(self, key: Any, data: st.DataObject) -> dict[str, Interval | None]:
        (region,) = self.model.publications[key]
        change: dict[str, Interval | None] = dict(data.draw(regions(self.model.spaces)))
        removed = data.draw(st.sampled_from([None, *region]))
        if removed is not None and region.keys() | change.keys() != {removed}:
            change[removed] = None
        merged = {**region, **change}
        self.model.publications[key] = [{name: each for name, each in merged.items() if each is not None}]
        return change

    @rule(chosen=st.lists(keys, min_size=1, max_size=6), data=data)
    def update_many(self, chosen: list[Any], data: st.DataObject) -> None:
        expected: Counter[tuple[str, Any, Any]] = Counter()
        changes: list[tuple[Any, Any]] = []
        for key in chosen:
            if key not in self.model.publications:
                continue
            if len(self.model.publications[key]) == 1:
                changes.append((key, self.draw_change(key, data)))
            else:
                self.model.publications[key] = data.draw(self.few)
                changes.append((key, self.model.publications[key]))
            after = self.model.pairs()
            expected.update(("enter", p, s) for p, s in after - self.before)
            expected.update(("leave", p, s) for p, s in self.before - after if isinstance(s, str))
            self.before = after
        found = self.spaces.update_many(changes)
        assert Counter((each.kind, each.publication, each.subscription) for each in found) == expected

    @rule(key=keys, role=st.sampled_from(["publication", "subscription"]), data=data)
    def update_one_region_of_several(self, key: Any, role: str, data: st.DataObject) -> None:
        members = getattr(self.model, f"{role}s")
        if key in members:
            place = data.draw(st.integers(0, len(members[key]) - 1))
            change = data.draw(regions(self.model.spaces))
            changed = [{**each, **change} if at == place else each for at, each in enumerate(members[key])]
            members[key] = changed
            self.check(getattr(self.spaces, f"update_{role}")(key, change, region=place))

    @rule(key=keys, role=st.sampled_from(["publication", "subscription"]), filter=st.sampled_from(["all", "any"]))
    def change_filter(self, key: Any, role: str, filter: str) -> None:
        if key in getattr(self.model, f"{role}s"):
            self.model.filters[role, key] = filter
            self.check(getattr(self.spaces, f"update_{role}")(key, filter=filter))

    @rule(key=keys, data=data)
    def change_filter_and_regions(self, key: Any, data: st.DataObject) -> None:
        if key in self.model.publications:
            self.model.publications[key] = data.draw(self.few)
            self.model.filters["publication", key] = "any"
            self.check(self.spaces.update_publication(key, self.model.publications[key], filter="any"))

    @rule(key=keys, data=data)
    def update_subscription(self, key: Any, data: st.DataObject) -> None:
        if key in self.model.subscriptions:
            self.model.subscriptions[key] = data.draw(self.few)
            self.check(self.spaces.update_subscription(key, self.model.subscriptions[key]))

    @rule(key=keys)
    def delete_publication(self, key: Any) -> None:
        if key in self.model.publications:
            del self.model.publications[key]
            self.model.filters.pop(("publication", key), None)
            self.check(self.spaces.delete_publication(key), deleted=key)

    @rule(key=keys)
    def unsubscribe(self, key: Any) -> None:
        if key in self.model.subscriptions:
            del self.model.subscriptions[key]
            self.model.filters.pop(("subscription", key), None)
            self.check(self.spaces.unsubscribe(key))

    @rule(compact=st.booleans())
    def open_again(self, compact: bool) -> None:
        if not self.durable:
            return
        if compact:
            self.spaces.compact()
        sequence, last = self.spaces.sequence, set(self.spaces.last)
        self.spaces.close()
        self.spaces = SubjectSpaces.open(self.directory)
        assert self.spaces.sequence == sequence
        assert compact or set(self.spaces.last) == last

    @invariant()
    def questions_are_answered(self) -> None:
        if not hasattr(self, "spaces"):
            return
        self.spaces._check()
        for each, content in self.kept:
            assert each.content == content
        for p in self.model.publications:
            assert set(self.spaces.matches(p)) == {s for q, s in self.before if q == p}
        for s in self.model.subscriptions:
            assert set(self.spaces.matched_by(s)) == {p for p, t in self.before if t == s}


TestSpaces = Spaces.TestCase
TestSpaces.settings = settings(max_examples=30, stateful_step_count=30)


class LongSpaces(Spaces):
    """The same, for long."""


@pytest.mark.soak
class TestLongSpaces(LongSpaces.TestCase):  # type: ignore[name-defined]
    settings = settings(max_examples=1_000, stateful_step_count=100)
