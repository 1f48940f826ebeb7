"""What a worker process keeps between tasks: opened shards and manifests.

Shards are mapped, so all workers of a host share their pages, and opening one takes about a millisecond. Checksums are
verified once on each host: a small file in the directory for temporary files records that a shard was intact, by the
place, size and time of its files.
"""

from __future__ import annotations

import gc
import os
import stat
import tempfile
from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path

from whimbrel.engine.index import Index
from whimbrel.engine.live.directory import read_manifest
from whimbrel.pipeline.index.store import IndexStore, VersionManifest
from whimbrel.storage.errors import CorruptIndex

SHARDS_KEPT = 256
"""Opened shards that a process keeps, at least; those of the version in use are always kept."""

_opened: OrderedDict[tuple[Path, frozenset[str]], tuple[bytes, Index]] = OrderedDict()


def open_version(path: Path, version: int, timestamps: Collection[str] = ()) -> tuple[VersionManifest, list[Index]]:
    """The manifest of a version and its shards, from the cache or opened."""
    manifest = read_version(path, version)
    store = IndexStore(path)
    shards = [open_shard(store, shard.name, timestamps) for shard in manifest.shards]
    while len(_opened) > max(SHARDS_KEPT, len(shards)):
        _opened.popitem(last=False)
    return manifest, shards


@lru_cache(maxsize=64)
def read_version(path: Path, version: int) -> VersionManifest:
    """The manifest of a version, which never changes."""
    return IndexStore(path).manifest(version)


def open_shard(store: IndexStore, name: str, timestamps: Collection[str] = ()) -> Index:
    """A shard of the store, from the cache or opened; a SavedIndexError if its files are not intact."""
    path = store.shard_path(name)
    key = path, frozenset(timestamps)
    state = _state(path)
    kept = _opened.get(key)
    if kept is not None and kept[0] == state:
        _opened.move_to_end(key)
        return kept[1]
    verify_shard(path, state)
    index = Index.open(path, verify=False, timestamps=timestamps)
    _opened[key] = state, index
    return index


def close_others(store: IndexStore, names: Collection[str]) -> None:
    """Forget the opened shards of a store except these: a deleted file takes disk space as long as it is mapped."""
    folder = store.path / "shards"
    for key in [key for key in _opened if key[0].parent == folder and key[0].name not in names]:
        del _opened[key]


@cache
def settle() -> None:
    """Exclude all objects that exist now from garbage collection, once in a process. Tasks call it when they end.

    Spark collects garbage after each task, before the worker gets another. To visit every object of the libraries
    takes 60 ms, more than matching a thousand events.
    """
    gc.collect()
    gc.freeze()


def verify_shard(path: Path, state: bytes | None = None) -> None:
    """Verify all checksums of a shard, unless this host did so before; a SavedIndexError if one is wrong."""
    state = _state(path) if state is None else state
    mark = None
    with suppress(OSError):
        mark = _marks() / f"{path.name}-{blake2b(state, digest_size=16).hexdigest()}"
        if mark.exists():
            return
    Index.open(path, verify=True)
    if mark is not None:
        with suppress(OSError):
            mark.touch()


def _state(path: Path) -> bytes:
    """The place, size and time of every file of a shard, which change if a file is replaced or written to."""
    parts = [str(path)]
    for entry in read_manifest(path)["files"].values():
        file = path / entry["file"]
        try:
            found = file.stat()
        except FileNotFoundError:
            raise CorruptIndex(file, "the file is missing") from None
        parts.append(f"{entry['file']} {found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns}")
    return "\n".join(parts).encode()


def _marks() -> Path:
    """The directory of the records of intact shards; OSError if others than this user can write to it."""
    folder = Path(tempfile.gettempdir()) / f"whimbrel-verified-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
        raise PermissionError(f"{folder} is not a directory of this user alone")
    return folder
