"""One file of named arrays. It is written whole or not at all, mapped without reading it, and checked.

    0   magic "WHIMBREL"
    8   format version, uint32
    12  length of the header, uint32
    16  BLAKE2b, 16 bytes, of the 16 bytes before and of the header: the digest of the file
    32  header, JSON: per array its type, shape, offset and checksums; the caller's `meta`; padded with spaces
    ..  the arrays, little-endian, each at a multiple of 64 bytes, padded with zeros

Each array has a CRC-32 per block of 4 MiB, padding included. It detects every changed byte and every burst of up to 32
bits, and other damage with odds of 2^32 to one. zlib computes it at some GB/s without the GIL, so two threads do.
The header holds the checksums, so its digest identifies the whole content.

`write_file` returns when the content and the name are on disk. A file that has its name never changes, so any number
of processes may map it. A process that has it mapped can read it after it was deleted.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whimbrel.storage.atomic import replace_file
from whimbrel.storage.errors import SAVED_INDEX, CorruptIndex, ForeignFile, MissingIndex, NewerFormat

FORMAT_VERSION = 1

Arrays = Mapping[str, NDArray[Any]]
Meta = Mapping[str, Any]

_MAGIC = b"WHIMBREL"
_PREAMBLE = struct.Struct("<8sII16s")
_ALIGNMENT = 64
_BLOCK = 1 << 22
_THREADS = 2
_KINDS = "biuf"


@dataclass(frozen=True)
class ArrayFile:
    """The bytes of a file that is to be written, as pieces that are not copied, and their digest."""

    digest: str
    size: int
    pieces: tuple[memoryview, ...]

    @classmethod
    def of(cls, arrays: Arrays, meta: Meta) -> ArrayFile:
        """Lay out arrays and a JSON-able `meta`. The arrays must not change until the file is written."""
        pieces: list[memoryview] = []
        described: dict[str, Any] = {}
        offset = 0
        for name, array in arrays.items():
            if array.dtype.kind not in _KINDS:
                raise TypeError(f"Expected an array of numbers or booleans, but got {array.dtype} - at {name}")
            flat = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            content = flat.reshape(-1).view(np.uint8).data
            padding = memoryview(bytes(-content.nbytes % _ALIGNMENT))
            checksums = _checksums(_blocks(content))
            checksums[-1] = zlib.crc32(padding, checksums[-1])
            length = content.nbytes + padding.nbytes
            place = {"offset": offset, "length": length, "checksums": checksums}
            described[name] = {"dtype": flat.dtype.str, "shape": array.shape, **place}
            pieces += [content, padding]
            offset += length
        header = to_json({"arrays": described, "meta": meta, "size": offset})
        header += b" " * (-(_PREAMBLE.size + len(header)) % _ALIGNMENT)
        digest = _digest(FORMAT_VERSION, header)
        preamble = _PREAMBLE.pack(_MAGIC, FORMAT_VERSION, len(header), digest)
        start = memoryview(preamble + header)
        return cls(digest.hex(), start.nbytes + offset, (start, *pieces))

    def write(self, path: Path) -> None:
        """Write the file to `path` atomically; see `replace_file`."""
        replace_file(path, self.pieces)

    def is_at(self, path: Path) -> bool:
        """Whether the file at `path` has exactly these bytes. Reads the whole file."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        found = np.memmap(path, np.uint8, "r")
        start = 0
        for piece in self.pieces:
            if not np.array_equal(found[start : start + piece.nbytes], np.asarray(piece)):
                return False
            start += piece.nbytes
        return True


def write_file(path: str | Path, arrays: Arrays, meta: Meta) -> str:
    """Write arrays and a JSON-able `meta` to one file, atomically, and return its digest."""
    file = ArrayFile.of(arrays, meta)
    file.write(Path(path))
    return file.digest


