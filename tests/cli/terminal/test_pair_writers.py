"""Writers of pairs: what is written in a thread comes in order, and what fails there is told."""

from __future__ import annotations

import errno
import os
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.cli.program import Program
from whimbrel.cli.terminal import pair_writers
from whimbrel.cli.terminal.pair_writers import PairFormat, open_writer


def blocks(count: int) -> list[pa.Table]:
    return [pa.table({"event": [n] * 200, "subscription": list(range(200))}) for n in range(count)]


def test_row_groups_that_a_thread_writes_are_whole_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_writers, "_ROW_GROUP", 10_000)
    file, pairs = tmp_path / "pairs.parquet", blocks(100)
    with open_writer(file, None, "int64") as writer:
        for block in pairs:
            writer.write(block)
    assert parquet.read_table(file).equals(pa.concat_tables(pairs).combine_chunks())
    assert parquet.ParquetFile(file).num_row_groups > 10 and list(tmp_path.iterdir()) == [file]


class Full(BytesIO):
    """A disk that is full after some bytes."""

    def write(self, content: object) -> int:
        if self.tell() > 5_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(content)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [3, 100])
def test_what_fails_in_the_thread_is_raised_by_the_next_call(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_writers, "_ROW_GROUP", 1 << 13)
    writer = pair_writers._make(PairFormat.PARQUET, Full(), "int64")

    def write_all() -> None:
        for block in blocks(count):
            writer.write(block)
        writer.stream.seek(5_001)
        writer.close()

    with pytest.raises(OSError, match="No space left"):
        write_all()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_ends_the_program_with_its_name(program: Program) -> None:
    program.write("e.jsonl", '{"price": 100}\n' * 10)
    arguments = ("match", "-s", "subs.jsonl", "e.jsonl", "--format", "parquet", "--output", "/dev/full")
    assert "/dev/full" in program(*arguments, status=1).stderr
