"""Files that appear whole or not at all, and survive a power cut once the call returns.

A file is written under a temporary name beside its place and synced, gets its name in one step, and the directory is
synced. A crash leaves at most the temporary file: its name starts with a dot and ends with `.tmp`.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def replace_file(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write `pieces` to `path`, replacing the file that is there. Readers see the old file or the new one."""
    with staged_file(path) as temporary:
        _write(temporary, path, pieces)


@contextmanager
def staged_file(path: Path, durable: bool = True) -> Iterator[Path]:
    """A name beside `path` under which a file is written: at the end it gets its name, after an error it is deleted.

    Without `durable` nothing is synced: a power cut may lose the file.
    """
    temporary = _beside(path)
    try:
        yield temporary
        if durable:
            with named_errors(path):
                sync(temporary)
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        sync(path.parent)


def create_file(path: Path, content: bytes) -> bool:
    """Write `content` to `path` if no file has that name. Return False, and change nothing, if one has.

    Of several processes that do this at once, exactly one succeeds. The name is on disk in either case.
    """
    temporary = _beside(path)
    try:
        _write(temporary, path, [content])
        with named_errors(path):
            sync(temporary)
        os.link(temporary, path)
        created = True
    except FileExistsError:
        created = False
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)
    return created


def place_directory(staged: Path, place: Path) -> bool:
    """Rename a finished directory to `place`. If one is there already, delete `staged` and return False.

    The name is on disk in either case. The caller has synced the files of the directory, where that matters.
    """
    try:
        staged.rename(place)
        placed = True
    except OSError:
        if not place.is_dir():
            raise
        shutil.rmtree(staged)
        placed = False
    sync(place.parent)
    return placed


def make_directory(path: Path) -> None:
    """Create a directory and its parents where they are missing. The last name is on disk when this returns."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        sync(path.parent)


def sync(path: Path) -> None:
    """Return when the content of a file, or the names in a directory, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def named_errors(path: str | Path) -> Iterator[None]:
    """Add the path to errors of the system that name none: a full disk is told where a file is written or closed."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


def _beside(path: Path) -> Path:
    """A temporary name for a file in the same directory."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def _write(temporary: Path, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a new file; errors name the path that it will have."""
    with named_errors(path), temporary.open("xb") as file:
        for piece in pieces:
            file.write(piece)
