"""Writers of pairs of event and subscription: JSON lines, a table for people, or Parquet."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer

from whimbrel.cli.terminal.console import plain, to_json
from whimbrel.storage.atomic import named_errors, staged_file

if TYPE_CHECKING:
    import pyarrow as pa


_ROW_GROUP = 16 << 20  # bytes of pairs that become a row group of Parquet, at least


class PairFormat(StrEnum):
    """The formats of pairs."""

    JSONL = "jsonl"
    TABLE = "table"
    PARQUET = "parquet"


class PairWriter(ABC):
    """Writes tables of `event` and `subscription`, one after the other."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream

    @abstractmethod
    def write(self, pairs: pa.Table) -> None:
        """Write the pairs and flush them."""

    def close(self) -> None:  # noqa: B027 - text needs no end
        """Write the end of the file, where the format has one."""


class _JsonLines(PairWriter):
    def write(self, pairs: pa.Table) -> None:
        rows = pairs["event"].to_pylist()
        ids = _texts(pairs["subscription"], to_json)
        lines = [f'{{"event": {row}, "subscription": {id}}}\n' for row, id in zip(rows, ids, strict=True)]
        self.stream.write("".join(lines).encode())
        self.stream.flush()


class _Table(PairWriter):
    """Two columns; the first has a fixed width, so that lines can be written as they come."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream)
        stream.write(b"     event  subscription\n")

    def write(self, pairs: pa.Table) -> None:
        rows = pairs["event"].to_pylist()
        ids = _texts(pairs["subscription"], lambda id: plain(str(id)).replace("\n", "\\n"))
        self.stream.write("".join(f"{row:>10}  {id}\n" for row, id in zip(rows, ids, strict=True)).encode())
        self.stream.flush()


class _Parquet(PairWriter):
    """Gathers pairs to row groups, so that readers find few large ones. Numbers are stored as differences.

    A thread writes a group while the next one gathers; what fails there is raised by the next `write`, or by `close`.
    """

    def __init__(self, stream: IO[bytes], kind: str) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        super().__init__(stream)
        self.schema = pa.schema({"event": pa.int64(), "subscription": pa.int64() if kind == "int64" else pa.string()})
        texts = [name for name, type in zip(self.schema.names, self.schema.types, strict=True) if type == pa.string()]
        differences = {name: "DELTA_BINARY_PACKED" for name in self.schema.names if name not in texts}
        self.file = parquet.ParquetWriter(stream, self.schema, use_dictionary=texts, column_encoding=differences)
        self.gathered: list[pa.Table] = []
        self.size = 0
        self._thread = ThreadPoolExecutor(1, "whimbrel-parquet")
        self._writing: Future[None] | None = None

    def write(self, pairs: pa.Table) -> None:
        self.gathered.append(pairs.cast(self.schema))
        self.size += self.gathered[-1].nbytes
        if self.size >= _ROW_GROUP:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        self._wait()
        if self.size:
            group = pa.concat_tables(self.gathered)
            self._writing = self._thread.submit(self.file.write_table, group, row_group_size=_ROW_GROUP)
        self.gathered.clear()
        self.size = 0

    def _wait(self) -> None:
        """Wait until the last group is written; raise what failed."""
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        self._write_group()
        self._wait()
        self.file.close()


def _texts(ids: pa.ChunkedArray, text: object) -> list[str]:
    """Each id as text; each different id of a dictionary is converted once."""
    assert callable(text)
    out: list[str] = []
    for chunk in ids.chunks:
        if hasattr(chunk, "dictionary"):
            names = [text(id) for id in chunk.dictionary.to_pylist()]
            out += [names[index] for index in chunk.indices.to_pylist()]
        else:
            out += map(text, chunk.to_pylist())
    return out


@contextmanager
def open_writer(output: Path | None, format: PairFormat | None, kind: str) -> Iterator[PairWriter]:
    """A writer to a file or standard output; `kind` is the kind of the ids: int64 or string.

    A file gets its name only when it is complete, so that nobody reads half of it.
    """
    chosen = format or _default_format(output)
    if output is None or str(output) == "-":
        if chosen is PairFormat.PARQUET and sys.stdout.isatty():
            raise typer.BadParameter("Expected --output FILE: a terminal cannot show Parquet", param_hint="--format")
        with named_errors("standard output"):
            writer = _make(chosen, sys.stdout.buffer, kind)
            yield writer
            writer.close()
            sys.stdout.buffer.flush()
        return
    with _replacing(output) as stream:
        writer = _make(chosen, stream, kind)
        yield writer
        writer.close()


def _default_format(output: Path | None) -> PairFormat:
    if output is not None and output.suffix.lower() == ".parquet":
        return PairFormat.PARQUET
    to_terminal = sys.stdout.isatty() and (output is None or str(output) == "-")
    return PairFormat.TABLE if to_terminal else PairFormat.JSONL


def _make(format: PairFormat, stream: IO[bytes], kind: str) -> PairWriter:
    if format is PairFormat.PARQUET:
        return _Parquet(stream, kind)
    return _Table(stream) if format is PairFormat.TABLE else _JsonLines(stream)


@contextmanager
def _replacing(output: Path) -> Iterator[IO[bytes]]:
    """A file that is written beside its place and then moved there; a device or a pipe is written directly."""
    target = Path(os.path.realpath(output))
    moves = target.is_file() or not target.exists()
    with staged_file(target, durable=False) if moves else nullcontext(target) as place:
        try:
            stream = place.open("wb")
        except OSError as error:
            problem = f"Expected a file to write, but got {plain(str(output))!r}: {error.strerror}"
            raise typer.BadParameter(problem, param_hint="--output") from None
        with named_errors(output), stream:
            yield stream
