"""Restore a backup to a new data directory.

The log gets another id: it goes back to an older state, and will give offsets again that others have seen with other
events. What names the log follows. Lists, ids and the index are made anew when the broker starts.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from whimbrel.broker.backup.making import Progress, check
from whimbrel.broker.backup.manifest import BackupError, Manifest
from whimbrel.broker.store.formats import follow_log
from whimbrel.log import renew_id
from whimbrel.storage.atomic import remove_staged, staged_directory


def restore(backup: Path, directory: Path, progress: Progress | None = None, verify: bool = True) -> Manifest:
    """Make a data directory of a backup. `directory` must not exist, or be empty."""
    manifest = Manifest.load(backup)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise BackupError(directory, "Expected a new or an empty directory to restore to, but there is something")
    remove_staged(directory)
    with staged_directory(directory) as staged:
        done, total = 0, sum(manifest.sizes.values())
        for name, size in manifest.sizes.items():
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(backup / name, staged / name)
            done += size
            if progress is not None:
                progress("copy", done, total)
        if verify:
            check(staged, manifest, progress)
        renew(staged)
    return manifest


def renew(directory: Path) -> str:
    """Give the log in the data directory of a broker that does not run a new id, and return it.

    The lists of event ids and the saved index are made for one id: they are deleted, and made anew at the next start.
    """
    made = renew_id(directory / "log")
    store = directory / "broker.sqlite"
    if store.exists():
        follow_log(store, made)
    for derived in ("ids", "index"):
        shutil.rmtree(directory / derived, ignore_errors=True)
    return made
