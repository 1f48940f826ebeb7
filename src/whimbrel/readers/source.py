"""Open an input file and recognise its format; refuse it with the reason if that is impossible."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from io import BufferedReader
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, cast

from whimbrel.readers import errors
from whimbrel.readers.errors import InputError, InputPlace

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
}
_PARQUET = b"PAR1"
_SPOOLED = 64 << 20  # bytes of a pipe that are kept in memory


class Format(StrEnum):
    """The formats of input files."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


_SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}


@dataclass(frozen=True, slots=True)
class InputFile:
    """An open file with its name for messages, its format, and its size if that is known."""

    name: str
    stream: BufferedReader
    format: Format
    size: int | None

    def mapped(self) -> mmap | None:
        """The content as a memory map; None for what cannot be mapped, such as a pipe."""
        if self.size and self.stream.seekable():
            with suppress(OSError, ValueError):
                return mmap(self.stream.fileno(), 0, access=ACCESS_READ)
        return None

    def share(self, done: int = 0) -> float:
        """The part of the file that has been read, at least `done` bytes of it; 0 if its size is not known."""
        return min(1.0, max(done, self.stream.tell()) / self.size) if self.size else 0.0

    def seekable(self) -> IO[bytes]:
        """The stream, or for a pipe a copy in memory or in a temporary file, which can be read twice."""
        if self.stream.seekable():
            return self.stream
        copy = tempfile.SpooledTemporaryFile(max_size=_SPOOLED)  # noqa: SIM115 - closed when it is collected
        shutil.copyfileobj(self.stream, copy)
        copy.seek(0)
        return cast("IO[bytes]", copy)


def open_source(name: str, fallback: Format | None = None) -> InputFile:
    """Open a file, or standard input for `-`. `fallback` is the format of a file whose name does not tell it."""
    stream, size = (cast("BufferedReader", sys.stdin.buffer), None) if name == "-" else _open_file(name)
    shown = "<stdin>" if name == "-" else name
    try:
        head = stream.peek(4)
        return InputFile(shown, stream, _recognise(head, shown, Path(name).suffix.lower(), fallback), size)
    except OSError as error:
        stream.close()
        raise errors.FileUnreadable(InputPlace(shown), f"Expected a file to read, but got: {_reason(error)}") from None
    except InputError:
        stream.close()
        raise


def _recognise(head: bytes, name: str, suffix: str, fallback: Format | None) -> Format:
    """The format of a file that begins with these bytes."""
    if not head:
        raise errors.FileEmpty(InputPlace(name), "Expected some content, but the file is empty")
    if head.startswith(_PARQUET):
        return Format.PARQUET
    for magic, tool in _COMPRESSED.items():
        if head.startswith(magic):
            raise errors.WrongFormat(
                InputPlace(name), f"Expected an uncompressed file, but got one compressed with {tool}"
            )
    format = _SUFFIXES.get(suffix) or fallback or Format.JSONL
    if format is Format.PARQUET:
        raise errors.WrongFormat(InputPlace(name), "Expected a Parquet file, but it does not start with PAR1")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head[:4]:
        raise errors.WrongEncoding(InputPlace(name, 1, 1), "Expected text in UTF-8, but it looks like UTF-16 or UTF-32")
    return format


def _open_file(name: str) -> tuple[BufferedReader, int | None]:
    place = InputPlace(name)
    path = Path(name)
    try:
        if path.is_dir():
            raise errors.FileUnreadable(place, "Expected a file, but got a folder")
        stream = path.open("rb")
        return stream, path.stat().st_size if stream.seekable() else None
    except FileNotFoundError:
        raise errors.FileMissing(place, "Expected a file, but there is none of that name") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise errors.FileUnreadable(place, f"Expected a file to read, but got: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
