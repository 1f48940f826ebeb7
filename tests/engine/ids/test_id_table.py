"""The id table against a dict, and the ids that are odd."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from whimbrel.engine.ids.id_table import IdTable
from whimbrel.model.errors import DuplicateId, IdKindError, UnknownId

LOW, HIGH = -(1 << 63), (1 << 63) - 1
INTS = st.one_of(st.integers(0, 40), st.sampled_from([LOW, LOW + 1, -1, HIGH - 1, HIGH]), st.integers(LOW, HIGH))
STRINGS = st.one_of(
    st.sampled_from(["", "a", "b", "a\0", "ä", "日本", "\U0001f600", "\U0001f600a"]), st.text(max_size=6)
)


class Model(RuleBasedStateMachine):
    """Any order of changes leaves what a dict and a list would hold."""

    @initialize(kind=st.sampled_from([INTS, STRINGS]))
    def start(self, kind: st.SearchStrategy) -> None:
        self.ids = kind
        self.table = IdTable()
        self.slots: dict[int | str, int] = {}
        self.names: list[int | str] = []

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        id = data.draw(self.ids)
        if id in self.slots:
            with pytest.raises(DuplicateId) as error:
                self.table.add(id)
            assert error.value.id == id
        else:
            assert self.table.add(id) == len(self.names)
            self._added([id])

    @rule(data=st.data(), form=st.sampled_from(["list", "arrow", "tuple"]))
    def add_many(self, data: st.DataObject, form: str) -> None:
        self._add_batch(data.draw(st.lists(self.ids, max_size=30)), form)

    @precondition(lambda self: self.ids is INTS)
    @rule(gap=st.integers(0, 2), count=st.integers(0, 40))
    def add_a_run(self, gap: int, count: int) -> None:
        last = self.names[-1] if self.names else 7
        self._add_batch(list(range(min(last + gap + 1, HIGH - 40), min(last + gap + 1, HIGH - 40) + count)), "arrow")

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        id = data.draw(st.one_of(self.ids, st.sampled_from(self.names)) if self.names else self.ids)
        if id in self.slots:
            assert self.table.remove(id) == self.slots.pop(id)
        else:
            with pytest.raises(UnknownId):
                self.table.remove(id)

    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        id = data.draw(st.one_of(self.ids, st.sampled_from(self.names)) if self.names else self.ids)
        assert self.table.find(id) == self.slots.get(id, -1)
        assert (id in self.table) == (id in self.slots)

    @rule(data=st.data(), dtype=st.sampled_from([np.int32, np.int64]))
    def name_some(self, data: st.DataObject, dtype: type) -> None:
        slots = data.draw(st.lists(st.integers(0, len(self.names) - 1), max_size=10)) if self.names else []
        expected = [self.names[slot] for slot in slots]
        names = self.table.names(np.array(slots, dtype))
        assert names.to_pylist() == expected if isinstance(names, pa.Array) else names.tolist() == expected
        assert self.table.name_list(np.array(slots, dtype)) == expected
        assert [self.table.name(slot) for slot in slots] == expected

    @rule(mapping=st.sampled_from(["read-only", "copy-on-write"]))
    def save_and_open(self, mapping: str) -> None:
        saved = {name: array.copy() for name, array in self.table.arrays().items()}
        for array in saved.values():
            array.flags.writeable = mapping == "copy-on-write"
        self.table = IdTable.from_arrays(saved)

    @invariant()
    def holds_the_same(self) -> None:
        assert len(self.table) == len(self.slots)
        assert self.table.rows == len(self.names)
        assert list(self.table) == sorted(self.slots, key=self.slots.__getitem__)
        self.table._check()

    def _add_batch(self, ids: list[int | str], form: str) -> None:
        given = {"list": list, "tuple": tuple, "arrow": pa.array}[form](ids)
        seen = set(self.slots)
        duplicates = [id for id in ids if id in seen or seen.add(id)]
        if duplicates:
            with pytest.raises(DuplicateId) as error:
                self.table.add_many(given)
            assert error.value.id == duplicates[0]
        else:
            assert self.table.add_many(given) == len(self.names)
            self._added(ids)

    def _added(self, ids: list[int | str]) -> None:
        for id in ids:
            self.slots[id] = len(self.names)
            self.names.append(id)


TestModel = Model.TestCase


@pytest.mark.parametrize("ids", [np.arange(5, 100_005), np.random.default_rng(1).permutation(300_000) * 7919])
def test_many_integers_are_found_again(ids: np.ndarray) -> None:
    table = IdTable()
    table.add_many(ids)
    assert np.array_equal(table.names(np.arange(ids.size, dtype=np.int32)), ids)
    assert [table.find(int(id)) for id in ids[::997]] == list(range(0, ids.size, 997))
    assert table.find(-3) == -1


def test_integers_need_few_bytes_each_and_none_if_they_count_up() -> None:
    for ids, most in ((np.arange(1000, 1_001_000), 0.2), (np.random.default_rng(1).permutation(1_000_000), 20)):
        table = IdTable()
        table.add_many(ids)
        assert table.memory_bytes() / len(table) < most


@pytest.mark.parametrize("width", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.uint64])
def test_every_width_of_integer_is_taken(width: type) -> None:
    for ids in (np.array([3, 1, 2], width), pa.array(np.array([3, 1, 2], width))):
        table = IdTable()
        table.add_many(ids)
        assert list(table) == [3, 1, 2]


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["x", "a", "b", "c"]).slice(1),
        pa.array(["x", "a", "b", "c"], pa.large_string()).slice(1),
        pa.array(["x", "a", "b", "c"], pa.string_view()).slice(1),
        pa.array(["x", "a", "b", "c"]).dictionary_encode().slice(1),
        pa.chunked_array([["a"], ["b", "c"]]),
        np.array(["a", "b", "c"]),
        iter(["a", "b", "c"]),
    ],
)
def test_every_form_of_string_is_taken(ids: object) -> None:
    table = IdTable()
    table.add("before")
    assert table.add_many(ids) == 1
    assert list(table) == ["before", "a", "b", "c"]


@pytest.mark.parametrize("id", [True, 1.0, None, b"a", 1 << 63, LOW - 1, "\ud800", ("a",)])
def test_what_is_no_id_is_refused_and_found_nowhere(id: object) -> None:
    table = IdTable()
    for refuse in (table.add, lambda id: table.add_many([id])):
        with pytest.raises(IdKindError):
            refuse(id)
        assert table.kind is None and table.find(id) == -1
    for first in (1, "1"):
        table = IdTable()
        table.add(first)
        for refuse in (table.add, table.remove, lambda id: table.add_many([first, id])):  # noqa: B023
            with pytest.raises(IdKindError):
                refuse(id)
        assert list(table) == [first] and table.find(id) == -1


@pytest.mark.parametrize(("first", "other"), [(1, "1"), ("1", 1)])
def test_the_first_id_fixes_the_kind(first: int | str, other: int | str) -> None:
    table = IdTable()
    table.add(first)
    for attempt in (
        table.add,
        table.remove,
        lambda id: table.add_many([id]),
        lambda id: table.add_many(pa.array([id])),
    ):
        with pytest.raises(IdKindError) as error:
            attempt(other)
        assert error.value.id == other and error.value.expected == table.kind
    assert table.find(other) == -1 and len(table) == 1


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["a", None]),
        pa.array([1, None]),
        pa.array([1.0]),
        pa.array([True]),
        np.array([True]),
        np.array([1.5]),
        np.array([1 << 63], np.uint64),
        pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")),
        ["a", 1],
        [1, "a"],
        [1, True],
    ],
    ids=str,
)
def test_a_batch_with_something_else_is_refused_whole(ids: object) -> None:
    table = IdTable()
    with pytest.raises(IdKindError):
        table.add_many(ids)
    assert len(table) == 0 and table.kind is None


def test_an_id_that_comes_and_goes_stays_cheap_to_find() -> None:
    table = IdTable()
    table.add_many(["x", "y"])
    for round in range(2000):
        slot = table.remove("x")
        assert table.add("x") == round + 2
        assert table.name(slot) == "x"
    table._check()
    assert table._table.size < 1000


def test_a_removed_id_of_the_dense_run_may_come_back() -> None:
    table = IdTable()
    table.add_many([5, 6, 7])
    assert table.remove(6) == 1 and table.add(6) == 3 and table.find(6) == 3
    with pytest.raises(DuplicateId):
        table.add_many([8, 6])
    assert list(table) == [5, 7, 6]


def test_many_strings_are_named_at_once() -> None:
    ids = [f"{i}-\U0001f600" for i in range(5000)]
    table = IdTable()
    table.add_many(ids)
    slots = np.arange(4999, -1, -1, dtype=np.int32)
    assert table.names(slots).equals(pa.array(ids[::-1])) and table.name_list(slots) == ids[::-1]


def test_a_table_without_ids_is_open_to_both_kinds() -> None:
    table = IdTable()
    with pytest.raises(DuplicateId):
        table.add_many([3, 4, 9, 4])
    for slot in (-1, 0, 1):
        with pytest.raises(IndexError):
            table.name(slot)
    assert table.names(np.array([], np.int32)).size == 0
    assert table.kind is None and table.add_many([]) == 0 and table.add("x") == 0


def test_a_seed_makes_saved_tables_equal() -> None:
    first, second = IdTable(seed=1), IdTable(seed=1)
    for table in (first, second):
        table.add_many(["a", "b"])
    assert all(np.array_equal(array, second.arrays()[name]) for name, array in first.arrays().items())


def test_a_snapshot_to_save_stays_while_the_writer_goes_on() -> None:
    table = IdTable()
    table.add_many(["a", "b"])
    snapshot = table.arrays()
    table.remove("a")
    table.add_many([str(i) for i in range(100)])
    assert list(IdTable.from_arrays(snapshot)) == ["a", "b"]


@pytest.mark.parametrize("ids", [[1, 2, 3, 9, 7], ["a", "b", "c", "x", "y"]])
def test_a_change_beside_a_search_does_not_lead_to_another_id(ids: list, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place that a search found is free, or has another id, before the row is read from it."""
    table = IdTable(seed=1)
    table.add_many(ids)
    keys, changes = type(table._keys), iter([lambda: table.remove(ids[3]), lambda: table.add(ids[3])])
    search = keys.find

    def interrupted(*given: object) -> int:
        found = search(*given)
        monkeypatch.setattr(keys, "find", search)
        next(changes)()
        return found

    for wanted in (3, -1):
        monkeypatch.setattr(keys, "find", interrupted)
        assert table.find(ids[3]) == wanted


@pytest.mark.parametrize(
    "id_of", [lambda i: i * 7919, lambda i: i, lambda i: f"id-{i}"], ids=["int", "dense", "string"]
)
def test_readers_name_slots_while_a_writer_adds(id_of) -> None:
    table = IdTable()
    table.add_many([id_of(i) for i in range(10)])
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        random = np.random.default_rng(2)
        while not done.is_set():
            slots = random.integers(0, table.rows, 20)
            expected = [id_of(slot) for slot in slots.tolist()]
            names = table.names(slots)
            if names.tolist() != expected or table.name_list(slots) != expected:
                wrong.append((slots, names))
            if table.find(expected[0]) != slots[0] or table.name(int(slots[0])) != expected[0]:
                wrong.append(slots)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for batch in range(10, 20_000, 100):
            table.add_many([id_of(i) for i in range(batch, batch + 50)])
            for i in range(batch + 50, batch + 100):
                table.add(id_of(i))
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not wrong
