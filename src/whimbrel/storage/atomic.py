"""Files and directories that appear whole or not at all, and survive a power cut once the call returns.

A file is written under a temporary name beside its place and synced, gets its name in one step, and the directory is
synced; a directory with all its files likewise. A crash leaves at most what has a temporary name: it starts with a dot
and ends with `.tmp`.
"""

from __future__ import annotations

import errno
import glob
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
    temporary = temporary_name(path)
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
    temporary = temporary_name(path)
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


@contextmanager
def staged_directory(path: Path) -> Iterator[Path]:
    """A new directory beside `path`: at the end it is synced and gets its name, after an error it is deleted.

    FileExistsError if something other than an empty directory has the name by then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = temporary_name(path)
    staged.mkdir()
    try:
        yield staged
        for folder, _, names in os.walk(staged):
            for name in (*names, "."):
                sync(Path(folder, name))
        if not place_directory(staged, path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    finally:
        remove(staged)


def place_directory(staged: Path, place: Path, overwrite: bool = False) -> bool:
    """Rename a finished directory to `place`. If one is there already, delete `staged` and return False.

    With `overwrite` the file or directory that is there makes way, and is deleted when the new one has its name.
    The name is on disk in either case. The caller has synced the files of the directory, where that matters.
    """
    former = temporary_name(place)
    if overwrite and place.exists():
        place.rename(former)
    try:
        staged.rename(place)
        placed = True
    except OSError:
        if former.exists():
            former.rename(place)
            raise
        if not place.is_dir():
            raise
        shutil.rmtree(staged)
        placed = False
    remove(former)
    sync(place.parent)
    return placed


def remove(path: Path) -> None:
    """Delete a file, or a directory with all that is in it, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_staged(path: Path) -> None:
    """Delete what killed processes left of their attempts to write `path`. No other process may be writing it now."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        remove(left)


def make_directory(path: Path) -> None:
    """Create a directory and its parents where they are missing. The last name is on disk when this returns."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        sync(path.parent)


def temporary_name(path: Path) -> Path:
    """A name in the same directory that nothing has, for what will be renamed to `path`."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


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


def _write(temporary: Path, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a new file; errors name the path that it will have."""
    with named_errors(path), temporary.open("xb") as file:
        for piece in pieces:
            file.write(piece)
