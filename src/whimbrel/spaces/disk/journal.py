"""The journal of subject spaces: every call is on disk before it returns.

A directory holds one snapshot and the calls after it:

    LOCK                                held by the one process that has the spaces open
    snapshot-<sequence>.whimbrel        the state after call <sequence>, an array file
    journal-<sequence>.log              the calls after it: magic, then records

A record is the length and the CRC-32 of its payload, then the payload: sequence number and call in MessagePack. A kill
leaves at most the last record torn; the next open cuts it off, and that call never returned. Damage elsewhere is
refused. When the journal is larger than the snapshot, a new snapshot and an empty journal replace both: first the
snapshot gets its name, then the old files are deleted, so at every moment the directory has one meaning.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from whimbrel.model.values import Timestamp, to_value
from whimbrel.spaces.dimensions.errors import JournalError
from whimbrel.spaces.dimensions.interval import Interval
from whimbrel.spaces.dimensions.space_definitions import Columns
from whimbrel.storage.array_file import Arrays, open_file, write_file
from whimbrel.storage.atomic import make_directory, sync
from whimbrel.storage.errors import Locked
from whimbrel.storage.lock import OwnerLock

SMALLEST = 16 << 20
"""A journal of at most this many bytes is never replaced by a snapshot."""

_MAGIC = b"WHIMSPC1"
_HEAD = struct.Struct("<II")
_CALL = b"\x94"
"""How MessagePack begins a call: a list of four."""
_INTERVAL, _TIME, _COLUMNS, _REGION = "interval", "time", "columns", "region"
_NAME = re.compile(r"(snapshot|journal)-(\d{20})\.(whimbrel|log)")


class Journal:
    """The files of one directory. One process may have it open, and one thread may use it at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        make_directory(directory)
        try:
            self._lock = OwnerLock(directory / "LOCK")
        except Locked:
            raise JournalError(directory, "it is open in another process or object") from None
        try:
            self.base = max((sequence for kind, sequence, _ in self._ours() if kind == "snapshot"), default=0)
            newest = max((sequence for kind, sequence, _ in self._ours() if kind == "journal"), default=0)
            if newest > self.base:
                raise JournalError(self._path("snapshot", newest), "the snapshot before the journal is missing")
            self._file = self._open_log()
        except BaseException:
            self._lock.release()
            raise
        self._sweep()

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The arrays and the description of the snapshot; None if there is none yet."""
        path = self._path("snapshot", self.base)
        return open_file(path, thing="snapshot of spaces") if path.exists() else None

    def calls(self) -> Iterator[list[Any]]:
        """The calls after the snapshot, each with its sequence number first. Cuts off a torn record at the end."""
        path = self._path("journal", self.base)
        content = path.read_bytes()
        at = len(_MAGIC)
        sequence = self.base
        while at < len(content):
            sequence += 1
            payload = _record(content, at)
            if payload is None:
                if not _is_torn(content, at, sequence):
                    raise JournalError(path, f"the record at byte {at:,} is damaged")
                os.ftruncate(self._file, at)
                os.fsync(self._file)
                break
            yield msgspec.msgpack.decode(payload)
            at += _HEAD.size + len(payload)
        self.size = at

    def append(self, call: list[Any]) -> None:
        """Write a call to disk; on an error the journal is as it was before."""
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
        """Write a new snapshot and start an empty journal."""
        if sequence == self.base and self._path("snapshot", sequence).exists():
            return
        write_file(self._path("snapshot", sequence), arrays, description)
        os.close(self._file)
        self.base = sequence
        try:
            self._file = self._open_log()
        except BaseException:  # the old journal counts no longer, and there is no new one: nothing can be written
            self._lock.release()
            raise
        self._sweep()

    def close(self) -> None:
        """Release the directory."""
        if self._lock.is_held:
            os.close(self._file)
            self._lock.release()

    def _path(self, kind: str, sequence: int) -> Path:
        return self.directory / f"{kind}-{sequence:020}.{'log' if kind == 'journal' else 'whimbrel'}"

    def _ours(self) -> list[tuple[str, int, Path]]:
        """The kind, sequence number and path of each snapshot and journal in the directory."""
        found = [(_NAME.fullmatch(path.name), path) for path in self.directory.iterdir()]
        return [(name[1], int(name[2]), path) for name, path in found if name]

    def _open_log(self) -> int:
        path = self._path("journal", self.base)
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)
        try:
            start = os.pread(file, len(_MAGIC), 0)
            if start != _MAGIC:
                written = os.pread(file, os.fstat(file).st_size, 0).rstrip(b"\0")
                if not _MAGIC.startswith(written):  # else a crash tore the file as it was made: no call is in it
                    raise JournalError(path, f"the file starts with {start!r}")
                os.ftruncate(file, 0)
                os.write(file, _MAGIC)
                os.fsync(file)
                sync(self.directory)
            self.size = os.fstat(file).st_size
        except BaseException:
            os.close(file)
            raise
        return file

    def _sweep(self) -> None:
        """Delete the files that the newest snapshot has replaced."""
        for _, sequence, path in self._ours():
            if sequence < self.base:
                path.unlink()


def _record(content: bytes, at: int) -> bytes | None:
    """The payload of the record at a place; None if it is damaged or incomplete."""
    if at + _HEAD.size > len(content):
        return None
    length, checksum = _HEAD.unpack_from(content, at)
    payload = content[at + _HEAD.size : at + _HEAD.size + length]
    if length == 0 or len(payload) < length or zlib.crc32(payload) != checksum:
        return None
    return payload


def _is_torn(content: bytes, at: int, sequence: int) -> bool:
    """Whether a damaged record is the last one: it reaches the end of the file without the next, or all is zeros."""
    if at + _HEAD.size > len(content):
        return True
    length, _ = _HEAD.unpack_from(content, at)
    if at + _HEAD.size + length < len(content):
        return not any(content[at:])
    start = _CALL + msgspec.msgpack.encode(sequence + 1)  # where its length is damaged, the next call shows it
    following = content.find(start, at + 2 * _HEAD.size)
    while following >= 0 and _record(content, following - _HEAD.size) is None:
        following = content.find(start, following + 1)
    return following < 0


def to_plain(item: object) -> object:
    """An argument of a call as plain data for MessagePack: a constraint, region, list of regions, or batch."""
    if item is None or type(item) in (str, float, bool) or (type(item) is int and abs(item) < 1 << 63):
        return item
    if isinstance(item, float):  # of NumPy, also an infinity, which is no value
        return float(item)
    if isinstance(item, Interval):
        return {_INTERVAL: [to_plain(item.low), to_plain(item.high), item.ends]}
    if isinstance(item, Columns):
        parts = {name: each if isinstance(each, tuple) else (each,) for name, each in item.values.items()}
        columns = [[to_plain(name), [_column(values) for values in part]] for name, part in parts.items()]
        return {_COLUMNS: [[to_plain(key) for key in item.keys], columns]}
    if isinstance(item, Mapping):
        return {_REGION: [[to_plain(name), to_plain(each)] for name, each in item.items()]}
    if isinstance(item, Sequence) and not isinstance(item, str):
        return [to_plain(each) for each in item]
    value = to_value(item)
    return {_TIME: str(value)} if isinstance(value, Timestamp) else value


def from_plain(item: Any) -> Any:
    """The argument that `to_plain` was given, or one that means the same."""
    if isinstance(item, list):
        return [from_plain(each) for each in item]
    if not isinstance(item, dict):
        return item
    ((kind, content),) = item.items()
    if kind == _INTERVAL:
        return Interval(from_plain(content[0]), from_plain(content[1]), content[2])
    if kind == _TIME:
        return Timestamp.parse(content)
    if kind == _COLUMNS:
        keys, columns = content
        read = {name: tuple(np.frombuffer(raw, dtype) for dtype, raw in parts) for name, parts in columns}
        return Columns(keys, {name: parts if len(parts) == 2 else parts[0] for name, parts in read.items()})
    return {name: from_plain(each) for name, each in content}


def _column(values: Any) -> list[object]:
    array = np.ascontiguousarray(values)
    return [array.dtype.str, array.tobytes()]
