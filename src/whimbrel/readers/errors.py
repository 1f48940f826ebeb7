"""Errors of input files: one class per kind, each with the place in the file."""

from __future__ import annotations

import msgspec

from whimbrel.model.errors import EventError, FilterError, LimitExceeded, WhimbrelError


class InputPlace(msgspec.Struct, frozen=True):
    """A place in a file: a `line` from 1 if lines are known, a `row` from 0 as in the output, a `path` in an event."""

    file: str
    line: int | None = None
    column: int | None = None
    row: int | None = None
    path: str | None = None

    def below(self, count: int) -> InputPlace:
        """The place of an item so many lines and rows further on."""
        line = None if self.line is None else self.line + count
        return InputPlace(self.file, line, row=None if self.row is None else self.row + count)

    def __str__(self) -> str:
        text = self.file
        if self.line is not None:
            text += f":{self.line}"
            if self.column is not None:
                text += f":{self.column}"
        elif self.row is not None:
            text += f": row {self.row}"
        return text


class InputError(WhimbrelError):
    """Something in a file was refused: its `place`, the `problem`, and the refused `text` if it is known."""

    def __init__(self, place: InputPlace, problem: str, text: str | None = None) -> None:
        self.place, self.problem, self.text = place, problem, text
        super().__init__(f"{place}: {problem}")

    @property
    def kind(self) -> str:
        """The name of the error, for machines."""
        return type(self).__name__

    def to_dict(self) -> dict[str, object]:
        """The error as JSON-ready data, without the fields that are not known."""
        place = self.place
        known: dict[str, object | None] = {
            "error": self.kind,
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "row": place.row,
            "path": place.path,
            "message": self.problem,
        }
        return {name: value for name, value in known.items() if value is not None}


class FileMissing(InputError):
    """No file has that name."""


class FileUnreadable(InputError):
    """The file exists, but is a folder, may not be read, or failed while it was read."""


class FileEmpty(InputError):
    """The file has no content."""


class FileTruncated(InputError):
    """The file ends too early."""


class WrongEncoding(InputError):
    """The text is not UTF-8."""


class WrongFormat(InputError):
    """The file is not in the format that its name or `--from` says."""


class NotJson(InputError):
    """A line is not JSON."""


class NotAnObject(InputError):
    """A line is JSON, but not an object."""


class DuplicateKey(InputError):
    """An object has a key twice, or a table has a column twice."""


class MissingField(InputError):
    """A subscription has no id or no filter."""


class WrongColumns(InputError):
    """A row of a CSV file has too few or too many cells."""


class RefusedInput(InputError):
    """The library refused what was read; the error is reported by the name of its `cause`."""

    def __init__(self, place: InputPlace, cause: WhimbrelError, text: str | None = None) -> None:
        self.cause = cause
        path = None
        if isinstance(cause, EventError):
            path = cause.path
        elif isinstance(cause, LimitExceeded):
            path = cause.where or None
        super().__init__(msgspec.structs.replace(place, path=path), str(cause), text)

    @property
    def kind(self) -> str:
        """The name of the cause, for machines."""
        return type(self.cause).__name__

    def to_dict(self) -> dict[str, object]:
        """The error as JSON-ready data, with the place within the text of a filter."""
        out = super().to_dict()
        if isinstance(self.cause, FilterError) and self.cause.text:
            out |= {"filter_line": self.cause.line, "filter_column": self.cause.column}
        return out
