"""One version per batch, whoever asks first, and versions that are named are not deleted."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from tests.pipeline.publishing import publish
from whimbrel.engine.index import Index
from whimbrel.pipeline import IndexStore
from whimbrel.pipeline.errors import BadOption, BadRecord, MissingVersion, NoBatch, OtherIndex
from whimbrel.pipeline.index.batches import RECORDS_KEPT, BatchVersion, gc, recorded, version_of_batch


@pytest.fixture
def store(tmp_path: Path) -> IndexStore:
    """A store with version 1."""
    publish(tmp_path / "index", {1: "a = 1"})
    return IndexStore(tmp_path / "index")


def _publish(store: IndexStore, count: int) -> None:
    for _ in range(count):
        publish(store.path, {1: f"a = {store.newest()}"})


def test_a_batch_keeps_its_version_and_the_next_one_gets_the_newest(store: IndexStore) -> None:
    assert version_of_batch(store, "q", 0) == 1
    _publish(store, 2)
    assert version_of_batch(store, "q", 0) == 1
    assert version_of_batch(store, "q", 1) == 3
    assert version_of_batch(store, "other", 0) == 3
    assert recorded(store) == {"q": [(0, 1), (1, 3)], "other": [(0, 3)]}


def test_tasks_that_ask_at_once_get_one_answer_while_versions_change(store: IndexStore) -> None:
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            _publish(store, 1)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        with ThreadPoolExecutor(6) as threads:
            answers: list[int] = []
            for batch in count():
                if batch >= 30 and len(set(answers)) > 1:  # until a version was published meanwhile
                    break
                gate = threading.Barrier(6)

                def ask(batch: int = batch, gate: threading.Barrier = gate) -> int:
                    gate.wait()
                    return version_of_batch(store, "q", batch)

                found = {future.result() for future in [threads.submit(ask) for _ in range(6)]}
                assert len(found) == 1
                answers += found
    finally:
        stop.set()
        changing.join()
    assert answers == sorted(answers)


def test_processes_that_ask_at_once_get_one_answer(store: IndexStore) -> None:
    script = (
        "import sys; from whimbrel.pipeline.index.batches import version_of_batch\n"
        "from whimbrel.pipeline.index.store import IndexStore\n"
        "store = IndexStore(sys.argv[1]); sys.stdin.readline()\n"
        "print([version_of_batch(store, 'q', batch) for batch in range(20)])\n"
    )
    command = [sys.executable, "-c", script, str(store.path)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    _publish(store, 5)
    answers = {process.communicate()[0] for process in processes}
    assert len(answers) == 1


def test_a_checkpoint_of_another_index_is_refused_unless_it_is_adopted(store: IndexStore) -> None:
    with pytest.raises(OtherIndex, match="query q is at batch 7 and none of its batches are recorded") as caught:
        version_of_batch(store, "q", 7)
    assert (caught.value.query, caught.value.batch, caught.value.path) == ("q", 7, str(store.path))
    assert recorded(store) == {}
    assert version_of_batch(store, "q", 7, adopt=True) == 1
    assert version_of_batch(store, "q", 8) == 1


def test_only_the_latest_records_stay(store: IndexStore) -> None:
    for batch in range(RECORDS_KEPT + 20):
        version_of_batch(store, "q", batch)
    assert [batch for batch, _ in recorded(store)["q"]] == list(range(20, RECORDS_KEPT + 20))


def test_a_record_that_is_damaged_or_foreign_is_named(store: IndexStore) -> None:
    version_of_batch(store, "q", 0)
    record = store.path / "batches" / "q" / "0000000000.json"
    record.write_text('{"format": "whimbrel ba')
    with pytest.raises(BadRecord, match="cannot be read") as caught:
        version_of_batch(store, "q", 0)
    assert caught.value.path == str(record)
    record.write_text('{"format": "shopping list", "index_version": 1}')
    with pytest.raises(BadRecord, match="it is a 'shopping list'"):
        version_of_batch(store, "q", 0)


def test_no_index_and_no_batch_are_errors(tmp_path: Path, store: IndexStore) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingVersion):
        version_of_batch(IndexStore(tmp_path / "empty"), "q", 0)
    with pytest.raises(MissingVersion):
        gc(tmp_path / "empty")
    with pytest.raises(NoBatch):
        BatchVersion(store.path)()


def test_gc_keeps_the_newest_versions_and_those_that_the_newest_batches_name(store: IndexStore) -> None:
    version_of_batch(store, "a", 0)  # version 1
    _publish(store, 1)
    version_of_batch(store, "a", 1)  # 2
    version_of_batch(store, "b", 0)
    _publish(store, 1)
    version_of_batch(store, "a", 2)  # 3
    _publish(store, 4)
    found = gc(store.path, keep=2)
    assert found.deleted == (1, 4, 5)
    assert found.kept == (2, 3, 6, 7) == tuple(store.versions())
    assert found.named == {"a": (2, 3), "b": (2,)}
    for version in found.kept:
        for shard in store.manifest(version).shards:
            assert len(Index.open(store.shard_path(shard.name))) == 1
    assert version_of_batch(store, "a", 2) == 3
    assert gc(store.path, batches=1).deleted == (6,)
    assert gc(store.path, batches=1, forget=["b"]).deleted == (2,)
    assert gc(store.path, batches=1).deleted == ()


def test_gc_without_any_stream_keeps_the_newest_version(store: IndexStore) -> None:
    _publish(store, 3)
    assert gc(store.path).kept == (4,)
    assert len(list((store.path / "shards").iterdir())) == 1


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda path: gc(path, keep=0), "an integer of at least 1, but got 0 - at keep"),
        (lambda path: gc(path, batches=0), "an integer of at least 1, but got 0 - at batches"),
        (lambda path: gc(path, forget=["c"]), "a query of none, but got 'c' - at forget"),
        (lambda path: gc(path, forget=["../versions"]), "a query of none"),
    ],
)
def test_gc_refuses_what_makes_no_sense(store: IndexStore, call: Callable[[Path], object], problem: str) -> None:
    with pytest.raises(BadOption, match=problem):
        call(store.path)
    assert store.versions() == [1]


def test_a_version_that_a_running_batch_names_is_always_there(store: IndexStore) -> None:
    """Publish, record and collect as fast as can be, at the same time."""
    stop = threading.Event()
    problems: list[BaseException] = []

    def repeat(action: Callable[[], object]) -> None:
        try:
            while not stop.is_set():
                action()
        except BaseException as error:
            problems.append(error)

    others = [
        threading.Thread(target=repeat, args=(action,))
        for action in (lambda: _publish(store, 1), lambda: gc(store.path, batches=1))
    ]
    for thread in others:
        thread.start()
    try:
        for batch in range(150):
            version = version_of_batch(store, "q", batch)
            manifest = store.manifest(version)  # as all tasks of the batch do, however late they are
            assert store.shard_path(manifest.shards[0].name).is_dir()
            assert version_of_batch(store, "q", batch) == version
    finally:
        stop.set()
        for thread in others:
            thread.join()
    assert problems == []
