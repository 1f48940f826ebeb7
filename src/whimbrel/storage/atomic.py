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
    with _temporary_file(path, pieces) as temporary:
        temporary.rename(path)
    sync(path.parent)


def create_file(path: Path, content: bytes) -> bool:
    """Write `content` to `path` if no file has that name. Return False, and change nothing, if one has.

    Of several processes that do this at once, exactly one succeeds. The name is on disk in either case.
    """
    with _temporary_file(path, [content]) as temporary:
        try:
            os.link(temporary, path)
            created = True
        except FileExistsError:
            created = False
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


@contextmanager
def _temporary_file(path: Path, pieces: Iterable[bytes | memoryview]) -> Iterator[Path]:
    """A synced file beside `path` with this content. It is deleted on exit if it still has its temporary name."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with named_errors(path), temporary.open("xb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
