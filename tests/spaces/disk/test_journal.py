"""The journal: nothing that returned is lost, whatever happens to the process."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from whimbrel.spaces import Columns, JournalError, Notification, SubjectSpaces
from whimbrel.spaces.disk import journal

# Moves one point for ever; says after each call how many were done, and what was told.
WRITER = """
import sys
from whimbrel.spaces import SubjectSpaces
from whimbrel.spaces.disk import journal
journal.SMALLEST = 2_000
spaces = SubjectSpaces.open(sys.argv[1])
if spaces.sequence == 0:
    spaces.define("line", {"x": "number"})
if spaces.sequence == 1:
    spaces.subscribe("s", [{"x": (0, 4)}], leave=True)
if spaces.sequence == 2:
    spaces.publish("p", [{"x": 9}])
while True:
    x = spaces.sequence % 10
    found = spaces.update_many([("p", {"x": x})])
    print(spaces.sequence, x, *[one.kind for one in found], flush=True)
"""


def filled(path: Path) -> SubjectSpaces:
    spaces = SubjectSpaces.open(path)
    spaces.define("line", {"x": "number", "name": "string"})
    spaces.subscribe("s", [{"x": (0, 4), "name": ("a", "c")}], leave=True, now=0)
    spaces.subscribe("t", [{"x": (0, 4)}], hysteresis={"x": 1}, dwell=3, now=0)
    spaces.publish("p", [{"x": 9, "name": "b"}], now=0)
    spaces.update_publication("p", {"x": 3}, now=0)
    return spaces


def test_every_torn_tail_gives_the_state_before(tmp_path: Path) -> None:
    with filled(tmp_path / "whole") as spaces:
        before = spaces.sequence
        size = next((tmp_path / "whole").glob("journal-*")).stat().st_size
        told = set(spaces.update_publication("p", {"x": 6}))
    (log,) = (tmp_path / "whole").glob("journal-*")
    content = log.read_bytes()
    for length in range(size, len(content) + 1):
        torn = tmp_path / "torn"
        shutil.copytree(tmp_path / "whole", torn)
        (torn / log.name).write_bytes(content[:length])
        with SubjectSpaces.open(torn) as spaces:
            whole = length == len(content)
            assert spaces.sequence == before + whole
            assert set(spaces.last) == (told if whole else {Notification(key, "p", "enter") for key in "st"})
            assert spaces.publish("q", [{"x": 1}]).sequence == spaces.sequence == before + whole + 1
        with SubjectSpaces.open(torn) as spaces:
            assert spaces.counts()["publications"] == 2
        shutil.rmtree(torn)


def test_a_tail_of_zeros_or_garbage_is_cut_off_and_damage_before_it_is_refused(tmp_path: Path) -> None:
    with filled(tmp_path) as spaces:
        sequence = spaces.sequence
    (log,) = tmp_path.glob("journal-*")
    content = log.read_bytes()
    for tail in (bytes(100), content[8:40], b"\xff" * 50):
        log.write_bytes(content + tail)
        with SubjectSpaces.open(tmp_path) as spaces:
            assert spaces.sequence == sequence
        assert log.read_bytes() == content
    for place in (30, 8 + 3):  # in a record, and where the length of the first one is
        log.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(JournalError, match="damaged"):
            SubjectSpaces.open(tmp_path)
    log.write_bytes(b"something else")
    with pytest.raises(JournalError, match="starts with"):
        SubjectSpaces.open(tmp_path)


def test_a_journal_that_was_torn_as_it_was_made_is_empty_and_one_with_calls_is_never_taken_for_it(
    tmp_path: Path,
) -> None:
    with filled(tmp_path) as spaces:
        sequence = spaces.sequence
    (log,) = tmp_path.glob("journal-*")
    content = log.read_bytes()
    log.write_bytes(bytes(8) + content[8:])
    with pytest.raises(JournalError, match="starts with"):
        SubjectSpaces.open(tmp_path)
    log.write_bytes(content)
    with SubjectSpaces.open(tmp_path) as spaces:
        spaces.compact()
    (log,) = tmp_path.glob("journal-*")
    for torn in (b"", b"WHI", b"WHI" + bytes(5), bytes(4_096)):
        log.write_bytes(torn)
        with SubjectSpaces.open(tmp_path) as spaces:
            assert spaces.sequence == sequence


def test_one_opener_at_a_time_and_none_after_close(tmp_path: Path) -> None:
    with filled(tmp_path) as spaces, pytest.raises(JournalError, match="open in another"):
        SubjectSpaces.open(tmp_path)
    with pytest.raises(JournalError, match="closed"):
        spaces.publish("q", [{"x": 1}])
    assert spaces.counts()["publications"] == 1
    SubjectSpaces.open(tmp_path).close()


def test_a_snapshot_keeps_everything(tmp_path: Path) -> None:
    with filled(tmp_path) as spaces:
        spaces.publish("two", [{"x": 1}, {"name": "b"}], now=1)
        spaces.publish("any", [{"x": 1}, {"x": 50}], filter="any", now=1)
        spaces.update_publication("p", {"x": 7}, now=2)
        expected = {key: (spaces.publication(key), spaces.matches(key)) for key in ("p", "two", "any")}
        assert "t" in spaces.matches("p")
        spaces.compact()
        spaces.compact()
    with SubjectSpaces.open(tmp_path) as spaces:
        spaces._check()
        assert {key: (spaces.publication(key), spaces.matches(key)) for key in ("p", "two", "any")} == expected
        assert spaces.advance(4.9) == []
        spaces.advance(5.1)
        assert "t" not in spaces.matches("p")  # its dwell went on
        assert spaces.update_publication("p", {"name": "zz"}) == []
    assert len(list(tmp_path.glob("snapshot-*"))) == len(list(tmp_path.glob("journal-*"))) == 1


def test_a_missing_snapshot_is_refused(tmp_path: Path) -> None:
    with filled(tmp_path) as spaces:
        spaces.compact()
        spaces.update_publication("p", {"x": 6}, now=1)
    (snapshot,) = tmp_path.glob("snapshot-*")
    snapshot.rename(tmp_path / "elsewhere")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(JournalError, match=snapshot.name):
        SubjectSpaces.open(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "elsewhere").rename(snapshot)
    with SubjectSpaces.open(tmp_path) as spaces:
        assert spaces.sequence == 6


def test_the_journal_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SMALLEST", 3_000)
    with filled(tmp_path) as spaces:
        for number in range(150):
            spaces.update_publication("p", {"x": number})
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 3 and sum(sizes) < 30_000
    with SubjectSpaces.open(tmp_path) as spaces:
        assert spaces.publication("p")[0]["x"].low == 149


def test_a_full_disk_refuses_the_call_and_keeps_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(tmp_path) as spaces:
        sequence = spaces.sequence

        def full(file: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", full)
            with pytest.raises(OSError, match="No space"):
                spaces.publish("q", [{"x": 1}])
        assert spaces.sequence == sequence and spaces.counts()["publications"] == 1
        spaces.publish("r", [{"x": 1}])
    with SubjectSpaces.open(tmp_path) as spaces:
        assert spaces.counts()["publications"] == 2 and spaces.sequence == sequence + 1


def test_a_snapshot_whose_journal_cannot_be_made_stops_all_calls_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaces = filled(tmp_path / "spaces")
    sequence = spaces.sequence

    opened = os.open

    def full(path: str | Path, *options: int) -> int:
        if Path(path).name.startswith("journal-"):
            raise OSError(28, "No space left on device")
        return opened(path, *options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        with pytest.raises(OSError, match="No space"):
            spaces.compact()
    with open(tmp_path / "other", "wb") as other:  # which may get the number of the file that was closed
        with pytest.raises(JournalError, match="closed"):
            spaces.publish("q", [{"x": 1}])
        assert os.fstat(other.fileno()).st_size == 0
    spaces.close()
    with SubjectSpaces.open(tmp_path / "spaces") as spaces:
        assert spaces.sequence == sequence and spaces.counts()["publications"] == 1
        spaces.publish("q", [{"x": 1}])


def test_values_and_keys_of_numpy_are_journalled_as_plain_ones(tmp_path: Path) -> None:
    with SubjectSpaces.open(tmp_path) as spaces:
        spaces.define("line", {"x": "number", "name": "string"})
        spaces.publish(np.str_("p"), [{"x": np.float64(1.5), "name": np.str_("b")}])
        spaces.update_publication(np.str_("p"), {"x": (np.float64(1), np.float64("inf")), np.str_("name"): "c"})
        spaces.publish_many(Columns(np.arange(2), {"x": np.arange(2.0)}), quiet=np.bool_(True))  # type: ignore[arg-type]
        spaces.subscribe("s", [{"x": np.int64(1)}], leave=np.bool_(True))  # type: ignore[arg-type]
        expected = [spaces.publication(key) for key in ("p", 0, 1)], spaces.matched_by("s")
    with SubjectSpaces.open(tmp_path) as spaces:
        assert ([spaces.publication(key) for key in ("p", 0, 1)], spaces.matched_by("s")) == expected
        assert expected[1] == ["p", 1]


def kill_at_random(folder: Path, times: int) -> None:
    """Kill the writer again and again; all that it said must be there, and nothing else but one call."""
    chance = random.Random(7)
    said = 0
    for _ in range(times):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(chance.random() * 0.3)
        process.send_signal(signal.SIGKILL)
        lines = (first + process.stdout.read()).split("\n")[:-1]  # a last line without its end was cut off
        process.wait()
        process.stdout.close()
        for line in lines:
            sequence, x, *kinds = line.split()
            assert int(sequence) == int(x) + 1 + (int(sequence) - 1) // 10 * 10
            expected = {0: ["enter"], 5: ["leave"]}.get(int(x), [])
            assert kinds == expected or int(sequence) == 4
            said = int(sequence)
        with SubjectSpaces.open(folder) as spaces:
            assert said <= spaces.sequence <= said + 1
            x = (spaces.sequence - 1) % 10
            assert spaces.publication("p")[0]["x"].low == x
            assert spaces.matches("p") == (["s"] if x <= 4 else [])
            assert [one.sequence for one in spaces.last] in ([], [spaces.sequence])
            said = spaces.sequence


def test_kill_9_loses_no_call_that_returned(tmp_path: Path) -> None:
    kill_at_random(tmp_path / "spaces", 2)


@pytest.mark.soak
def test_kill_9_many_times(tmp_path: Path) -> None:
    kill_at_random(tmp_path / "spaces", 200)


def test_replay_gives_the_same_notifications_again(tmp_path: Path) -> None:
    with filled(tmp_path) as spaces:
        told = json.dumps([[one.subscription, one.publication, one.kind, one.sequence] for one in spaces.last])
    with SubjectSpaces.open(tmp_path) as spaces:
        again = [[one.subscription, one.publication, one.kind, one.sequence] for one in spaces.last]
    assert json.dumps(again) == told and again
