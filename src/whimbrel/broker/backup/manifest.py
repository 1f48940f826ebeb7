"""What a backup says about itself: `backup.json`, written last, so that a directory without it is no backup."""

from __future__ import annotations

from pathlib import Path

import msgspec

from whimbrel.model.errors import WhimbrelError
from whimbrel.storage.atomic import replace_file

FORMAT_VERSION = 1
FILE_NAME = "backup.json"
STORE = "broker.sqlite"
LOG = "log/log.sqlite"


class BackupError(WhimbrelError):
    """A backup cannot be made or used; `path` is its directory or a file in it."""

    def __init__(self, path: str | Path, sentence: str) -> None:
        self.path = str(path)
        super().__init__(f"{sentence} - at {path}")


class Manifest(msgspec.Struct, frozen=True):
    """The facts of a backup. The store has applied the log up to `stamp`, with floor <= stamp <= end."""

    format: int
    log: str  # the id of the log
    floor: int
    end: int
    stamp: int
    created: int  # microseconds since 1970 UTC
    sizes: dict[str, int]  # bytes of each file

    def save(self, directory: Path) -> None:
        """Write the manifest into the directory of a backup."""
        replace_file(directory / FILE_NAME, [msgspec.json.format(msgspec.json.encode(self))])

    @staticmethod
    def load(directory: Path) -> Manifest:
        """The manifest of a backup whose files have the right sizes; BackupError says what is wrong."""
        path = directory / FILE_NAME
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except OSError:
            raise BackupError(directory, f"Expected a backup with a file {FILE_NAME}, but there is none") from None
        except msgspec.DecodeError as error:
            raise BackupError(path, f"Expected the manifest of a backup, but: {error}") from None
        if manifest.format > FORMAT_VERSION:
            raise BackupError(path, f"Expected a backup of format {FORMAT_VERSION} or older, but got {manifest.format}")
        for name, size in manifest.sizes.items():
            found = (directory / name).stat().st_size if (directory / name).is_file() else None
            if found != size:
                raise BackupError(directory / name, f"Expected {size:,} bytes, but got {found or 0:,}")
        return manifest
