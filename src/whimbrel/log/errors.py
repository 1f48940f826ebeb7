"""The errors of a log: missing, foreign, damaged, newer, locked, closed, failed, or asked for an offset it lacks."""

from __future__ import annotations

from pathlib import Path

from whimbrel.model.errors import WhimbrelError


class LogError(WhimbrelError):
    """The base of the errors of a log; `path` is its directory or file."""

    def __init__(self, path: str | Path, sentence: str) -> None:
        self.path = str(path)
        super().__init__(f"{sentence} - at {path}")


class MissingLog(LogError, FileNotFoundError):
    """There is no log at `path`."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, "Expected a log, but there is none")


class ForeignLog(LogError):
    """Something is at `path`, but it is not a log of Whimbrel; `found` says what it is."""

    def __init__(self, path: str | Path, found: str) -> None:
        self.found = found
        super().__init__(path, f"Expected a log of Whimbrel, but got {found}")


class NewerLog(LogError):
    """A log of a format `version` above the one `supported` here."""

    def __init__(self, path: str | Path, version: int, supported: int) -> None:
        self.version, self.supported = version, supported
        super().__init__(path, f"Expected a log of format version {supported} or older, but got {version}")


class CorruptLog(LogError):
    """A log that is torn or changed; `problem` says what was found."""

    def __init__(self, path: str | Path, problem: str) -> None:
        self.problem = problem
        super().__init__(path, f"Expected an intact log, but {problem}")


class LogLocked(LogError):
    """Another writer has the log; `owner` is its process id if known."""

    def __init__(self, path: str | Path, owner: int | None) -> None:
        self.owner = owner
        process = f"process {owner}" if owner is not None else "another process"
        super().__init__(path, f"Expected to be the only writer, but {process} is writing")


class LogFailed(LogError):
    """A write did not reach the disk, so the writer stopped; `problem` is the message of the system.

    What was acknowledged before is safe. Other entries may or may not be there when the log is opened again.
    """

    def __init__(self, path: str | Path, problem: str) -> None:
        self.problem = problem
        super().__init__(path, f"Expected to write, but the log failed: {problem}; nothing more is taken")


class LogClosed(LogError):
    """The writer or reader was closed, or belongs to the process that this one was forked from."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, "Expected an open log, but it was closed")


class BelowFloor(LogError):
    """The entry at `offset` was deleted: the log now starts at `floor`."""

    def __init__(self, path: str | Path, offset: int, floor: int) -> None:
        self.offset, self.floor = offset, floor
        super().__init__(path, f"Expected an offset of at least {floor}, the floor of the log, but got {offset}")


class BeyondEnd(LogError):
    """There is no entry at `offset` yet: the next one will get `end`."""

    def __init__(self, path: str | Path, offset: int, end: int) -> None:
        self.offset, self.end = offset, end
        super().__init__(path, f"Expected an offset of at most {end}, the end of the log, but got {offset}")
