"""Saved indexes: what was saved comes back, or is refused; a kill leaves the old one or the new one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.storage.test_array_file import same_arrays
from whimbrel import Index
from whimbrel.engine.ids.id_table import IdTable
from whimbrel.engine.live import directory as store
from whimbrel.engine.live.texts import TextStore
from whimbrel.storage.errors import CorruptIndex, ForeignFile, MissingIndex, NewerFormat, OlderFormat, SavedIndexError

STATES = {
    letter: {
        "ids": ({"ids": np.full(1000, number)}, {"state": letter}),
        "segment": ({"keys": np.full((50, 3), number, np.int32), "none": np.zeros(0)}, {"state": letter}),
        "texts": ({"text": np.arange(100)}, {}),
    }
    for number, letter in enumerate("ab")
}


def _state(directory: Path) -> str:
    """Which of the two states is in a directory, all of it."""
    files, manifest = store.open_directory(directory)
    letter = manifest["extra"]["state"]
    assert files.keys() == STATES[letter].keys()
    for name, (arrays, meta) in STATES[letter].items():
        assert same_arrays(files[name][0], arrays) and files[name][1] == meta
    return letter


def _save(directory: Path, letter: str) -> dict:
    return store.save_directory(directory, STATES[letter], {"state": letter})


def _only_named_files(directory: Path) -> bool:
    named = {entry["file"] for entry in store.read_manifest(directory)["files"].values()}
    return {path.name for path in directory.iterdir()} == {"MANIFEST", *named}


def test_a_directory_holds_what_was_saved_last(tmp_path: Path) -> None:
    for letter in "abba":
        manifest = _save(tmp_path / "deep" / "index", letter)
        assert _state(tmp_path / "deep" / "index") == letter and _only_named_files(tmp_path / "deep" / "index")
        assert manifest == store.read_manifest(tmp_path / "deep" / "index")


def test_a_part_that_has_not_changed_keeps_its_file(tmp_path: Path) -> None:
    files = [_save(tmp_path, letter)["files"] for letter in "ab"]
    assert files[0]["texts"] == files[1]["texts"] and files[0]["ids"] != files[1]["ids"]
    before = (tmp_path / files[1]["texts"]["file"]).stat()
    _save(tmp_path, "a")
    after = (tmp_path / files[1]["texts"]["file"]).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_damaged_file_is_not_kept(tmp_path: Path) -> None:
    entry = _save(tmp_path, "a")["files"]["texts"]
    content = (tmp_path / entry["file"]).read_bytes()
    (tmp_path / entry["file"]).write_bytes(content[:-100] + b"x" + content[-99:])
    with pytest.raises(CorruptIndex):
        _state(tmp_path)
    _save(tmp_path, "a")
    assert _state(tmp_path) == "a" and _only_named_files(tmp_path)


def test_only_the_files_asked_for_are_verified(tmp_path: Path) -> None:
    path = tmp_path / _save(tmp_path, "a")["files"]["texts"]["file"]
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    for verify in (False, ["ids", "segment"]):
        assert store.open_directory(tmp_path, verify)[0].keys() == STATES["a"].keys()
    for verify in (True, ["texts"]):
        with pytest.raises(CorruptIndex, match="the array 'text' is damaged"):
            store.open_directory(tmp_path, verify)


def test_private_files_may_be_written_to(tmp_path: Path) -> None:
    _save(tmp_path, "a")
    files, _ = store.open_directory(tmp_path, private=["ids"])
    files["ids"][0]["ids"][0] = 99
    assert not files["segment"][0]["keys"].flags.writeable and _state(tmp_path) == "a"


@pytest.mark.parametrize("mask", [0x01, 0x80])
def test_a_change_of_any_byte_of_a_manifest_is_refused(tmp_path: Path, mask: int) -> None:
    _save(tmp_path, "a")
    path = tmp_path / store.MANIFEST
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :])
        with pytest.raises(SavedIndexError):
            store.open_directory(tmp_path)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(CorruptIndex):
            store.open_directory(tmp_path)


def test_files_that_are_missing_or_swapped_are_refused(tmp_path: Path) -> None:
    _save(tmp_path / "a", "a")
    _save(tmp_path / "b", "b")
    ours, theirs = (tmp_path / letter / _save(tmp_path / letter, letter)["files"]["ids"]["file"] for letter in "ab")
    theirs.replace(ours)
    with pytest.raises(CorruptIndex, match="its digest is"):
        _state(tmp_path / "a")
    ours.unlink()
    with pytest.raises(CorruptIndex, match="the file is missing"):
        _state(tmp_path / "a")
    _save(tmp_path / "a", "b")
    assert _state(tmp_path / "a") == "b"


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    for path, error in {
        tmp_path: MissingIndex,
        tmp_path / "none": MissingIndex,
        tmp_path / "file": ForeignFile,
    }.items():
        with pytest.raises(error):
            store.open_directory(path)


@pytest.mark.parametrize(
    ("manifest", "error"),
    [
        ('{"format": "bagit"}', ForeignFile),
        ("[]", ForeignFile),
        ("recursive-include src *.py", ForeignFile),
        ('{"format":"whimbrel index","version":8}', NewerFormat),
    ],
)
def test_a_save_leaves_alone_what_is_not_ours_or_newer(tmp_path: Path, manifest: str, error: type) -> None:
    (tmp_path / "MANIFEST").write_text(manifest)
    with pytest.raises(error):
        store.open_directory(tmp_path)
    with pytest.raises(error):
        _save(tmp_path, "a")
    assert [path.name for path in tmp_path.iterdir()] == ["MANIFEST"]
    assert (tmp_path / "MANIFEST").read_text() == manifest


def test_an_empty_name_is_not_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for call in (lambda: Index().save(""), lambda: Index.open("")):
        with pytest.raises(SavedIndexError, match="Expected the name of a directory"):
            call()
    assert not list(tmp_path.iterdir())


def test_an_older_index_is_refused_and_a_save_replaces_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store, "MANIFEST_VERSION", 1)
        _save(tmp_path, "a")
    with pytest.raises(OlderFormat, match="Expected format version 7, but got 1") as error:
        store.open_directory(tmp_path)
    assert (error.value.version, error.value.supported) == (1, 7)
    _save(tmp_path, "b")
    assert _state(tmp_path) == "b" and _only_named_files(tmp_path)


def test_an_index_of_the_version_before_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store, "MANIFEST_VERSION", store.OLDEST_VERSION)
        _save(tmp_path, "a")
    assert _state(tmp_path) == "a"


@pytest.mark.parametrize("length", [0, 20, 100, -1])
def test_a_save_replaces_a_damaged_index_and_deletes_nothing_else(tmp_path: Path, length: int) -> None:
    _save(tmp_path, "a")
    manifest = (tmp_path / "MANIFEST").read_bytes()
    (tmp_path / "MANIFEST").write_bytes(manifest[:length] if length >= 0 else b"{" + manifest)
    (tmp_path / "notes.tmp").write_text("mine")
    _save(tmp_path, "b")
    assert _state(tmp_path) == "b"
    (tmp_path / "notes.tmp").unlink()
    assert _only_named_files(tmp_path)


def test_a_save_that_fails_leaves_the_old_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _save(tmp_path, "a")
    with pytest.raises(TypeError):
        store.save_directory(tmp_path, {**STATES["b"], "odd": ({"x": np.array([None])}, {})})
    with pytest.raises(ValueError, match="file name"):
        store.save_directory(tmp_path, {"../odd": ({}, {})})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("whimbrel.storage.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        _save(tmp_path, "b")
    monkeypatch.undo()
    assert _state(tmp_path) == "a"
    _save(tmp_path, "a")
    assert _only_named_files(tmp_path)


def _run(script: str, *arguments: object) -> str:
    """Run Python in a process of its own, which may fork: it has no threads."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_kill_at_every_step_of_a_save_leaves_one_of_the_two(tmp_path: Path) -> None:
    steps = _run(
        """
import os, signal, sys
from pathlib import Path
from tests.engine.live.test_directory import _only_named_files, _save, _state

directory, events = Path(sys.argv[1]), {"open", "os.rename", "os.remove", "os.mkdir", "os.listdir", "os.fsync"}
seen = []
for last in range(1, 1000):
    _save(directory, "a")
    assert _only_named_files(directory)
    child = os.fork()
    if child == 0:
        count = 0
        def kill(event, _):
            global count
            count += event in events
            if event in events and count == last:
                os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(kill)
        sync = os.fsync
        os.fsync = lambda descriptor: (kill("os.fsync", ()), sync(descriptor))
        _save(directory, "b")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    seen.append(_state(directory))
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
assert seen == sorted(seen) and set(seen) == {"a", "b"}, seen
print(len(seen))
""",
        tmp_path,
    )
    assert int(steps) > 20


