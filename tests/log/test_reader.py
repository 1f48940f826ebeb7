"""What readers bound, and what they do while the log is truncated."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from whimbrel.log import CorruptLog, LogReader, LogWriter, reader


def test_chunks_end_with_their_bytes_too(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LogReader(log) as held:
        whole = list(held.read(3, 97))
        monkeypatch.setattr(reader, "CHUNK_BYTES", 40)
        chunks = list(held.chunks(3, 97))
        assert max(map(len, chunks)) < 6
        assert [row[0] for chunk in chunks for row in chunk] == list(range(3, 97))
        assert list(held.read(3, 97)) == whole


@pytest.mark.parametrize(("column", "value"), [("event", "text"), ("event", 7), ("matches", "text"), ("checksum", "7")])
def test_a_value_of_another_type_is_damage(log: Path, column: str, value: str | int) -> None:
    with closing(sqlite3.connect(log / "log.sqlite")) as connection, connection:
        connection.execute(f"UPDATE entry SET {column} = ? WHERE offset = 50", (value,))
    with LogReader(log) as held:
        assert len(list(held.read(0, 50))) == 50
        with pytest.raises(CorruptLog, match="offset 50 is damaged"):
            list(held.read(0))


def test_the_first_entry_since_a_time_is_found_while_the_log_is_truncated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogWriter(tmp_path) as writer, LogReader(tmp_path) as held:
        writer.append_many([(b"x", None)] * 100).result()
        pick = LogReader.pick

        def truncate_first(one: LogReader, offsets: list[int]) -> list[reader.Row]:
            monkeypatch.undo()
            writer.truncate(90).result()
            return pick(one, offsets)

        monkeypatch.setattr(LogReader, "pick", truncate_first)
        assert held.first_since(0) == 90
