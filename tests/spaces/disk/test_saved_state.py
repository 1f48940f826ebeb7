"""Saving without a journal: one file with the state and the caller's facts, whole or refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from whimbrel.model.errors import LimitExceeded
from whimbrel.spaces import Notification, SubjectSpaces
from whimbrel.storage.array_file import write_file
from whimbrel.storage.errors import CorruptIndex, FactsError, ForeignFile, MissingIndex, SavedIndexError


def filled() -> SubjectSpaces:
    spaces = SubjectSpaces()
    spaces.define("line", {"x": "number", "name": "string"})
    spaces.subscribe("s", [{"x": (0, 4), "name": ("a", "c")}], leave=True, now=0)
    spaces.subscribe("t", [{"x": (0, 4)}], leave=True, hysteresis={"x": 1}, dwell=3, now=0)
    spaces.subscribe("any", [{"x": 1}, {"x": 8}], filter="any", now=0)
    spaces.publish("p", [{"x": 9, "name": "b"}], now=0)
    spaces.publish_many([("quiet", [{"x": 2}])], quiet=True, now=0)
    spaces.update_publication("p", {"x": 3}, now=0)
    spaces.update_publication("p", {"x": 7}, now=1)  # out of `t`, which it leaves at 4
    return spaces


def test_what_was_saved_is_loaded_with_its_facts(tmp_path: Path) -> None:
    spaces, path = filled(), tmp_path / "spaces"
    spaces.save(path, facts={"offset": 42})
    loaded = SubjectSpaces.load(path)
    assert loaded.facts == {"offset": 42} and spaces.facts == {}
    assert loaded.sequence == spaces.sequence and not loaded.last
    assert loaded.counts() == spaces.counts()
    for key in ("p", "quiet"):
        assert loaded.publication(key) == spaces.publication(key) and loaded.matches(key) == spaces.matches(key)
    for key in ("s", "t", "any"):
        assert loaded.matched_by(key) == spaces.matched_by(key)
    for each in (spaces, loaded):
        each._check()
        assert list(each.advance(now=4)) == [Notification("t", "p", "leave")]
        assert {one.subscription for one in each.update_publication("p", {"x": 1}, now=5)} == {"s", "t", "any"}
    assert os.listdir(tmp_path) == ["spaces"]  # nothing else is written in between


def test_a_save_replaces_the_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spaces, path = filled(), tmp_path / "spaces"
    spaces.save(path, facts={"offset": 1})
    spaces.delete_publication("p")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            spaces.save(path, facts={"offset": 2})
    assert SubjectSpaces.load(path).facts == {"offset": 1}
    spaces.save(path, facts={"offset": 2})
    loaded = SubjectSpaces.load(path)
    assert loaded.facts == {"offset": 2} and loaded.counts()["publications"] == 1


def test_a_torn_or_changed_file_is_refused(tmp_path: Path) -> None:
    spaces, path = filled(), tmp_path / "spaces"
    spaces.save(path)
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(CorruptIndex, match="Expected an intact file of saved spaces"):
            SubjectSpaces.load(path)
    for at in range(0, len(content), 53):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(SavedIndexError):
            SubjectSpaces.load(path)
    path.write_bytes(content)
    assert SubjectSpaces.load(path).sequence == spaces.sequence


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingIndex, match="Expected a file of saved spaces, but there is none"):
        SubjectSpaces.load(tmp_path / "nothing")
    with pytest.raises(ForeignFile, match="a directory"):
        SubjectSpaces.load(tmp_path)
    write_file(tmp_path / "arrays", {"a": np.arange(3)}, {})
    with pytest.raises(ForeignFile, match="an array file of something else"):
        SubjectSpaces.load(tmp_path / "arrays")


def test_bad_facts_write_nothing(tmp_path: Path) -> None:
    spaces = filled()
    with pytest.raises(FactsError):
        spaces.save(tmp_path / "spaces", facts={"when": object()})
    with pytest.raises(LimitExceeded, match="facts bytes"):
        spaces.save(tmp_path / "spaces", facts={"text": "x" * (64 << 10)})
    assert not os.listdir(tmp_path)


def test_spaces_with_a_journal_can_be_saved_too(tmp_path: Path) -> None:
    with SubjectSpaces.open(tmp_path / "journal") as spaces:
        spaces.define("line", {"x": "number"})
        spaces.publish("p", [{"x": 1}])
        spaces.save(tmp_path / "file", facts={"offset": 2})
    loaded = SubjectSpaces.load(tmp_path / "file")
    assert loaded.sequence == 2 and loaded.subscribe("s", [{"x": 1}])[0].publication == "p"
