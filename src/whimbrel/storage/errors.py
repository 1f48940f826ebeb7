"""Why something saved is refused: not there, not ours, damaged, locked, or of an older or newer format.

The classes are named after the saved index of the engine. Other things that are saved, such as subject spaces, raise
them too; `thing` is what the sentence calls them.
"""

from __future__ import annotations

from pathlib import Path

from whimbrel.model.errors import WhimbrelError

SAVED_INDEX = "saved index"


class SavedIndexError(WhimbrelError):
    """The base of the reasons to refuse what is saved at `path`, a file or a directory."""

    def __init__(self, path: str | Path, sentence: str) -> None:
        self.path = str(path)
        super().__init__(sentence)


class MissingIndex(SavedIndexError, FileNotFoundError):
    """Nothing is saved at `path`."""

    def __init__(self, path: str | Path, thing: str = SAVED_INDEX) -> None:
        super().__init__(path, f"Expected a {thing}, but there is none - at {path}")


class ForeignFile(SavedIndexError):
    """Something is at `path`, but Whimbrel did not write it."""

    def __init__(self, path: str | Path, found: str, thing: str = SAVED_INDEX) -> None:
        self.found = found
        super().__init__(path, f"Expected a {thing} of Whimbrel, but got {found} - at {path}")


class CorruptIndex(SavedIndexError):
    """A file of Whimbrel that is torn, truncated or changed; `problem` says what was found."""

    def __init__(self, path: str | Path, problem: str, thing: str = SAVED_INDEX) -> None:
        self.problem = problem
        super().__init__(path, f"Expected an intact {thing}, but {problem} - at {path}")


class NewerFormat(SavedIndexError):
    """A file of a format `version` above the one `supported` here."""

    def __init__(self, path: str | Path, version: int, supported: int) -> None:
        self.version, self.supported = version, supported
        super().__init__(path, f"Expected format version {supported} or older, but got {version} - at {path}")


class OlderFormat(SavedIndexError):
    """An index of a format `version` that Whimbrel no longer reads."""

    def __init__(self, path: str | Path, version: int, supported: int) -> None:
        self.version, self.supported = version, supported
        super().__init__(
            path,
            f"Expected format version {supported}, but got {version} - at {path}; "
            "save the index again from its subscriptions",
        )


class Locked(WhimbrelError):
    """Another process, or another object of this one, holds the lock on `path`; `owner` is its process id if known."""

    def __init__(self, path: str | Path, owner: int | None) -> None:
        self.path, self.owner = str(path), owner
        process = f"process {owner}" if owner is not None else "another process"
        super().__init__(f"Expected to be the only owner, but {process} holds the lock - at {path}")


class FactsError(WhimbrelError, ValueError):
    """Facts that cannot be stored as JSON without a change; `problem` says why."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"Expected facts that JSON can hold, but {problem}")
