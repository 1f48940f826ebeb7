"""Open an input file, compressed or not, and recognise its format; refuse it with the reason if that is impossible."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from io import BufferedReader
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from whimbrel.readers import errors
from whimbrel.readers.errors import InputError, InputPlace

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}
"""The compressions that are read, by the first bytes of a file."""
_ARCHIVES = {b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}
_SUFFIXES_OF_CODECS = {".gz", ".zst", ".bz2", ".lz4"}
_PARQUET = b"PAR1"
_BUFFER = 1 << 20  # bytes that are unpacked at once
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
    """An open file with its name for messages, its format, and its size if that is known.

    `stream` gives the content of a compressed file, and `packed` the file itself.
    """

    name: str
    stream: BufferedReader
    format: Format
    size: int | None
    packed: BufferedReader

    def mapped(self) -> mmap | None:
        """The content as a memory map; None for what cannot be mapped, such as a pipe."""
        if self.size and self.stream is self.packed:
            with suppress(OSError, ValueError):
                return mmap(self.stream.fileno(), 0, access=ACCESS_READ)
        return None

    def share(self, done: int = 0) -> float:
        """The part of the file that has been read, at least `done` bytes of it; 0 if its size is not known."""
        return min(1.0, max(done, self.packed.tell()) / self.size) if self.size else 0.0

    def seekable(self) -> IO[bytes]:
        """The stream, or for a pipe a copy in memory or in a temporary file, which can be read twice. Close it."""
        if self.stream.seekable():
            return self.stream
        copy = tempfile.SpooledTemporaryFile(max_size=_SPOOLED)  # noqa: SIM115 - the caller closes it
        shutil.copyfileobj(self.stream, copy)
        copy.seek(0)
        return cast("IO[bytes]", copy)


class _Unpacked(io.RawIOBase):
    """The content of a compressed stream, as a stream. Memory stays bounded however much it unpacks to."""

    def __init__(self, packed: BufferedReader, codec: str, name: str) -> None:
        import pyarrow as pa

        self._packed, self._codec, self._name = packed, codec, name
        self._stream = pa.CompressedInputStream(packed, codec)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        try:
            content = self._stream.read(len(view))
        except OSError as error:
            problem = f"Expected a whole file compressed with {self._codec}, but got: {_reason(error)}"
            raise errors.FileTruncated(InputPlace(self._name), problem) from None
        view[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._packed.close()
        super().close()


def open_source(name: str, fallback: Format | None = None) -> InputFile:
    """Open a file, or standard input for `-`. `fallback` is the format of a file whose name does not tell it."""
    packed, size = (cast("BufferedReader", sys.stdin.buffer), None) if name == "-" else _open_file(name)
    shown = "<stdin>" if name == "-" else name
    path = Path(name)
    try:
        stream = packed
        codec = next((codec for magic, codec in _CODECS.items() if packed.peek(4).startswith(magic)), None)
        if codec is not None:
            stream = BufferedReader(_Unpacked(packed, codec, shown), _BUFFER)
            path = path.with_suffix("") if path.suffix.lower() in _SUFFIXES_OF_CODECS else path
        format = _recognise(stream.peek(4), shown, path.suffix.lower(), fallback)
        return InputFile(shown, stream, format, size, packed)
    except OSError as error:
        packed.close()
        raise errors.FileUnreadable(InputPlace(shown), f"Expected a file to read, but got: {_reason(error)}") from None
    except InputError:
        packed.close()
        raise


def _recognise(head: bytes, name: str, suffix: str, fallback: Format | None) -> Format:
    """The format of a file that begins with these bytes."""
    if not head:
        raise errors.FileEmpty(InputPlace(name), "Expected some content, but the file is empty")
    if head.startswith(_PARQUET):
        return Format.PARQUET
    for magic, tool in _ARCHIVES.items():
        if head.startswith(magic):
            problem = f"Expected a plain file or one of {', '.join(_CODECS.values())}, but got one of {tool}"
            raise errors.WrongFormat(InputPlace(name), problem)
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