def test_a_kill_at_any_moment_leaves_one_of_the_two(tmp_path: Path) -> None:
    _run(
        """
import os, random, signal, sys, time
from pathlib import Path
from tests.engine.live.test_directory import _save, _state

directory, draw = Path(sys.argv[1]), random.Random(1)
started = time.monotonic()
_save(directory, "a")
pace = time.monotonic() - started
for _ in range(25):
    child = os.fork()
    if child == 0:
        while True:
            for letter in "ba":
                _save(directory, letter)
    time.sleep(draw.uniform(0, 3 * pace))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    _state(directory)
""",
        tmp_path,
    )


def test_processes_open_an_index_while_another_saves_it(tmp_path: Path) -> None:
    _run(
        """
import os, sys
from pathlib import Path
from tests.engine.live.test_directory import _save, _state

directory = Path(sys.argv[1])
_save(directory, "a")
writer = os.fork()
if writer == 0:
    for round in range(40):
        _save(directory, "ba"[round % 2])
    os._exit(0)
readers = []
for _ in range(2):
    reader = os.fork()
    if reader == 0:
        try:
            seen = {_state(directory) for _ in range(150)}
            os._exit(0 if seen <= {"a", "b"} else 1)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    readers.append(reader)
assert all(os.waitpid(child, 0)[1] == 0 for child in (*readers, writer))
assert _state(directory) == "a"
""",
        tmp_path,
    )


def test_ids_and_texts_go_through_a_directory(tmp_path: Path) -> None:
    ids, texts = IdTable(), TextStore()
    ids.add_many(["a", "", "\U0001f600"])
    texts.append_many(0, ["x = 1", "", "y = '\U0001f600'"], "sql")
    ids.remove("")
    store.save_directory(tmp_path, {"ids": (ids.arrays(), {}), "texts": (texts.arrays(), {})})
    for private in ([], ["ids"]):
        files, _ = store.open_directory(tmp_path, private=private)
        ids, texts = IdTable.from_arrays(files["ids"][0]), TextStore.from_arrays(files["texts"][0])
        ids._check()
        assert list(ids) == ["a", "\U0001f600"] and texts.get(2) == ("y = '\U0001f600'", "sql")
        assert ids.add("b") == 3 and ids.remove("a") == 0 and list(ids) == ["\U0001f600", "b"]
        texts.append(3, "w", "cesql")
        assert texts.get(1) == ("", "sql") and texts.get(3) == ("w", "cesql")
