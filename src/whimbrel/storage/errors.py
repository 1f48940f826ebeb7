"""Why a saved index is refused: not there, not ours, damaged, or written by an older or newer Whimbrel."""

from __future__ import annotations

from pathlib import Path

from whimbrel.model.errors import WhimbrelError


class SavedIndexError(WhimbrelError):
    """The base of the reasons to refuse a saved index; `path` is the file or directory."""

    def __init__(self, path: str | Path, sentence: str) -> None:
        self.path = str(path)
        super().__init__(sentence)


class MissingIndex(SavedIndexError, FileNotFoundError):
    """There is no saved index at `path`."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, f"Expected a saved index, but there is none - at {path}")


class ForeignFile(SavedIndexError):
    """Something is at `path`, but Whimbrel did not write it."""

    def __init__(self, path: str | Path, found: str) -> None:
        self.found = found
        super().__init__(path, f"Expected a saved index of Whimbrel, but got {found} - at {path}")


class CorruptIndex(SavedIndexError):
    """A file of Whimbrel that is torn, truncated or changed: what the `problem` is."""

    def __init__(self, path: str | Path, problem: str) -> None:
        self.problem = problem
        super().__init__(path, f"Expected an intact saved index, but {problem} - at {path}")


class NewerFormat(SavedIndexError):
    """A file of a format `version` above the one `supported` here."""

    def __init__(self, path: str | Path, version: int, supported: int) -> None:
        self.version = version
        self.supported = supported
        super().__init__(path, f"Expected format version {supported} or older, but got {version} - at {path}")


class OlderFormat(SavedIndexError):
    """An index of a format `version` that Whimbrel no longer reads."""

    def __init__(self, path: str | Path, version: int, supported: int) -> None:
        self.version = version
        self.supported = supported
        super().__init__(
            path,
            f"Expected format version {supported}, but got {version} - at {path}; "
            "save the index again from its subscriptions",
        )
