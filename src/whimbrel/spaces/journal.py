"""The journal of subject spaces: every call is on disk before it returns.

A directory holds one snapshot and the calls after it:

    LOCK                                held by the one process that has the spaces open
    snapshot-<sequence>.whimbrel        the state after call <sequence>, an array file
    journal-<sequence>.log              the calls after it: magic, then records

A record is the length and the CRC-32 of its payload, then the payload: sequence number and call in MessagePack. A kill
leaves at most the last record torn; it is cut off at the next open, and that call never returned. Damage elsewhere is
refused. When the journal has outgrown the snapshot, a new snapshot and an empty journal replace both: first the
snapshot gets its name, then the old files go, so that at every moment there is one way to read the directory.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from whimbrel.spaces.errors import JournalError
from whimbrel.storage.array_file import open_file, write_file
from whimbrel.storage.atomic import sync
from whimbrel.storage.errors import Locked
from whimbrel.storage.lock import OwnerLock

SMALLEST = 16 << 20
"""Bytes of a journal that are never worth a snapshot."""

_MAGIC = b"WHIMSPC1"
_HEAD = struct.Struct("<II")
_NAME = re.compile(r"(snapshot|journal)-(\d{20})\.(whimbrel|log)")

Arrays = Mapping[str, np.ndarray]


class Journal:
    """The files of one directory. One process at a time, one call at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = OwnerLock(directory / "LOCK")
        except Locked:
            raise JournalError(directory, "it is open in another process or object") from None
        try:
            self.base = self._newest_snapshot()
            self._file = self._open_log()
        except BaseException:
            self._lock.release()
            raise
        self._sweep()

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The arrays and the description of the snapshot; None before the first."""
        path = self._path("snapshot", self.base)
        return open_file(path, thing="snapshot of spaces") if path.exists() else None

    def calls(self) -> Iterator[list[Any]]:
        """The calls after the snapshot, each with its sequence number first; cuts a torn one off."""
        path = self._path("journal", self.base)
        content = path.read_bytes()
        at = len(_MAGIC)
        while at < len(content):
            payload = _record(content, at)
            if payload is None:
                if not _is_torn(content, at):
                    raise JournalError(path, f"the record at byte {at:,} is damaged")
                os.ftruncate(self._file, at)
                os.fsync(self._file)
                break
            yield msgspec.msgpack.decode(payload)
            at += _HEAD.size + len(payload)
        self.size = at

    def append(self, call: list[Any]) -> None:
        """Put a call on disk; on an error the journal is as it was."""
        if not self._lock.is_held:
            raise JournalError(self.directory, "it is closed")
        payload = msgspec.msgpack.encode(call)
        record = _HEAD.pack(len(payload), zlib.crc32(payload)) + payload
        try:
            written = 0
            while written < len(record):
                written += os.write(self._file, memoryview(record)[written:])
            os.fdatasync(self._file)
        except BaseException:
            os.ftruncate(self._file, self.size)
            raise
        self.size += len(record)

    @property
    def is_long(self) -> bool:
        """Whether a snapshot would be smaller than what it replaces."""
        path = self._path("snapshot", self.base)
        return self.size > max(SMALLEST, path.stat().st_size if path.exists() else 0)

    def replace(self, sequence: int, arrays: Arrays, description: Mapping[str, Any]) -> None:
        """Make this the snapshot, and begin an empty journal."""
        if sequence == self.base and self._path("snapshot", sequence).exists():
            return
        write_file(self._path("snapshot", sequence), arrays, description)
        os.close(self._file)
        self.base = sequence
        self._file = self._open_log()
        self._sweep()

    def close(self) -> None:
        """Let others open the directory."""
        if self._lock.is_held:
            os.close(self._file)
            self._lock.release()

    def _path(self, kind: str, sequence: int) -> Path:
        return self.directory / f"{kind}-{sequence:020}.{'log' if kind == 'journal' else 'whimbrel'}"

    def _ours(self) -> list[tuple[str, int, Path]]:
        found = [(_NAME.fullmatch(path.name), path) for path in self.directory.iterdir()]
        return [(name[1], int(name[2]), path) for name, path in found if name]

    def _newest_snapshot(self) -> int:
        return max((sequence for kind, sequence, _ in self._ours() if kind == "snapshot"), default=0)

    def _open_log(self) -> int:
        path = self._path("journal", self.base)
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)
        start = os.pread(file, len(_MAGIC), 0)
        if start != _MAGIC:
            if not _MAGIC.startswith(start):
                os.close(file)
                raise JournalError(path, f"the file starts with {start!r}")
            os.ftruncate(file, 0)
            os.write(file, _MAGIC)
            os.fsync(file)
            sync(self.directory)
        self.size = os.fstat(file).st_size
        return file

    def _sweep(self) -> None:
        """Delete what the newest snapshot has replaced."""
        for _, sequence, path in self._ours():
            if sequence < self.base:
                path.unlink()


def _record(content: bytes, at: int) -> bytes | None:
    """The payload of the record at a place, if it is whole."""
    if at + _HEAD.size > len(content):
        return None
    length, checksum = _HEAD.unpack_from(content, at)
    payload = content[at + _HEAD.size : at + _HEAD.size + length]
    if length == 0 or len(payload) < length or zlib.crc32(payload) != checksum:
        return None
    return payload


def _is_torn(content: bytes, at: int) -> bool:
    """Whether a broken record is the last: it reaches the end of the file, or nothing but zeros follows."""
    if at + _HEAD.size > len(content):
        return True
    length, _ = _HEAD.unpack_from(content, at)
    return at + _HEAD.size + length >= len(content) or not any(content[at:])
