"""Files appear whole or not at all."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from whimbrel.storage.atomic import (
    create_file,
    make_directory,
    place_directory,
    remove_staged,
    replace_file,
    staged_directory,
    staged_file,
    temporary_name,
)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, [b"one", memoryview(b" two")])
    assert path.read_bytes() == b"one two"
    replace_file(path, [b"three"])
    assert path.read_bytes() == b"three" and os.listdir(tmp_path) == ["file"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for write in (lambda: replace_file(path, [b"new"]), lambda: create_file(tmp_path / "other", b"new")):
        with pytest.raises(OSError, match=r"No space left on device: '.*/(file|other)'"):
            write()
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]


def test_a_file_that_the_caller_writes_gets_its_name_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for durable in (True, False):
        with staged_file(path, durable) as staged:
            staged.write_bytes(b"new")
            assert not path.exists()
        assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["file"]
        with pytest.raises(UnicodeEncodeError), staged_file(path, durable) as staged:
            staged.write_text("\ud800", encoding="utf-8")
        assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["file"]
        path.unlink()


def test_one_of_many_creates_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [f"writer {number}".encode() for number in range(16)]
    with ThreadPoolExecutor(8) as threads:
        created = list(threads.map(lambda content: create_file(path, content), contents))
    assert sum(created) == 1 and path.read_bytes() == contents[created.index(True)]
    assert os.listdir(tmp_path) == ["file"]


def test_a_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    for _ in range(2):
        make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_directory_gets_its_place_once(tmp_path: Path) -> None:
    for number, expected in enumerate([True, False]):
        staged = tmp_path / f"staged-{number}"
        staged.mkdir()
        (staged / "file").write_bytes(b"%d" % number)
        assert place_directory(staged, tmp_path / "place") is expected
    assert (tmp_path / "place" / "file").read_bytes() == b"0" and os.listdir(tmp_path) == ["place"]
    with pytest.raises(FileNotFoundError):
        place_directory(tmp_path / "nothing", tmp_path / "other")


@pytest.mark.parametrize("is_file", [True, False])
def test_what_is_overwritten_makes_way_for_a_directory(tmp_path: Path, is_file: bool) -> None:
    place = tmp_path / "place"
    if is_file:
        place.write_bytes(b"old")
    else:
        (place / "old").mkdir(parents=True)
    with pytest.raises(FileNotFoundError):
        place_directory(tmp_path / "nothing", place, overwrite=True)
    assert place.exists() and os.listdir(tmp_path) == ["place"]
    (tmp_path / "staged").mkdir()
    assert place_directory(tmp_path / "staged", place, overwrite=True)
    assert list(place.iterdir()) == [] and os.listdir(tmp_path) == ["place"]


def test_a_directory_that_the_caller_fills_gets_its_name_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a" / "place"
    with staged_directory(path) as staged:
        (staged / "folder").mkdir()
        (staged / "folder" / "file").write_bytes(b"new")
        assert not path.exists()
    assert (path / "folder" / "file").read_bytes() == b"new" and os.listdir(path.parent) == ["place"]
    with pytest.raises(ZeroDivisionError), staged_directory(tmp_path / "other"):
        _ = 1 / 0
    with pytest.raises(FileExistsError, match="place"), staged_directory(path):
        pass
    assert os.listdir(path.parent) == ["place"] and os.listdir(tmp_path) == ["a"]


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    temporary_name(tmp_path / "one").write_bytes(b"half")
    temporary_name(tmp_path / "one").mkdir()
    other = temporary_name(tmp_path / "other")
    other.write_bytes(b"half")
    remove_staged(tmp_path / "one")
    assert list(tmp_path.iterdir()) == [other]
