"""Keeps compiled kernels on disk, one file for each signature: in NUMBA_CACHE_DIR, beside the module, or in the user's
cache, as Numba does.

Numba compares the date and the size of a kernel's own source file to see whether it has changed. But helpers and the
layout of arrays are compiled into the kernel too: code for another layout reads wrong memory. So a digest of all
sources of the kernel's top package (whimbrel.engine, whimbrel.spaces) and of the shared packages is compared instead.

A file that cannot be read counts as absent: compiled code names the classes and functions it was made of, which a newer
version may have moved. If no directory can be written to, every process compiles for itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, NullCache, _Cache
from numba.core.runtime.nrt import rtsys

_config: Any = numba.config  # its settings are set at run time

SHARED = ("compiled", "ranks")
"""Packages whose helpers and layouts are compiled into kernels of other packages."""


def _digest(folders: list[Path]) -> str:
    """A digest of the names and contents of all sources of some folders."""
    digest = blake2b(digest_size=16)
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            text = path.read_bytes()
            digest.update(b"%s %d " % (str(path.relative_to(folder)).encode(), len(text)))
            digest.update(text)
    return digest.hexdigest()


@cache
def _package_digest(folder: Path) -> str:
    """The digest of a top package and of the shared ones beside it."""
    return _digest(sorted({folder, *(folder.with_name(name) for name in SHARED)}))


@cache
def _plain_folder() -> str | None:
    """Where Numba alone may keep kernels: a directory for exactly these sources. None if it cannot be written to."""
    root = _config.CACHE_DIR or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "whimbrel")
    folder = Path(root, f"kernels-{_digest([Path(__file__).parents[1]])}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder) if os.access(folder, os.W_OK) else None


@contextmanager
def plain_cache() -> Iterator[bool]:
    """Let kernels that are made meanwhile be kept by Numba in a directory of their own; False if there is none."""
    folder, before = _plain_folder(), _config.CACHE_DIR
    _config.CACHE_DIR = folder or before
    try:
        yield folder is not None
    finally:
        _config.CACHE_DIR = before


def _top_package(function: Callable[..., Any]) -> Path:
    """The directory of `whimbrel.engine`, if the function is of `whimbrel.engine.access.kernel`."""
    packages_below = max(function.__module__.count(".") - 2, 0)
    return Path(function.__code__.co_filename).parents[packages_below]


class CompiledCache(_Cache):
    """The compiled forms of one kernel. The disk is first looked at when the kernel is first called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._found: Any = None
        self._enabled = True
        self.awaited: Callable[[], None] | None = None
        """Called once before the disk is read: waits for another process that will write there."""

    @property
    def _kept(self) -> Any:
        if self._found is None:
            try:
                self._found = FunctionCache(self._function)  # type: ignore[no-untyped-call]
                self._found._cache_file._source_stamp = _package_digest(_top_package(self._function))
            except RuntimeError:  # no directory can be written to
                self._found = NullCache()
        return self._found

    @property
    def cache_path(self) -> str | None:
        """The directory."""
        path: str | None = self._kept.cache_path
        return path

    @property
    def index_path(self) -> str | None:
        """The file that lists the compiled forms; None without a place to keep them."""
        path: str | None = getattr(getattr(self._kept, "_cache_file", None), "_index_path", None)
        return path

    def is_empty(self) -> bool:
        """Whether there is a place to keep kernels, and nothing in it that can be used."""
        try:
            return self.index_path is not None and not self._kept._cache_file._load_index()
        except Exception:  # as below
            return True

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form for a signature, or None."""
        if not self._enabled:
            return None
        if self.awaited is not None:
            self.awaited()
            self.awaited = None
        if isinstance(self._kept, NullCache):
            return None
        try:
            # Compiled code needs no more, unless it hashes strings or is parallel; setting up the compiler takes 0.1 s.
            rtsys.initialize(target_context)
            return self._kept._load_overload(sig, target_context)
        except Exception:  # unpickling what another version wrote raises anything
            try:
                self.flush()
            except OSError:
                self._found = NullCache()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel that was just compiled, and set the environment variables in the code of its helpers."""
        for environment in data._find_referenced_environments():
            data.library.codegen.set_env(environment.env_name, environment)
        if self._enabled:
            try:
                self._kept.save_overload(sig, data)
            except OSError:
                self._found = NullCache()

    def enable(self) -> None:
        """Use the disk."""
        self._enabled = True

    def disable(self) -> None:
        """Do not use the disk."""
        self._enabled = False

    def flush(self) -> None:
        """Forget all compiled forms."""
        self._kept.flush()
