"""Errors of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path

from whimbrel.model.errors import OptionError, WhimbrelError


class PipelineError(WhimbrelError):
    """The base of the errors of the pipeline."""


class MissingVersion(PipelineError):
    """A version of an index that is not at `path`; `version` is None if there is no version at all."""

    def __init__(self, path: str | Path, version: int | None, available: Sequence[int]) -> None:
        self.path, self.version, self.available = str(path), version, tuple(available)
        wanted = "a compiled index" if version is None else f"version {version} of a compiled index"
        if not available:
            there = "there is none"
        else:
            shown = ", ".join(map(str, available[-5:]))
            there = f"there are {'..., ' if len(available) > 5 else ''}{shown}"
        super().__init__(f"Expected {wanted}, but {there} - at {path}")


class BadManifest(PipelineError):
    """The manifest of an index version is damaged, is something else, or is of a newer Whimbrel."""

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path, self.problem = str(path), problem
        super().__init__(f"Expected the description of an index version, but {problem} - at {path}")


class VersionTaken(PipelineError):
    """Another job has published this version."""

    def __init__(self, path: str | Path, version: int) -> None:
        self.path, self.version = str(path), version
        super().__init__(f"Expected version {version} to be free, but another job has published it - at {path}")


class RemotePath(PipelineError):
    """An index store that is not in a file system that workers can map files from."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"Expected a directory that every worker has mounted, but got {path}")


class ColumnError(PipelineError):
    """A column that is missing or of a type that cannot be used: what was `expected` and `found` in `column`."""

    def __init__(self, column: str, expected: str, found: str) -> None:
        self.column, self.expected, self.found = column, expected, found
        super().__init__(f"Expected {expected}, but got {found} - at column {column}")


class KeyMissing(PipelineError):
    """No key column: the names that were `wanted`, and the `columns` that there are."""

    def __init__(self, wanted: Sequence[str], columns: Sequence[str]) -> None:
        self.wanted, self.columns = tuple(wanted), tuple(columns)
        names = " or ".join(self.wanted)
        super().__init__(
            f"Expected a key column {names}, but the columns are {', '.join(columns)}; name the key with key="
        )


class RejectedSubscriptions(PipelineError):
    """Some subscriptions given to `match` directly are bad: how many were rejected, and the `first` message."""

    def __init__(self, rejected: int, id: object, first: str) -> None:
        self.rejected, self.id, self.first = rejected, id, first
        super().__init__(
            f"Expected good subscriptions only, but {rejected:,} were rejected (compile_index lists them); "
            f"subscription {id!r}: {first}"
        )


class BadOption(PipelineError, OptionError):
    """An option with a value that is not allowed."""

    def __init__(self, option: str, found: object, expected: str) -> None:
        OptionError.__init__(self, option, expected, repr(found))


def check_type(option: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """BadOption if the value of an option is of none of these types."""
    if not isinstance(value, kinds):
        raise BadOption(option, value, expected)


def check_flag(option: str, value: object) -> None:
    """BadOption if the value of an option is neither True nor False."""
    check_type(option, value, bool, "True or False")


def check_integer(option: str, value: object, least: int, most: int | None = None) -> None:
    """BadOption if the value of an option is not an integer from `least` to `most`."""
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else least - 1
    if number < least or (most is not None and number > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most:,}"
        raise BadOption(option, value, f"an integer {bounds}")


def check_seconds(option: str, value: object) -> None:
    """BadOption if the value of an option is not a finite number of seconds from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise BadOption(option, value, "seconds, a number from 0 on")


class OtherLog(PipelineError):
    """A checkpoint of another log: the id that it `expected`, and the one `found` at `path`."""

    def __init__(self, path: str | Path, expected: str, found: str) -> None:
        self.path, self.expected, self.found = str(path), expected, found
        super().__init__(
            f"Expected the log {expected} that the checkpoint has read from, but got {found} - at {path}; "
            "give the query the log or the checkpoint that it had before, or a new checkpoint"
        )


class OtherIndex(PipelineError):
    """A checkpoint of another index: `query` is at batch `batch`, but the index at `path` has no record of it."""

    def __init__(self, path: str | Path, query: str, batch: int) -> None:
        self.path, self.query, self.batch = str(path), query, batch
        super().__init__(
            f"Expected a checkpoint of this index, but query {query} is at batch {batch} and none of its batches are "
            f"recorded - at {path}; give the query the index or the checkpoint that it had before, a new checkpoint, "
            "or adopt=True"
        )


class BadRecord(PipelineError):
    """The record of the index version of a batch cannot be read; `problem` says why."""

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path, self.problem = str(path), problem
        super().__init__(f"Expected the index version of a batch, but {problem} - at {path}")


class NoBatch(PipelineError):
    """A task of `match_stream` runs outside a micro-batch, where no version can be recorded."""

    def __init__(self) -> None:
        super().__init__("Expected a micro-batch of a streaming query, but got a task without one")
