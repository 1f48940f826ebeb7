"""Source texts by row: what goes in comes out, whatever way it went in."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from whimbrel.engine.live import texts as module
from whimbrel.engine.live.texts import TextStore

TEXTS = st.one_of(st.sampled_from(["", "a = 1", "ä\0", "\U0001f600 = '日本'"]), st.text(max_size=20))
DIALECTS = st.sampled_from(["sql", "eventbridge", "cesql"])


class Model(RuleBasedStateMachine):
    """Any order of changes leaves what a list would hold; the thresholds are small, so that all of them are met."""

    @initialize()
    def start(self) -> None:
        self.patch = pytest.MonkeyPatch()
        for name, value in {"_TAIL": 4, "_CHUNK": 64}.items():
            self.patch.setattr(module, name, value)
        self.store = TextStore()
        self.expected: list[tuple[str, str]] = []

    def teardown(self) -> None:
        self.patch.undo()

    @rule(text=TEXTS, dialect=DIALECTS)
    def append(self, text: str, dialect: str) -> None:
        self.store.append(len(self.expected), text, dialect)
        self.expected.append((text, dialect))

    @rule(texts=st.lists(TEXTS, max_size=20), dialect=DIALECTS, arrow=st.booleans())
    def append_many(self, texts: list[str], dialect: str, arrow: bool) -> None:
        self.store.append_many(len(self.expected), pa.array(texts, pa.string()) if arrow else texts, dialect)
        self.expected += [(text, dialect) for text in texts]

    @rule(rows=st.lists(st.tuples(TEXTS, DIALECTS), max_size=20), arrow=st.booleans())
    def append_many_dialects(self, rows: list[tuple[str, str]], arrow: bool) -> None:
        texts, dialects = [text for text, _ in rows], [dialect for _, dialect in rows]
        self.store.append_many(len(self.expected), texts, pa.array(dialects, pa.string()) if arrow else dialects)
        self.expected += rows

    @rule()
    def save_and_open(self) -> None:
        saved = {name: array.copy() for name, array in self.store.arrays().items()}
        for array in saved.values():
            array.flags.writeable = False
        self.store = TextStore.from_arrays(saved)

    @invariant()
    def holds_the_same(self) -> None:
        if hasattr(self, "store"):
            assert len(self.store) == len(self.expected)
            assert [self.store.get(row) for row in range(len(self.expected))] == self.expected
            self.store._check()


TestModel = Model.TestCase


@pytest.mark.parametrize(
    "texts",
    [
        pa.array(["x", "a", "b"]).slice(1),
        pa.array(["x", "a", "b"], pa.large_string()).slice(1),
        pa.array(["x", "a", "b"]).dictionary_encode().slice(1),
        pa.array(["x", "a", "b"], pa.string_view()).slice(1),
        pa.chunked_array([["a"], ["b"]]),
        ("a", "b"),
    ],
    ids=["string", "large_string", "dictionary", "string_view", "chunked", "tuple"],
)
def test_every_form_of_texts_is_taken(texts: object) -> None:
    store = TextStore()
    store.append_many(0, texts, "sql")
    assert [store.get(row) for row in range(2)] == [("a", "sql"), ("b", "sql")]


def test_rows_come_in_order() -> None:
    store = TextStore()
    with pytest.raises(ValueError, match="Expected the next row, 0, but got 1"):
        store.append(1, "a", "sql")
    with pytest.raises(ValueError, match="Expected the next row, 0, but got 5"):
        store.append_many(5, ["a"], "sql")
    store.append(0, "a", "sql")
    for row in (-1, 1):
        with pytest.raises(IndexError):
            store.get(row)


def test_every_text_has_one_dialect() -> None:
    store = TextStore()
    with pytest.raises(ValueError, match="Expected 2 dialects, but got 1"):
        store.append_many(0, ["a", "b"], ["sql"])
    with pytest.raises(ValueError, match="null"):
        store.append_many(0, ["a", None], "sql")
    assert len(store) == 0


def test_single_texts_end_in_few_chunks() -> None:
    store = TextStore()
    for row in range(100_000):
        store.append(row, f"price < {row}", "sql")
    store._check()
    assert len(store._state.chunks) < 10
    assert store.get(77_777) == ("price < 77777", "sql")
    assert store.memory_bytes() < 100_000 * 25


def test_a_snapshot_to_save_stays_while_the_writer_goes_on() -> None:
    store = TextStore()
    store.append_many(0, ["a", "b"], "sql")
    snapshot = store.arrays()
    store.append(2, "c", "cesql")
    opened = TextStore.from_arrays(snapshot)
    assert [opened.get(row) for row in range(len(opened))] == [("a", "sql"), ("b", "sql")]


def test_readers_get_texts_while_a_writer_adds() -> None:
    store = TextStore()
    store.append(0, "0", "sql")
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        random = np.random.default_rng(2)
        while not done.is_set():
            row = int(random.integers(0, len(store)))
            if store.get(row) != (str(row), "sql"):
                wrong.append((row, store.get(row)))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for row in range(1, 60_000):
            store.append(row, str(row), "sql")
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not wrong