def open_file(
    path: str | Path,
    verify: bool = True,
    private: bool = False,
    digest: str | None = None,
    thing: str = SAVED_INDEX,
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Map a file. Return its arrays, which are views of one mapping, and its `meta`.

    Raises a SavedIndexError, which calls the file a `thing`, if the file is not intact or has another digest than
    `digest`. The header and the length are always checked; `verify` also reads and checks every byte of the arrays.
    Leave it out only where this machine has verified the same file before. The arrays are read-only, or with `private`
    copy-on-write: changes stay in this process.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise CorruptIndex(path, "the file is empty", thing)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY if private else mmap.ACCESS_READ)
    except FileNotFoundError:
        raise MissingIndex(path, thing) from None
    except IsADirectoryError:
        raise ForeignFile(path, "a directory", thing) from None
    header, start = _read_header(path, mapped, digest, thing)
    if start + header["size"] != size:
        raise CorruptIndex(path, f"it has {size:,} bytes instead of {start + header['size']:,}", thing)
    damaged = _damaged_array(mapped, header, start) if verify else None
    if damaged is not None:
        raise CorruptIndex(path, f"the array {damaged!r} is damaged", thing)
    arrays = {name: _view(mapped, start, entry) for name, entry in header["arrays"].items()}
    return arrays, header["meta"]


def to_json(value: Any) -> bytes:
    """The canonical JSON text of a value: equal values give equal bytes."""
    return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def _read_header(path: Path, mapped: mmap.mmap, digest: str | None, thing: str) -> tuple[dict[str, Any], int]:
    """The header, and the offset at which the arrays start."""
    found = mapped[: _PREAMBLE.size]
    if found[: len(_MAGIC)] != _MAGIC[: len(found)]:
        raise ForeignFile(path, f"a file that starts with {found[: len(_MAGIC)]!r}", thing)
    if len(found) < _PREAMBLE.size:
        raise CorruptIndex(path, f"it ends after {len(found)} bytes", thing)
    _, version, length, expected = _PREAMBLE.unpack(found)
    if version > FORMAT_VERSION:
        raise NewerFormat(path, version, FORMAT_VERSION)
    text = mapped[_PREAMBLE.size : _PREAMBLE.size + length]
    if _digest(version, text) != expected or len(text) != length:
        raise CorruptIndex(path, "its header is damaged", thing)
    if digest is not None and expected.hex() != digest:
        raise CorruptIndex(path, f"its digest is {expected.hex()} instead of {digest}", thing)
    header: dict[str, Any] = json.loads(text)
    return header, _PREAMBLE.size + length


def _digest(version: int, header: bytes) -> bytes:
    return blake2b(struct.pack("<8sII", _MAGIC, version, len(header)) + header, digest_size=16).digest()


def _view(mapped: mmap.mmap, start: int, entry: dict[str, Any]) -> NDArray[Any]:
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    count = math.prod(shape)
    if count == 0:
        return np.zeros(shape, dtype)
    return np.frombuffer(mapped, dtype, count, start + entry["offset"]).reshape(shape)


def _damaged_array(mapped: mmap.mmap, header: dict[str, Any], start: int) -> str | None:
    """The name of the first array whose bytes do not have its checksums; None if all have."""
    content = memoryview(mapped)[start:]
    blocks: list[memoryview] = []
    expected: list[tuple[str, int]] = []
    for name, entry in header["arrays"].items():
        blocks += _blocks(content[entry["offset"] : entry["offset"] + entry["length"]])
        expected += [(name, checksum) for checksum in entry["checksums"]]
    for (name, checksum), found in zip(expected, _checksums(blocks), strict=True):
        if found != checksum:
            return name
    return None


def _blocks(content: memoryview) -> list[memoryview]:
    return [content[at : at + _BLOCK] for at in range(0, max(content.nbytes, 1), _BLOCK)]


def _checksums(blocks: list[memoryview]) -> list[int]:
    if sum(block.nbytes for block in blocks) < _BLOCK:  # threads would cost more than they save
        return [zlib.crc32(block) for block in blocks]
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(zlib.crc32, blocks))
