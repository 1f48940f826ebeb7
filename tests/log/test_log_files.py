"""The files of the log: foreign, newer, changed, truncated; checkpoints, and a full disk."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from whimbrel.log import (
    CorruptLog,
    ForeignLog,
    LogError,
    LogFailed,
    LogReader,
    LogWriter,
    MissingLog,
    NewerLog,
    checkpointer,
)


def test_a_directory_without_a_log_and_one_with_an_unfinished_log_have_none(tmp_path: Path) -> None:
    with pytest.raises(MissingLog, match="there is none"):
        LogReader(tmp_path)
    (tmp_path / "log.sqlite").touch()  # a crash just after the file was made
    with pytest.raises(MissingLog):
        LogReader(tmp_path)
    with LogWriter(tmp_path) as writer:
        assert writer.append(b"x").result() == 0


def _run_sql(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path / "log.sqlite", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("kind", [LogReader, LogWriter])
def test_files_of_others_are_refused_and_left_alone(tmp_path: Path, kind: type[LogReader | LogWriter]) -> None:
    file = tmp_path / "log.sqlite"
    file.write_bytes(b"not a database, but a text that is long enough to look like something" * 20)
    before = file.read_bytes()
    with pytest.raises(ForeignLog, match="not an SQLite database"):
        kind(tmp_path)
    assert file.read_bytes() == before
    file.unlink()
    _run_sql(tmp_path, "CREATE TABLE shopping (item TEXT)")
    with pytest.raises(ForeignLog, match="another application"):
        kind(tmp_path)


@pytest.mark.parametrize("kind", [LogReader, LogWriter])
def test_a_newer_format_is_refused(log: Path, kind: type[LogReader | LogWriter]) -> None:
    _run_sql(log, "PRAGMA user_version = 2")
    with pytest.raises(NewerLog, match="version 1 or older, but got 2") as caught:
        kind(log)
    assert (caught.value.version, caught.value.supported) == (2, 1)


@pytest.mark.parametrize("kind", [LogReader, LogWriter])
def test_a_log_without_its_tables_is_refused(log: Path, kind: type[LogReader | LogWriter]) -> None:
    _run_sql(log, "DROP TABLE entry")
    with pytest.raises(CorruptLog, match="tables"):
        kind(log)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE entry SET event = x'00' WHERE offset = 50", "entry at offset 50 is damaged"),
        ("UPDATE entry SET matches = NULL WHERE offset = 50", "entry at offset 50 is damaged"),
        ("UPDATE entry SET matches = x'80' WHERE offset = 50", "entry at offset 50 is damaged"),
        ("UPDATE entry SET offset = 1000 WHERE offset = 50", "entry at offset 50 is gone"),
        ("DELETE FROM entry WHERE offset = 50", "entry at offset 50 is gone"),
    ],
)
def test_a_changed_or_lost_entry_is_noticed_when_it_is_read(log: Path, damage: str, problem: str) -> None:
    _run_sql(log, damage)
    with LogReader(log) as reader:
        assert len(list(reader.read(0, 50))) == 50
        with pytest.raises(CorruptLog, match=problem):
            list(reader.read(0, 100))


def test_random_damage_to_the_file_never_gives_wrong_entries(log: Path) -> None:
    file = log / "log.sqlite"
    intact = file.read_bytes()
    expected = {number: (b"event %d" % number, [number]) for number in range(100)}
    random = np.random.default_rng(7)
    refused = 0
    for _ in range(150):
        damaged = bytearray(intact)
        place = int(random.integers(len(intact)))
        damaged[place] ^= int(random.integers(1, 256))
        file.write_bytes(damaged)
        try:
            with LogReader(log) as reader:
                for entry in reader.read(0, 100):
                    assert (entry.event, entry.matches) == expected[entry.offset]
        except LogError:
            refused += 1
    assert refused > 10


def test_a_truncated_file_is_refused(log: Path) -> None:
    file = log / "log.sqlite"
    os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(CorruptLog), LogReader(log) as reader:
        list(reader.read(0))


def test_a_full_disk_stops_the_writer_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    """The limit on file sizes makes real writes fail, as a full disk does."""
    script = (
        "import resource, signal, sys\n"
        "from whimbrel.log import LogFailed, LogWriter\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "writer = LogWriter(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
        "futures = [writer.append(b'0 ' + bytes(1000))]\n"
        "futures[0].result()\n"  # one at least is on disk before a group of many fails as a whole
        "try:\n"
        "    for number in range(1, 3000):\n"
        "        futures.append(writer.append(b'%d ' % number + bytes(1000)))\n"
        "except LogFailed:\n"
        "    pass\n"
        "done = 0\n"
        "for number, future in enumerate(futures):\n"
        "    error = future.exception()\n"
        "    assert error is None and done == number or isinstance(error, LogFailed), error\n"
        "    done += error is None\n"
        "for call in (lambda: writer.append(b'more'), lambda: writer.truncate(1)):\n"
        "    try:\n"
        "        call()\n"
        "    except LogFailed as error:\n"
        "        assert 'nothing more is taken' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError('took more')\n"
        "writer.close()\n"
        "print(done)\n"
    )
    found = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    acknowledged = int(found.stdout)
    assert 0 < acknowledged < 3_000
    with LogWriter(tmp_path) as writer, LogReader(tmp_path) as reader:
        events = [entry.event for entry in reader.read(0)]
        assert len(events) >= acknowledged
        assert all(event.startswith(b"%d " % number) for number, event in enumerate(events))
        assert writer.append(b"there is room again").result() == len(events)


def test_the_write_ahead_log_starts_over_while_entries_keep_coming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointer, "PASS_BYTES", 1 << 18)
    monkeypatch.setattr(checkpointer, "LONG_PAGES", 256)
    entries = 3_000
    with LogWriter(tmp_path) as writer, LogReader(tmp_path) as reader:
        for number in range(entries):
            future = writer.append(b"%d" % number * 1_000)
            if number % 5 == 4:
                future.result()
        future.result()
        assert (tmp_path / "log.sqlite-wal").stat().st_size < (tmp_path / "log.sqlite").stat().st_size
        assert [len(entry.event) for entry in reader.read(0)] == [len(str(number)) * 1_000 for number in range(entries)]


def test_a_disk_that_refuses_a_checkpoint_stops_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointer, "PASS_BYTES", 1)
    monkeypatch.setattr(checkpointer, "_PASSIVE", "SELECT 1 FROM disk")
    with LogWriter(tmp_path) as writer:
        assert writer.append(b"acknowledged").result() == 0
        writer._checkpointer._thread.join()
        with pytest.raises(LogFailed, match="no such table: disk"):
            writer.append(b"refused").result()
    with LogReader(tmp_path) as reader:
        assert next(reader.read(0)).event == b"acknowledged"
