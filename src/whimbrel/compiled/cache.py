"""Compiled kernels on disk, one for each signature, where Numba keeps them.

What cannot be read there is as if it were not there: compiled code names the classes and functions that it was made
of, which a newer version may have moved. What cannot be written is not: then every process compiles for itself.

Numba looks at the date and the size of a kernel's own file to see whether it has changed. But helpers and the layout of
arrays are compiled into it too: code that was made for another layout would read memory that is not its own. So all
files of the kernel's top package (whimbrel.engine, whimbrel.spaces) and of those below it that have kernels count here,
by what is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, NullCache, _Cache
from numba.core.runtime.nrt import rtsys

SHARED = ("compiled", "ranks")
"""Packages whose helpers and layouts are compiled into kernels of other packages."""


@cache
def _digest(folder: Path) -> str:
    """The digest of all sources of a package and of the shared ones beside it."""
    digest = blake2b(digest_size=16)
    for package in sorted({folder, *(folder.with_name(name) for name in SHARED)}):
        for path in sorted(package.rglob("*.py")):
            text = path.read_bytes()
            digest.update(b"%s %d " % (str(path.relative_to(package)).encode(), len(text)))
            digest.update(text)
    return digest.hexdigest()


def _home(function: Callable[..., Any]) -> Path:
    """The directory of `whimbrel.engine`, if the function is of `whimbrel.engine.kernels.items`."""
    packages_below = max(function.__module__.count(".") - 2, 0)
    return Path(function.__code__.co_filename).parents[packages_below]


class CompiledCache(_Cache):
    """The compiled forms of one kernel. The disk is first looked at when the kernel is first called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._found: Any = None
        self._enabled = True
        self.awaited: Callable[[], None] | None = None
        """Called once before the disk is read: waits for a process that is about to write there."""

    @property
    def _kept(self) -> Any:
        if self._found is None:
            try:
                self._found = FunctionCache(self._function)  # type: ignore[no-untyped-call]
                self._found._cache_file._source_stamp = _digest(_home(self._function))
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
        """Whether nothing that is kept can be used, though there is a place to keep it."""
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
        try:
            return self._loaded(sig, target_context)
        except Exception:  # unpickling what another version wrote raises anything
            self._forget()
            return None

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        if isinstance(self._kept, NullCache):
            return None
        # All that compiled code needs, unless it hashes strings or is parallel; what compiling needs takes 0.1 s more.
        rtsys.initialize(target_context)
        return self._kept._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was just compiled, and complete it: the code of its helpers has variables to be set."""
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

    def _forget(self) -> None:
        try:
            self.flush()
        except OSError:
            self._found = NullCache()
