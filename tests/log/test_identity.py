"""The id of a log changes only when it is asked to, and entries keep the one that they were appended under."""

from __future__ import annotations

from pathlib import Path

import pytest

from whimbrel.log import LogLocked, LogReader, LogWriter, MissingLog, renew_id


def test_entries_keep_the_id_under_which_they_were_appended(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as writer:
        first = writer.id
        writer.append_many([(b"a", []), (b"b", [])]).result()
    second = renew_id(tmp_path)
    with LogWriter(tmp_path) as writer:
        assert writer.id == second
        assert writer.append(b"c").result() == 2
    third = renew_id(tmp_path)
    with LogReader(tmp_path) as reader:
        assert reader.id == third
        assert [reader.id_at(offset) for offset in range(4)] == [first, first, second, third]
        assert [entry.event for entry in reader.read(0)] == [b"a", b"b", b"c"]
    assert len({first, second, third}) == 3


def test_a_log_that_is_written_or_missing_keeps_its_id(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log") as writer:
        with pytest.raises(LogLocked):
            renew_id(tmp_path / "log")
        with LogReader(tmp_path / "log") as reader:
            assert reader.id == writer.id
    with pytest.raises(MissingLog):
        renew_id(tmp_path / "none")
