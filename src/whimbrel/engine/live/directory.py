"""A saved index: one directory with array files and a MANIFEST that names the valid ones.

A save writes new files beside the old ones, then replaces the MANIFEST by one rename, then deletes files that the new
one does not name. Every step is on disk before the next begins, so a kill or a power cut at any moment leaves the old
index or the new one. The MANIFEST does not name files of a crashed save, so nobody reads them, and the next save
deletes them. A file's name has the digest of its content, and a part that has not changed keeps its file.

One save runs at a time: a lock on the directory makes others wait. Readers need no lock: if a save deletes a file that
an open is about to read, the open starts again with the new MANIFEST. Mapped files stay readable after their deletion.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from whimbrel.storage.array_file import ArrayFile, Arrays, Meta, open_file, to_json
from whimbrel.storage.atomic import make_directory, replace_file, sync
from whimbrel.storage.errors import CorruptIndex, ForeignFile, MissingIndex, NewerFormat, OlderFormat, SavedIndexError
from whimbrel.storage.lock import locked

MANIFEST = "MANIFEST"
MANIFEST_VERSION, OLDEST_VERSION = 7, 6
"""The version that is written, and the oldest that is read."""

Manifest = dict[str, Any]
Opened = dict[str, tuple[Arrays, Meta]]

_FORMAT = "whimbrel index"
_START = b'{\n "checksum"'  # the first bytes of every MANIFEST of ours, even if the rest is damaged
_NAME = re.compile(r"[a-z0-9_]+")
_FILE = r"[a-z0-9_]+-[0-9a-f]{32}(-[0-9]+)?\.whimbrel"
_OURS = re.compile(rf"{_FILE}|\.({_FILE}|MANIFEST)\.[0-9a-f]{{8}}\.tmp")


def save_directory(
    directory: str | Path, files: Mapping[str, tuple[Arrays, Meta]], extra: Meta | None = None
) -> Manifest:
    """Make `files`, by name, the index in `directory`; `extra` is the caller's part of the MANIFEST.

    On return the index is on disk; on an error the old one is as it was. A directory whose MANIFEST is of another
    program or of a newer Whimbrel is refused; one that is damaged or older is overwritten.
    """
    directory = _named(directory)
    make_directory(directory)
    with locked(directory):
        with suppress(CorruptIndex, MissingIndex, OlderFormat):
            _sweep(directory, read_manifest(directory))
        entries = {name: _put(directory, name, ArrayFile.of(*parts)) for name, parts in files.items()}
        manifest = write_manifest(directory, {"files": entries, "extra": dict(extra or {})})
        _sweep(directory, manifest)
    return manifest


def open_directory(
    directory: str | Path, verify: bool | Collection[str] = True, private: Collection[str] = ()
) -> tuple[Opened, Manifest]:
    """The files of the index in `directory`, by name, mapped, and its MANIFEST.

    `verify` checks every byte of all files, of some by name, or of none; headers, lengths and digests always are
    checked. The arrays of files in `private` may be written to, in this process only; all others are read-only.
    """
    directory = _named(directory)
    manifest = read_manifest(directory)
    while True:
        opened: Opened = {}
        try:
            for name, entry in manifest["files"].items():
                check = verify if isinstance(verify, bool) else name in verify
                opened[name] = open_file(directory / entry["file"], check, name in private, entry["digest"])
            return opened, manifest
        except MissingIndex as missing:
            newer = read_manifest(directory)
            if newer == manifest:  # no save in between: two saves never write equal ones
                raise CorruptIndex(missing.path, "the file is missing") from None
            manifest = newer


def _named(directory: str | Path) -> Path:
    """The directory; an empty name, which would mean the current directory, is refused."""
    if directory == "":
        raise SavedIndexError(directory, "Expected the name of a directory, but got an empty one")
    return Path(directory)


def write_manifest(directory: str | Path, manifest: Mapping[str, Any]) -> Manifest:
    """Replace the MANIFEST by one with these `files` and `extra`, on disk on return, and return it completed."""
    own = {"format": _FORMAT, "version": MANIFEST_VERSION, "save": secrets.token_hex(8)}
    complete = json.loads(to_json({**manifest, **own}))
    replace_file(Path(directory) / MANIFEST, [memoryview(_manifest_text(complete))])
    return complete  # type: ignore[no-any-return]


def read_manifest(directory: str | Path) -> Manifest:
    """The MANIFEST of a directory; a SavedIndexError if there is none that is ours and intact."""
    path = Path(directory) / MANIFEST
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise MissingIndex(directory) from None
    except NotADirectoryError:
        raise ForeignFile(directory, "a file") from None
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        if not text.startswith(_START[: len(text)]) and _FORMAT.encode() not in text:
            raise ForeignFile(path, "a MANIFEST of something else") from None
        raise CorruptIndex(path, "it is not JSON") from None
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise ForeignFile(path, "a MANIFEST of something else")
    version = manifest.get("version")
    if isinstance(version, int) and version > MANIFEST_VERSION:
        raise NewerFormat(path, version, MANIFEST_VERSION)
    manifest.pop("checksum", None)
    if _manifest_text(manifest) != text:  # notices every changed byte, even one that JSON ignores
        raise CorruptIndex(path, "its checksum is wrong")
    if not isinstance(version, int) or version < OLDEST_VERSION:
        raise OlderFormat(path, version if isinstance(version, int) else 0, MANIFEST_VERSION)
    return manifest


def content_name(name: str, digest: str, number: int = 0) -> str:
    """The file name of content: the part's `name`, its digest, and a number if that name is taken by other bytes."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"Expected a file name of a-z, 0-9 and _, but got {name!r}")
    return f"{name}-{digest}{f'-{number}' if number else ''}.whimbrel"


def _manifest_text(manifest: Manifest) -> bytes:
    checksum = blake2b(to_json(manifest), digest_size=16).hexdigest()
    return json.dumps({**manifest, "checksum": checksum}, indent=1, sort_keys=True).encode() + b"\n"


def _put(directory: Path, name: str, file: ArrayFile) -> dict[str, Any]:
    """Write a file unless the directory has it with the same bytes; return its entry of the MANIFEST."""
    path = directory / content_name(name, file.digest)
    tries = 0
    while path.exists() and not file.is_at(path):  # damaged, or a collision of checksums; the old MANIFEST may name it
        tries += 1
        path = directory / content_name(name, file.digest, tries)
    if path.exists():
        sync(path)
    else:
        file.write(path)
    return {"file": path.name, "digest": file.digest, "size": file.size}


def _sweep(directory: Path, manifest: Manifest) -> None:
    """Delete our files that the MANIFEST does not name; files with other kinds of names are never touched."""
    named = {entry["file"] for entry in manifest["files"].values()}
    for path in directory.iterdir():
        if path.name not in named and _OURS.fullmatch(path.name):
            path.unlink(missing_ok=True)
