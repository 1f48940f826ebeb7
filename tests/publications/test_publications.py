"""Publications: the transitions of the model, whatever the batches, also when they are saved and loaded."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.publications.model import FILTERS, LATER, Model, Told, history
from whimbrel import Index
from whimbrel.model.subscription import Id
from whimbrel.publications import IndexVersion, Publications, TransitionRules, Update, UpdateFormat
from whimbrel.publications.changes import Matches
from whimbrel.publications.publications import SavedPart

ATTRIBUTES = pa.schema([("a", pa.int64()), ("b", pa.string()), ("d.x", pa.float64()), ("tags", pa.list_(pa.string()))])


def _version(number: int, filters: dict[str, str]) -> IndexVersion:
    index = Index()
    index.add_many(filters.items())
    return IndexVersion(number, [index], "string")


VERSIONS = {number: _version(number, filters) for number, filters in ((1, FILTERS), (2, LATER), (3, FILTERS))}


class Saved:
    """Publications as an owner keeps them: sometimes they are read back from what was saved."""

    def __init__(self, leave: bool, partial: bool, ordered: bool = True) -> None:
        self.format = UpdateFormat(pa.string(), ATTRIBUTES, ordered=ordered, partial=partial)
        self.rules = TransitionRules(leave)
        self.publications = self.new()
        self.parts: list[SavedPart] = []

    def new(self) -> Publications:
        return Publications(self.format, self.rules, VERSIONS.__getitem__)

    def save(self) -> None:
        part = self.publications.save()
        if part is not None:
            self.parts = [part] if part.is_base else [*self.parts, part]

    def load(self, how: float) -> None:
        """From the parts with matches, from the parts without, or from bytes."""
        old, self.publications = self.publications, self.new()
        if how < 0.3:
            content = old.to_bytes()
            self.publications.load_bytes(content)
            states = self.publications._table
            self.parts = [SavedPart(states, Matches.unknown(len(states)), True)]
        else:
            parts = [(part.states, part.matches if how < 0.6 else None) for part in self.parts]
            self.publications.load(old.version, parts)

    def update(self, rows: list[dict[str, Any]]) -> list[Told]:
        updates = [
            Update(
                row["key"],
                {"a": row["a"], "b": row["b"], "d.x": (row["d"] or {}).get("x"), "tags": row["tags"]},
                row["n"],
                bool(row["gone"]),
                unset=row["un"] or (),
            )
            for row in rows
        ]
        found = self.publications.apply(self.format.table(updates))
        self.save()
        return self.told(found)

    def publish(self, version: int) -> list[Told]:
        found = self.publications.change_version(version)
        self.save()
        return self.told(found)

    def told(self, found: pa.Table) -> list[Told]:
        columns = [column.to_pylist() for column in found.columns]
        return [(*row, self.publications.version) for row in zip(*columns, strict=True)]  # type: ignore[misc]


@given(seed=st.integers(0, 2**32), partial=st.booleans(), leave=st.booleans(), keys=st.sampled_from([1, 3, 15]))
@settings(max_examples=60, deadline=None)
def test_histories_give_the_transitions_of_the_model(seed: int, partial: bool, leave: bool, keys: int) -> None:
    draw = random.Random(seed)
    saved, model = Saved(leave, partial), Model(leave, partial)
    assert saved.publish(1) == model.publish(FILTERS, 1) == []
    rows = history(seed, 120, keys)
    while rows:
        size = draw.choice([1, 2, 7, 40])
        batch, rows = rows[:size], rows[size:]
        expected = model.update(batch)
        draw.shuffle(batch)  # sequence numbers make the order, not rows
        assert Counter(saved.update(batch)) == Counter(expected)
        saved.publications._check()
        if draw.random() < 0.3:
            saved.load(draw.random())
        if draw.random() < 0.1 and model.version < 3:
            version = model.version + 1
            filters = LATER if version == 2 else FILTERS
            assert Counter(saved.publish(version)) == Counter(model.publish(filters, version))
    assert len(saved.publications) == len(model.states)


def test_ordered_updates_need_a_sequence() -> None:
    saved = Saved(leave=False, partial=True)
    saved.publish(1)
    with pytest.raises(ValueError, match="Expected a sequence number for each update, but got null"):
        saved.publications.apply(saved.format.table([Update("k", {"a": 1})]))
    assert len(saved.publications) == 0


def test_without_a_sequence_a_deleted_publication_is_forgotten() -> None:
    saved = Saved(leave=False, partial=True, ordered=False)
    saved.publish(1)
    row = {"n": None, "gone": None, "a": 1, "b": "v", "d": None, "tags": None, "un": None}
    for turn in range(5):
        keys = [f"{turn}-{number}" for number in range(30)]
        assert len(saved.update([{**row, "key": key} for key in keys])) == 30
        if turn % 2:
            saved.load(0.5 if turn % 3 == 0 else 0.9)
        told = saved.update([{**row, "key": key, "gone": True} for key in keys])
        assert Counter(kind for _, _, kind, _, _ in told) == {"delete": 30}
        assert len(saved.publications) == 0
        saved.publications._check()
    assert len(saved.update([{**row, "key": "0-0", "a": None}])) == 0  # nothing of what it was is left
    assert sum(len(part.states) for part in saved.parts) < 100


@pytest.mark.parametrize("how", ["deletions", "current"])
def test_what_was_compacted_is_saved_as_a_whole(how: str) -> None:
    saved = Saved(leave=False, partial=True, ordered=False)
    saved.publish(1)
    row = {"n": None, "gone": None, "a": 1, "b": None, "d": None, "tags": None, "un": None}
    keys = [f"k{number}" for number in range(11_000)]
    saved.update([{**row, "key": key} for key in keys])
    if how == "deletions":  # so many that the table is compacted in the same call
        saved.update([{**row, "key": key, "gone": True} for key in keys[10:]])
    else:
        saved.update([{**row, "key": key, "b": "v"} for key in keys[:10]])
        saved.publications.current()
        saved.update([{**row, "key": "k0", "b": "u"}])
    expected = saved.publications.current().to_pylist()
    saved.load(0.9)
    assert saved.publications.current().sort_by("key").to_pylist() == sorted(expected, key=lambda row: str(row["key"]))


def test_attributes_may_be_called_like_anything() -> None:
    attributes = pa.schema([("key", pa.int64()), ("alive", pa.string()), ("a", pa.int64())])
    format = UpdateFormat(pa.string(), attributes, partial=True)
    publications = Publications(format, TransitionRules(True), VERSIONS.__getitem__)
    publications.change_version(1)
    for sequence, said in ((1, {"key": 7, "alive": "no", "a": 1}), (2, {"a": 2})):
        publications.apply(format.table([Update("p", said, sequence)]))
    part = publications.save()
    assert part is not None
    assert [column.to_pylist() for column in part.states.columns] == [["p"], [2], [True], [7], ["no"], [2]]


def test_hysteresis_and_dwell_survive_saving() -> None:
    versions = {1: _version(1, {"in": "a < 10", "wide": "a < 12", "slow": "a < 10"})}
    rules = TransitionRules(True, outer={"in": "wide"}, dwell={"slow": 5})
    format = UpdateFormat(pa.string(), pa.schema([("a", pa.int64())]), ordered=False)
    publications = Publications(format, rules, versions.__getitem__)
    publications.change_version(1)

    def tell(a: int | None, now: float) -> set[tuple[str, str]]:
        update = Update("p", {"a": a}, deleted=a is None)
        found = publications.apply(format.table([update]), now)
        return set(zip(found["subscription"].to_pylist(), found["kind"].to_pylist(), strict=True))

    assert tell(5, 0) == {("in", "enter"), ("slow", "enter")}
    assert tell(11, 1) == set()
    content = publications.to_bytes()
    publications = Publications(format, rules, versions.__getitem__)
    publications.load_bytes(content)
    assert publications.next_due == 6
    assert tell(13, 2) == {("in", "leave")}
    assert len(publications.advance(5.9)) == 0
    assert publications.advance(6)["subscription"].to_pylist() == ["slow"]
    assert tell(3, 7) == {("in", "enter"), ("slow", "enter")}
    assert tell(None, 8) == {("in", "delete"), ("slow", "delete")}
    assert publications.next_due is None


@pytest.mark.parametrize("dwell", [{}, {"in": 5.0}])
def test_a_remembered_subscription_that_is_gone_is_told_nothing_and_comes_back_as_new(dwell: dict[Id, float]) -> None:
    wanted = {"in": "a < 10", "wide": "a < 12"}
    versions = {1: _version(1, wanted), 2: _version(2, {"other": "a = 50"}), 3: _version(3, wanted)}
    format = UpdateFormat(pa.string(), pa.schema([("a", pa.int64())]), ordered=False)
    publications = Publications(format, TransitionRules(True, {"in": "wide"}, dwell), versions.__getitem__)
    publications.change_version(1)
    assert publications.apply(format.table([Update("p", {"a": 5})]))["kind"].to_pylist() == ["enter"]
    assert len(publications.change_version(2)) == 0
    assert publications.next_due is None
    assert publications.change_version(3)["subscription"].to_pylist() == ["in"]


def test_dwell_after_a_new_version_begins_with_that_version() -> None:
    versions = {1: _version(1, {"slow": "a < 10"}), 2: _version(2, {"slow": "a < 3"})}
    format = UpdateFormat(pa.string(), pa.schema([("a", pa.int64())]))
    rules = TransitionRules(True, dwell={"slow": 5})
    publications = Publications(format, rules, versions.__getitem__)
    publications.change_version(1)
    publications.apply(format.table([Update("p", {"a": 5}, 1)]), now=0)
    others = Publications(format, rules, versions.__getitem__)
    others.take_over(1, publications.current())
    others.remembered.pairs.restore(publications.remembered.pairs)
    assert len(publications.change_version(2, now=100)) == 0
    assert publications.next_due == 105
    assert len(others.change_version(2)) == 0  # whose clock has not begun
    assert others.next_due == 5


def test_who_left_before_it_was_deleted_is_told_of_the_leave() -> None:
    versions = {1: _version(1, {"slow": "a < 10"})}
    format = UpdateFormat(pa.string(), pa.schema([("a", pa.int64())]))
    publications = Publications(format, TransitionRules(True, dwell={"slow": 5}), versions.__getitem__)
    publications.change_version(1)
    updates = [Update("p", {"a": 5}, 1, time=0), Update("p", {"a": 20}, 2, time=1), Update("p", {}, 3, True, time=6)]
    assert publications.apply(format.table(updates))["kind"].to_pylist() == ["enter", "leave"]
