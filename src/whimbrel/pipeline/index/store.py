"""The index store: immutable shards named by their content, and numbered versions, each a list of shards.

    <path>/versions/0000000001.json    one per version, never changed
    <path>/shards/<content hash>/      a saved `Index`: the subscriptions of one bucket
    <path>/rejects/<name>.parquet      subscriptions that were rejected when a version was compiled
    <path>/lock                        held by the job that changes the store

Subscriptions are spread over buckets by a hash of their id; the number of buckets is fixed by the first version. To
publish a version, its file is created whole under a name that must be free, after all shards are on disk: readers see
all of it or nothing. One job at a time changes the store; readers need no lock.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Collection
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

import msgspec
import pyarrow as pa

from whimbrel.engine.live.directory import read_manifest
from whimbrel.pipeline.connectors.files import is_remote, local
from whimbrel.pipeline.errors import BadManifest, MissingVersion, RemotePath, VersionTaken, check_type
from whimbrel.storage.atomic import create_file, make_directory, place_directory, sync
from whimbrel.storage.lock import locked

FORMAT = "whimbrel index version"
FORMAT_VERSION = 1

ID_TYPES = {"int64": (pa.int64(), "bigint"), "string": (pa.string(), "string")}
"""By the kind of ids, their types in Arrow and in Spark SQL."""
_VERSION_FILE = re.compile(r"(\d{10})\.json")


class Shard(msgspec.Struct, frozen=True):
    """The compiled subscriptions of one bucket: the `name` is that of its directory."""

    bucket: int
    name: str
    count: int
    bytes: int


class VersionManifest(msgspec.Struct, frozen=True, kw_only=True):
    """One version: its shards in order of buckets, what they hold together, and what the compile counted."""

    version: int
    parent: int | None
    created: str = ""
    """When it was published."""
    kind: str
    """The type of the ids: int64 or string."""
    buckets: int
    shards: tuple[Shard, ...]
    attributes: tuple[str, ...]
    """The attributes that some filter mentions."""
    count: int
    bytes: int
    added: int = 0
    removed: int = 0
    replaced: int = 0
    rejected: int = 0
    rejects: tuple[str, ...] = ()
    """The files of rejected subscriptions, below `rejects`."""
    statistics: tuple[dict[str, object], ...] = ()
    """Statistics of the sample of events, if there was one: an entry for each attribute."""


class _File(msgspec.Struct):
    format: str
    version: int
    checksum: str
    manifest: msgspec.Raw


class IndexStore:
    """The versions of an index in one directory."""

    def __init__(self, path: str | os.PathLike[str], option: str = "path") -> None:
        """`option` is the caller's name for the path, for errors."""
        self.path = local_path(path, option)

    def versions(self) -> list[int]:
        """The numbers of all versions, ascending."""
        folder = self.path / "versions"
        if not folder.is_dir():
            return []
        found = (_VERSION_FILE.fullmatch(name) for name in os.listdir(folder))
        return sorted(int(match[1]) for match in found if match)

    def newest(self) -> int:
        """The number of the newest version; MissingVersion if there is none."""
        versions = self.versions()
        if not versions:
            raise MissingVersion(self.path, None, ())
        return versions[-1]

    def manifest(self, version: int | None = None) -> VersionManifest:
        """The manifest of a version, by default the newest one."""
        number = self.newest() if version is None else version
        path = self.version_path(number)
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            raise MissingVersion(self.path, number, self.versions()) from None
        manifest = _read(path, text)
        if manifest.version != number:
            raise BadManifest(path, f"it describes version {manifest.version}")
        return manifest

    def version_path(self, version: int) -> Path:
        """The file that describes a version."""
        return self.path / "versions" / f"{version:010}.json"

    def shard_path(self, name: str) -> Path:
        """The directory of a shard."""
        return self.path / "shards" / name

    def rejects_path(self, name: str) -> Path:
        """A file of rejected subscriptions."""
        return self.path / "rejects" / name

    def publish(self, manifest: VersionManifest) -> int:
        """Make a version visible and return its number; VersionTaken if another one has it. On return it is on disk."""
        manifest = msgspec.structs.replace(manifest, created=datetime.now(UTC).isoformat(timespec="seconds"))
        make_directory(self.path / "versions")
        text = msgspec.json.encode(manifest)
        file = _File(FORMAT, FORMAT_VERSION, _checksum(text), msgspec.Raw(text))
        if not create_file(self.version_path(manifest.version), msgspec.json.encode(file)):
            raise VersionTaken(self.path, manifest.version)
        return manifest.version

    def scratch(self) -> Path:
        """A new directory in which a shard can be made."""
        path = self.path / "shards" / f".{secrets.token_hex(8)}.tmp"
        make_directory(path)
        return path

    def adopt(self, folder: Path) -> tuple[str, int]:
        """Name a saved index in a scratch directory by its content; return the name and the size in bytes."""
        files = read_manifest(folder)["files"]
        content = "".join(f"{name} {entry['digest']}\n" for name, entry in sorted(files.items()))
        name = blake2b(content.encode(), digest_size=16).hexdigest()
        place_directory(folder, self.shard_path(name))  # not where the same content is there already
        return name, sum(entry["size"] for entry in files.values())

    def lock(self) -> AbstractContextManager[None]:
        """Wait until no other job changes the store; nobody else does while this is held."""
        make_directory(self.path)
        return locked(self.path / "lock")

    def collect(self, keep: Collection[int]) -> list[int]:
        """Delete all versions except those to `keep` and the newest, with shards that are theirs alone.

        Return the deleted versions. The caller holds the lock, so that no shard is deleted while it is compiled.
        Workers that have a shard mapped go on reading it.
        """
        versions = self.versions()
        gone = [version for version in versions[:-1] if version not in keep]
        for version in gone:
            self.version_path(version).unlink()
        if versions:
            sync(self.path / "versions")
        kept = [self.manifest(version) for version in versions if version not in gone]
        _sweep(self.path / "shards", {shard.name for manifest in kept for shard in manifest.shards})
        _sweep(self.path / "rejects", {name for manifest in kept for name in manifest.rejects})
        return gone


def local_path(path: str | os.PathLike[str], option: str = "path") -> Path:
    """The path of a store, which may be a file: URI; RemotePath for other file systems."""
    check_type(option, path, (str, os.PathLike), "the path of a directory")
    text = os.fspath(path)
    if is_remote(text):
        raise RemotePath(text)
    return local(text).absolute()


def _read(path: Path, text: bytes) -> VersionManifest:
    try:
        file = msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadManifest(path, f"it is not one: {error}") from None
    if file.format != FORMAT:
        raise BadManifest(path, f"it is of something else, {file.format!r}")
    if file.version > FORMAT_VERSION:
        raise BadManifest(path, f"its format {file.version} is newer than {FORMAT_VERSION}")
    if _checksum(bytes(file.manifest)) != file.checksum:
        raise BadManifest(path, "its checksum is wrong")
    return msgspec.json.decode(file.manifest, type=VersionManifest)


def _checksum(text: bytes) -> str:
    return blake2b(text, digest_size=16).hexdigest()


def _sweep(folder: Path, named: set[str]) -> None:
    """Delete everything in a folder of the store that is not named."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name not in named:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
