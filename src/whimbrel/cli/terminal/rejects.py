"""The report of refused input: each error on standard error, all in the rejects file, and the exit status."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Literal, NoReturn, TypeVar

import typer

from whimbrel.cli.terminal.console import say, say_json, to_json
from whimbrel.cli.terminal.outputs import open_for_writing
from whimbrel.readers.errors import InputError
from whimbrel.storage.atomic import named_errors

_SHOWN = 20

T = TypeVar("T")
Kind = Literal["event", "subscription", "file"]
_PLURAL = {"event": "events", "subscription": "subscriptions", "file": "files"}


class OnError(StrEnum):
    """What to do with refused input: leave it out and go on, or stop there."""

    SKIP = "skip"
    STOP = "stop"


class Stopped(Exception):
    """Input was refused and `--on-error stop` was given; what was done before is kept."""


class RejectReport:
    """Counts refused input, and writes each error to standard error and to the rejects file."""

    def __init__(self, json: bool = False, on_error: OnError = OnError.SKIP, rejects: Path | None = None) -> None:
        self.json = json
        self.on_error = on_error
        self.rejected: Counter[str] = Counter()
        self._path = rejects
        self._rejects = None if rejects is None else open_for_writing(rejects, "--rejects")

    def __enter__(self) -> RejectReport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path is not None and self._rejects is not None:
            with named_errors(self._path):
                self._rejects.close()

    def reject(self, kind: Kind, error: InputError) -> None:
        """Count and write an error. Raise `Stopped` if the run stops at the first one."""
        if error.place.line is None and error.place.row is None:
            kind = "file"
        self.rejected[kind] += 1
        if self._path is not None and self._rejects is not None:
            line = {"rejected": kind, **error.to_dict(), "input": error.text}
            with named_errors(self._path):
                self._rejects.write(to_json(line) + "\n")
        if self.json:
            say_json({"rejected": kind, **error.to_dict()})
        elif self.rejected.total() <= _SHOWN:
            say(f"whimbrel: {error}")
        elif self.rejected.total() == _SHOWN + 1:
            say("whimbrel: further errors are only counted; --rejects FILE writes all of them")
        if self.on_error is OnError.STOP:
            raise Stopped

    def accepted(self, kind: Kind, items: Iterable[T | InputError]) -> Iterator[T]:
        """The items that were not refused; the others are reported."""
        for item in items:
            if isinstance(item, InputError):
                self.reject(kind, item)
            else:
                yield item

    def note(self, text: str) -> None:
        """Print a remark that refuses nothing."""
        if self.json:
            say_json({"note": text})
        else:
            say(f"whimbrel: {text}")

    def finish(self, summary: dict[str, object], sentence: str) -> NoReturn:
        """Print the summary and end the program: 0 if all was good, 1 if something was refused."""
        rejected = {_PLURAL[kind]: count for kind, count in sorted(self.rejected.items())}
        if self.json:
            say_json({**summary, "rejected": rejected})
        elif sys.stderr.isatty() or rejected:
            refused = ", ".join(
                f"{count:,} {kind if count == 1 else _PLURAL[kind]}" for kind, count in sorted(self.rejected.items())
            )
            say(sentence + (f"; rejected: {refused}" if refused else ""))
        raise typer.Exit(1 if rejected else 0)
