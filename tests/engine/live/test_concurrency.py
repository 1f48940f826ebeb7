"""One thread changes the index while others read it: every answer is that of one moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.test_stateful import wait_for_merges
from whimbrel import Filter, Index
from whimbrel.engine.live import segment_set as engine
from whimbrel.engine.live.head import EVALUATE_NS

STEPS = 300
READERS: dict[str, Callable[[Index], list[int]]] = {
    "match": lambda index: [int(id) for id in index.match({"a": 1, "t": "x"})],
    "batch": lambda index: index.match_batch([{"a": 1, "t": "x"}], threads=1)["subscription"].to_pylist(),
    "table": lambda index: index.match_batch(pa.table({"a": [1], "t": ["x"]}), threads=2)["subscription"].to_pylist(),
    "misses": lambda index: [int(miss.id) for miss in index.near_misses({"a": 2, "t": "x"}, 1_000)],
}


@contextmanager
def reading(read: Callable[[], None], threads: int = 2) -> Iterator[None]:
    """Calls `read` again and again in other threads meanwhile; their first error is raised at the end."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            while not stop.is_set():
                read()
        except BaseException as error:
            errors.append(error)
            stop.set()

    readers = [threading.Thread(target=run) for _ in range(threads)]
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    if errors:
        raise errors[0]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads of a few entries, so that there are many segments and merges."""
    monkeypatch.setattr(engine, "HEAD_SIZE", 8)
    monkeypatch.setattr(engine, "HEAD_NS", 3 * EVALUATE_NS)
    monkeypatch.setattr(engine, "FANOUT", 3)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", READERS)
def test_a_reader_sees_the_state_between_two_changes(kind: str) -> None:
    """The index always holds a window of consecutive ids: anything else is a mixture of two moments."""
    index = Index()
    read = READERS[kind]
    for id in range(20):
        index.add(id, "a = 1" if id % 2 else "a = 1 AND t LIKE '%x%'")

    def check() -> None:
        first, last = min(index, default=0), max(index, default=0)
        found = read(index)
        if kind in ("batch", "table"):
            found.sort()
        assert found == list(range(found[0], found[-1] + 1)), "not one window"
        assert found[0] >= first - 1 and found[-1] >= last - 1, "older than what was there before"
        assert 20 <= len(found) <= 21

    with reading(check):
        for id in range(20, 20 + STEPS):
            index.add(id, "a = 1" if id % 2 else "a = 1 AND t LIKE '%x%'")
            index.remove(id - 20)
            if id % 60 == 0:
                index.merge()
            if id % 90 == 0:
                index.analyze([{"a": 1}] * 50)
    wait_for_merges(index)
    index._check()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ["match", "batch", "table"])
def test_a_replaced_filter_is_the_old_one_or_the_new_one(kind: str) -> None:
    """Exactly one of the two filters of a subscription is in force at any moment, and its place stays."""
    index = Index()
    texts = ["a = 1", "b = 1 AND t LIKE '%x%'", "a < 5 AND z IS MISSING", "b IN (1, 2, 3)"]
    event = {"a": 1, "b": 1, "t": "x"}
    for id in range(6):
        index.add(id, "c = 1 OR a = 1")

    def check() -> None:
        if kind == "match":
            assert index.match(event) == [0, 1, 2, 3, 4, 5]
        else:
            batch: Any = [event] if kind == "batch" else pa.Table.from_pylist([event])
            assert sorted(index.match_batch(batch)["subscription"].to_pylist()) == [0, 1, 2, 3, 4, 5]

    with reading(check):
        for step in range(STEPS):
            index.replace(step % 5, texts[step % 4])
            if step % 50 == 0:
                index.merge()
    wait_for_merges(index)
    index._check()


@pytest.mark.usefixtures("small")
def test_an_id_is_found_and_has_a_filter_while_it_is_replaced() -> None:
    index = Index()
    for id in range(5):
        index.add(id, "a = 1")
    wanted = {Filter.parse("a = 1"), Filter.parse("a = 2")}

    def check() -> None:
        for id in range(5):
            assert id in index
            assert index[id].filter in wanted
        assert 99 not in index

    with reading(check):
        for step in range(2 * STEPS):
            index.replace(step % 5, f"a = {1 + step % 2}")


@pytest.mark.usefixtures("small")
def test_bulk_loads_are_seen_whole_or_not_at_all() -> None:
    index = Index()
    event = {"a": 1}

    def check() -> None:
        found = index.match(event)
        assert len(found) % 50 == 0 and found == list(range(len(found)))
        table = index.match_batch([event, event])["subscription"].to_numpy()
        assert len(table) % 100 == 0 and (np.bincount(table) == 2).all()

    with reading(check):
        for step in range(60):
            index.add_many((step * 50 + n, "a = 1" if n % 2 else "a < 2 AND b IS NULL") for n in range(50))
    wait_for_merges(index)
    assert len(index.match(event)) == 3_000
    index._check()


def test_readers_do_not_wait_for_a_writer() -> None:
    index = Index()
    index.add_many([(0, "a = 1"), (1, "a > 0 AND t LIKE '%x%'")])
    for id in range(2, 60):
        index.add(id, "a = 1")
    held, done = threading.Event(), threading.Event()

    def write() -> None:
        with index._subscriptions.segments.lock:
            held.set()
            done.wait(60)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert held.wait(60)
        event = {"a": 1, "t": "x"}
        assert index.match(event) == list(range(60))
        assert sorted(index.match_batch([event])["subscription"].to_pylist()) == list(range(60))
        assert len(index.near_misses({"a": 2}, 100)) == 60
        assert 5 in index and 99 not in index and index[5].filter == Filter.parse("a = 1") and len(index) == 60
        assert index.explain(1, event).matched and index.stats()["subscriptions"] == 60
        assert len(list(index)) == 60 and index.attributes() == {"a", "t"}
    finally:
        done.set()
        writer.join()
    index._check()


def test_an_iteration_over_blocks_keeps_its_moment() -> None:
    index = Index()
    index.add_many((id, "a = 1") for id in range(10))
    blocks = index.match_blocks(({"a": 1} for _ in range(1_000)), threads=1)
    seen = len(next(blocks)[0]) - 1
    for id in range(10):
        index.remove(id)
    index.add_many((id, "a = 1") for id in range(10, 2_000))
    index.merge()
    for offsets, rows in blocks:
        assert (np.diff(offsets) == 10).all() and rows.max() == 9
        seen += len(offsets) - 1
    assert seen == 1_000
    assert index.match({"a": 1}) == list(range(10, 2_000))


@pytest.mark.usefixtures("small")
def test_two_writers_take_turns() -> None:
    index = Index()

    def write(first: int) -> None:
        for id in range(first, first + 200):
            index.add(id, f"a = {id % 3}")
            if id % 4 == 3:
                index.replace(id, "a = 1")
                index.remove(id - 2)

    writers = [threading.Thread(target=write, args=(first,)) for first in (0, 1_000, 2_000)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    wait_for_merges(index)
    index._check()
    kept = [id for first in (0, 1_000, 2_000) for id in range(first, first + 200) if id % 4 != 1]
    assert sorted(index) == kept
    assert sorted(index.match({"a": 1})) == [id for id in kept if id % 4 == 3 or id % 3 == 1]
