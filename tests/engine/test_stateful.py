"""The index over time: every public method in any order, against a dict of filters."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.engine.live.merges import wait_for_merges
from tests.engine.test_index import PADDING, Id, Pair, block_pairs, check_pairs, expected_pairs, pairs
from tests.strategies import events, filters
from whimbrel import Filter, Index
from whimbrel.engine.live import segment_set as engine
from whimbrel.engine.live.head import EVALUATE_NS
from whimbrel.model.errors import DuplicateId, IdKindError, UnknownId
from whimbrel.model.event import Event
from whimbrel.model.explain import explain
from whimbrel.model.near_misses import near_misses
from whimbrel.model.subscription import Subscription

IDS: list[list[Id]] = [
    ["", "x", "y", "\U0001f600", "1", "a long one, so that it does not fit anywhere"],
    [0, 1, -1, 2**63 - 1, -(2**63), 7],
    [5, 6, 7, 8, 9, 10],
]
places = st.integers(0, 5)
batches = st.lists(events(), max_size=4)


@st.composite
def loads(draw: st.DrawFn) -> dict[int, Filter]:
    """Filters by the number of their id."""
    return {place: draw(filters) for place in draw(st.lists(places, unique=True))}


class Subscriptions(RuleBasedStateMachine):
    """An index, and a dict that does the same without one. Small heads and fanouts make segments and merges common."""

    def __init__(self) -> None:
        super().__init__()
        self.index = Index()
        self.kept: dict[Id, Filter] = {}
        self.directory = Path(tempfile.mkdtemp())
        self.saved = False
        self.was_filled = False

    @initialize(ids=st.sampled_from(IDS), head=st.sampled_from([1, 3, 1_024]), checked=st.sampled_from([0, 2, 32]))
    def choose_ids_and_sizes(self, ids: list[Id], head: int, checked: int) -> None:
        self.ids = ids
        self.before = engine.HEAD_SIZE, engine.HEAD_NS, engine.FANOUT
        engine.HEAD_SIZE, engine.HEAD_NS, engine.FANOUT = head, checked * EVALUATE_NS, 3

    def teardown(self) -> None:
        if hasattr(self, "before"):
            engine.HEAD_SIZE, engine.HEAD_NS, engine.FANOUT = self.before
        wait_for_merges(self.index)
        shutil.rmtree(self.directory)

    @rule(place=places, filter=filters)
    def add(self, place: int, filter: Filter) -> None:
        id = self.ids[place]
        if id in self.kept:
            with pytest.raises(DuplicateId):
                self.index.add(id, filter)
            return
        self.index.add(id, filter)
        self.kept[id] = filter
        self.was_filled = True

    @rule(chosen=loads())
    def add_many(self, chosen: dict[int, Filter]) -> None:
        load = {self.ids[place]: filter for place, filter in chosen.items()}
        if load.keys() & self.kept.keys():
            with pytest.raises(DuplicateId):
                self.index.add_many(load.items())
            return
        self.index.add_many(load.items())
        self.kept |= load
        self.was_filled = self.was_filled or bool(load)

    @precondition(lambda self: isinstance(self.ids[0], int) and 10**6 not in self.kept)
    @rule()
    def add_many_others(self) -> None:
        load = dict(enumerate(PADDING, 10**6))
        self.index.add_many(load.items())
        self.kept |= load
        self.was_filled = True

    @rule(place=places)
    def remove(self, place: int) -> None:
        id = self.ids[place]
        if id in self.kept:
            self.index.remove(id)
            del self.kept[id]
        else:
            with pytest.raises(UnknownId):
                self.index.remove(id)

    @rule(place=places, filter=filters)
    def replace(self, place: int, filter: Filter) -> None:
        id = self.ids[place]
        if id in self.kept:
            self.index.replace(id, filter)
            self.kept[id] = filter
        else:
            with pytest.raises(UnknownId):
                self.index.replace(id, filter)

    @precondition(lambda self: self.was_filled)
    @rule(filter=filters)
    def ids_of_another_kind_are_refused(self, filter: Filter) -> None:
        other: Id = 7 if isinstance(self.ids[0], str) else "7"
        for id in (other, True):
            with pytest.raises(IdKindError):
                self.index.add(id, filter)
        assert other not in self.index

    @rule()
    def merge(self) -> None:
        self.index.merge()
        assert len(self.index._subscriptions.segments.snapshot.segments) <= 1

    @rule(sample=batches, often=st.sampled_from([1, 100]))
    def analyze(self, sample: list[dict[str, Any]], often: int) -> None:
        self.index.analyze(sample * often)

    @rule()
    def save(self) -> None:
        self.index.save(self.directory / "index")
        self.saved = True

    @rule(verify=st.booleans())
    def save_and_open(self, verify: bool) -> None:
        self.save()
        opened = Index.open(self.directory / "index", verify)
        wait_for_merges(self.index)
        self.index = opened

    @rule(event=events())
    def match(self, event: dict[str, Any]) -> None:
        assert self.index.match(event) == [id for id, filter in self.kept.items() if filter.matches(event)]

    @rule(batch=batches, threads=st.sampled_from([1, 2]))
    def match_batch(self, batch: list[dict[str, Any]], threads: int) -> None:
        wanted = sorted(expected_pairs(self.kept, batch), key=str)
        assert sorted(pairs(self.index.match_batch(batch, threads)), key=str) == wanted

    @rule(batch=batches, threads=st.sampled_from([1, 2]))
    def match_blocks(self, batch: list[dict[str, Any]], threads: int) -> None:
        wanted = sorted(expected_pairs(self.kept, batch), key=str)
        assert sorted(block_pairs(self.index, batch, threads), key=str) == wanted

    @rule(column=st.lists(st.one_of(st.none(), st.integers(-2, 6)), max_size=5), nested=st.booleans())
    def match_table(self, column: list[int | None], nested: bool) -> None:
        table = pa.table({"d": pa.array([{"x": v} for v in column])} if nested and column else {"a": pa.array(column)})
        batch: list[dict[str, Any]] = [{"d.x" if nested else "a": v} if v is not None else {} for v in column]
        wanted = sorted(expected_pairs(self.kept, batch), key=str)
        assert sorted(pairs(self.index.match_batch(table)), key=str) == wanted

    @rule(event=events(), limit=st.integers(0, 7))
    def near_misses(self, event: dict[str, Any], limit: int) -> None:
        plain = near_misses((Subscription(id, filter) for id, filter in self.kept.items()), Event(event), limit)
        assert self.index.near_misses(event, limit) == plain

    @rule(event=events(), place=places)
    def explain(self, event: dict[str, Any], place: int) -> None:
        id = self.ids[place]
        if id in self.kept:
            assert self.index.explain(id, event) == explain(self.kept[id], Event(event))
            assert self.index.plan(id)["subscription"] == id

    @invariant()
    def holds_what_was_added(self) -> None:
        assert len(self.index) == len(self.kept) == self.index.stats()["subscriptions"]
        assert list(self.index) == list(self.kept)
        for id, filter in self.kept.items():
            assert id in self.index
            assert self.index[id].filter == filter
        for id in getattr(self, "ids", ()):
            assert (id in self.index) == (id in self.kept)
        self.index._check()


TestSubscriptions = pytest.mark.filterwarnings("error")(Subscriptions.TestCase)
TestSubscriptions.settings = settings(max_examples=25, stateful_step_count=25)


def test_segments_are_merged_in_the_background_while_all_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HEAD_SIZE", 16)
    index = Index()
    kept: dict[Any, Filter] = {}
    batch = [{"a": n, "b": "xy"[n % 2]} for n in range(6)]
    for id in range(1_500):
        kept[id] = Filter.parse(f"a = {id % 7} AND b = 'x'" if id % 3 else f"a > {id % 5}")
        index.add(id, kept[id])
        if id % 5 == 4:
            index.remove(id - 3)
            del kept[id - 3]
        if id % 7 == 6:
            index.replace(id - 1, "a < 3")
            kept[id - 1] = Filter.parse("a < 3")
        if id % 200 == 99:
            wanted: list[Pair] = expected_pairs(kept, batch)
            check_pairs(index, wanted, batch)
    wait_for_merges(index)
    index._check()
    assert len(index._subscriptions.segments.snapshot.segments) < 16
    check_pairs(index, expected_pairs(kept, batch), batch)


def test_a_merge_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HEAD_SIZE", 4)
    monkeypatch.setattr(engine.threading, "excepthook", lambda _: None)
    merged = engine.Segment.merged
    index = Index()

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(engine.Segment, "merged", fail)
    for id in range(40):
        index.add(id, f"a = {id}")
        wait_for_merges(index)
    assert index._subscriptions.segments._merger is None and len(index._subscriptions.segments.snapshot.segments) == 10
    monkeypatch.setattr(engine.Segment, "merged", staticmethod(merged))
    for id in range(40, 44):
        index.add(id, f"a = {id}")
    wait_for_merges(index)
    assert len(index._subscriptions.segments.snapshot.segments) == 1
    assert [index.match({"a": id}) for id in range(44)] == [[id] for id in range(44)]
