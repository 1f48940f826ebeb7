"""Saved indexes as users see them: the old one or the new one after a kill, and never one that is read wrong."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sys
import threading
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.live.crash_loop import EVENTS, STAMP, advance, generation_of
from whimbrel import Index, WhimbrelError
from whimbrel.engine.access.registry import GROUPS
from whimbrel.engine.live import saved as saved_form
from whimbrel.engine.live import segment_set as engine
from whimbrel.storage.errors import CorruptIndex, ForeignFile, MissingIndex, NewerFormat, SavedIndexError


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small index with several segments, deaths and replaced filters."""
    monkeypatch.setattr(engine, "HEAD_SIZE", 16)
    index = Index(timestamps=["at"])
    for generation in range(3):
        advance(index, generation)
    index.add("moment", "at > TIMESTAMP '2026-01-01' AND big = 12345678901234567890123 AND c STARTS WITH 'ä'")
    index.remove("moment")
    index.save(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """An index of one segment and few bytes."""
    index = Index(timestamps=["at"])
    index.add_many([("a", "x = 1 AND y < 2.5"), ("b", "x > 3"), ("c", "t LIKE '%x' OR at > TIMESTAMP '2026-01-01'")])
    index.remove("a")
    index.replace("b", "x IN (1, 7) AND z = 'ä'")
    index.merge()
    index.save(tmp_path / "tiny")
    return tmp_path / "tiny"


def _files(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


def _answers(index: Index) -> list[list[Any]]:
    return [index.match(event) for event in EVENTS]


def _run(*arguments: object) -> str:
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1_200)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("seconds", [8, pytest.param(60, marks=pytest.mark.soak)])
def test_a_kill_while_saving_and_merging_leaves_the_old_index_or_the_new_one(tmp_path: Path, seconds: int) -> None:
    kills, torn, _ = map(int, _run("-m", "tests.engine.live.crash_loop", tmp_path / "index", seconds, seconds).split())
    assert kills > 3 and torn > 0


def _refused(directory: Path, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(SavedIndexError):
        Index.open(directory)


@pytest.mark.parametrize("share", [0.01, pytest.param(1.0, marks=pytest.mark.soak)])
def test_a_change_of_any_byte_is_refused(tiny: Path, share: float) -> None:
    """Every byte of every file in turn, or a sample of them that has all the first ones."""
    draw = random.Random(1)
    for path in _files(tiny):
        content = path.read_bytes()
        for at in range(len(content)):
            if at < 32 or draw.random() < share:
                changed = bytes([content[at] ^ (1 << draw.randrange(8))])
                _refused(tiny, path, content[:at] + changed + content[at + 1 :])
        path.write_bytes(content)
    assert Index.open(tiny).match({"x": 7, "z": "ä", "t": "ax"}) == ["b", "c"]


@pytest.mark.parametrize("share", [0.005, pytest.param(0.3, marks=pytest.mark.soak)])
def test_a_truncated_file_is_refused(tiny: Path, share: float) -> None:
    draw = random.Random(2)
    for path in _files(tiny):
        content = path.read_bytes()
        for length in range(len(content)):
            if length in (0, len(content) - 1) or draw.random() < share:
                _refused(tiny, path, content[:length])
        _refused(tiny, path, content + b"\0")
        _refused(tiny, path, content + content)
        path.write_bytes(content)
    assert Index.open(tiny).match({"x": 7, "z": "ä", "t": "ax"}) == ["b", "c"]


def test_pages_that_were_never_written_are_refused(saved: Path) -> None:
    """After a power cut a file may have its length, but zeros where its content should be."""
    for path in _files(saved):
        content = path.read_bytes()
        for start in range(0, len(content), 4_096):
            end = min(start + 4_096, len(content))
            if content[start:end].strip(b"\0"):
                _refused(saved, path, content[:start] + bytes(end - start) + content[end:])
        path.write_bytes(content)
    assert generation_of(saved) == 2


def test_files_of_another_save_are_refused(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    index = Index.open(saved)
    advance(index, 3)
    index.save(other)
    theirs = {path.name.split("-")[0]: path for path in _files(other)}
    for path in _files(saved):
        part = path.name.split("-")[0]
        content = path.read_bytes()
        if part in theirs and theirs[part].read_bytes() != content:
            _refused(saved, path, theirs[part].read_bytes())
            path.write_bytes(content)
    assert generation_of(saved) == 2 and generation_of(other) == 3


def test_a_file_of_a_newer_format_is_refused_by_its_version(saved: Path) -> None:
    for path in saved.glob("*.whimbrel"):
        content = path.read_bytes()
        version, length = struct.unpack_from("<II", content, 8)
        header = content[32 : 32 + length]
        preamble = struct.pack("<8sII", b"WHIMBREL", version + 1, length)
        path.write_bytes(preamble + blake2b(preamble + header, digest_size=16).digest() + content[32:])
        with pytest.raises(NewerFormat, match=f"Expected format version {version} or older, but got {version + 1}"):
            Index.open(saved)
        path.write_bytes(content)
    assert generation_of(saved) == 2


def test_what_whimbrel_did_not_write_is_refused(saved: Path, tmp_path: Path) -> None:
    for path in saved.glob("*.whimbrel"):
        content = path.read_bytes()
        path.write_bytes(b"PAR1" + content[4:])
        with pytest.raises(ForeignFile, match="a file that starts with b'PAR1BREL'"):
            Index.open(saved)
        path.unlink()
        with pytest.raises(CorruptIndex, match="the file is missing"):
            Index.open(saved)
        path.write_bytes(content)
    with pytest.raises(MissingIndex):
        Index.open(tmp_path)
    with pytest.raises(MissingIndex):
        Index.open(tmp_path / "none")
    with pytest.raises(ForeignFile):
        Index.open(saved / "MANIFEST")
    assert generation_of(saved) == 2


def test_changes_after_opening_reach_neither_the_files_nor_other_readers(saved: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in _files(saved)}
    reader, index = Index.open(saved), Index.open(saved)
    answers = _answers(reader)
    for generation in range(3, 8):
        advance(index, generation)
    index.analyze(EVENTS)
    assert {path: path.read_bytes() for path in _files(saved)} == before
    assert _answers(reader) == answers and generation_of(saved) == 2
    index.save(tmp_path / "copy")
    index.save(saved)
    assert generation_of(saved) == generation_of(tmp_path / "copy") == 7
    assert _answers(reader) == answers  # what is mapped stays readable after its deletion


def test_an_opened_index_works_on_the_mapped_arrays_themselves(saved: Path) -> None:
    for segment in Index.open(saved)._subscriptions.segments.snapshot.segments:
        segment.open()
        for group, arrays in zip(GROUPS, segment.kernel_arrays, strict=True):
            for name, array in zip(group.fields.values(), arrays, strict=True):
                assert not array.flags.writeable
                if name in segment.arrays and array.size:
                    assert np.shares_memory(array, segment.arrays[name]), name
        for name, array in segment.arrays.items():
            assert array.size == 0 or not array.flags.owndata, name
            assert not array.flags.writeable or array.size == 0, name


_MAPPED = """
import re, sys
from whimbrel import Index
index = Index.open(sys.argv[1])
assert len(index.match({"a": 7})) == 1
resident = dirty = 0
for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", open("/proc/self/smaps").read()):
    if ".whimbrel" in block.splitlines()[0] if block else False:
        resident += int(re.search(r"Rss: +(\\d+) kB", block)[1])
        dirty += int(re.search(r"Private_Dirty: +(\\d+) kB", block)[1])
print(resident, dirty)
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells which pages are whose")
def test_processes_share_the_memory_of_an_opened_index(tmp_path: Path) -> None:
    index = Index()
    index.add_many((id, f"a = {id} AND b < {id % 97}" if id != 7 else "a = 7") for id in range(20_000))
    index.save(tmp_path / "index")
    size = sum(path.stat().st_size for path in _files(tmp_path / "index")) // 1024
    resident, dirty = map(int, _run("-c", _MAPPED, tmp_path / "index").split())
    assert resident > size // 2, "verifying read every page, so they are there"
    assert dirty == 0, "no page is a copy of this process"


def test_saving_over_a_damaged_index_mends_it(saved: Path) -> None:
    index = Index.open(saved)
    for path in saved.glob("*.whimbrel"):
        damaged = bytearray(path.read_bytes())
        damaged[-1] ^= 1
        path.unlink()  # what is mapped stays as it was
        path.write_bytes(damaged)
    with pytest.raises(CorruptIndex):
        Index.open(saved)
    index.save(saved)
    assert generation_of(saved) == 2


def test_a_copied_directory_is_the_same_index(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "elsewhere")
    assert generation_of(tmp_path / "elsewhere") == 2
    assert Index.open(tmp_path / "elsewhere").timestamps == {"at"}


def test_an_empty_index_is_saved_and_opened(tmp_path: Path) -> None:
    Index(timestamps=["at"]).save(tmp_path / "index")
    index = Index.open(tmp_path / "index")
    assert len(index) == 0 and index.match({"a": 1}) == [] and index.timestamps == {"at"}
    index.add(STAMP, "a = 1")
    index.save(tmp_path / "index")
    assert Index.open(tmp_path / "index").match({"a": 1}) == [STAMP]


def test_facts_come_back_and_describe_what_was_saved(tmp_path: Path) -> None:
    index = Index()
    index.add("a", "x = 1")
    assert index.facts == {}
    index.save(tmp_path / "index", {"offset": 17, "log": "events"})
    assert Index.open(tmp_path / "index").facts == {"offset": 17, "log": "events"}
    index.save(tmp_path / "index")
    assert Index.open(tmp_path / "index").facts == {}


@pytest.mark.parametrize("facts", [{"x": float("nan")}, {"x": object()}, {"x": "y" * (1 << 16)}])
def test_facts_that_cannot_be_kept_are_refused_before_anything_is_written(tmp_path: Path, facts: Any) -> None:
    index = Index()
    index.save(tmp_path / "index", {"offset": 1})
    with pytest.raises(WhimbrelError):
        index.save(tmp_path / "index", facts)
    assert Index.open(tmp_path / "index").facts == {"offset": 1}


def test_changes_go_on_while_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The saved index is the one at the call, though others add, replace and remove before the files are written."""
    index = Index()
    index.add_many((id, f"x = {id % 7}") for id in range(2_000))
    for id in range(2_000, 2_050):
        index.add(id, f"x = {id % 7}")
    index.remove(3)
    index.replace(4, "x = 6")
    wanted = [index.match({"x": value}) for value in range(7)]
    writing, changed = threading.Event(), threading.Event()
    write = saved_form.save_directory

    def slow(*arguments: Any) -> Any:
        writing.set()
        assert changed.wait(60), "changes wait for the files"
        return write(*arguments)

    monkeypatch.setattr(saved_form, "save_directory", slow)
    saver = threading.Thread(target=index.save, args=(tmp_path / "index", {"step": 1}))
    saver.start()
    assert writing.wait(60)
    for id in range(5_000, 5_100):
        index.add(id, "x = 1")
    for id in range(10, 60):
        index.remove(id)
    index.replace(5, "x = 0")
    index.merge()
    changed.set()
    saver.join()
    again = Index.open(tmp_path / "index")
    again._check()
    assert [again.match({"x": value}) for value in range(7)] == wanted and len(again) == 2_049
    assert len(index) == 2_099 and again.facts == {"step": 1}
    index.save(tmp_path / "index")
    assert list(Index.open(tmp_path / "index")) == list(index)


def test_the_names_of_timestamps_can_be_given_when_an_index_is_opened(tmp_path: Path) -> None:
    index = Index(timestamps=["at"])
    index.add("a", "t > TIMESTAMP '2024-01-01'")
    index.save(tmp_path / "index")
    event = {"t": "2024-06-01"}
    assert Index.open(tmp_path / "index").match(event) == []
    opened = Index.open(tmp_path / "index", timestamps=["t"])
    assert opened.timestamps == {"t"} and opened.match(event) == ["a"]
