"""The files that commands write: opened for text, and refused where writing would destroy an input."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import typer

from whimbrel.cli.terminal.console import plain
from whimbrel.storage.atomic import named_errors


def check_outputs(outputs: Mapping[str, str | Path | None], inputs: Iterable[str | Path | None]) -> None:
    """Refuse an output that is or contains an input, or is another output, also by a link; a usage error.

    Call it before anything is opened. `outputs` are by option; - is standard input or output. A device may be named
    as often as one likes.
    """
    read = [str(path) for path in inputs if path is not None]
    taken = {_identity(path): f"the input {plain(path)!r}" for path in read}
    for option, output in outputs.items():
        if output is None or str(output) == "-" or not _may_be_replaced(str(output)):
            continue
        mine = _identity(str(output))
        inside = os.path.realpath(output) + os.sep
        found = taken.get(mine) or next(
            (f"a folder with the input {plain(path)!r}" for path in read if os.path.realpath(path).startswith(inside)),
            None,
        )
        if found is not None:
            problem = f"Expected a file that is not read or written otherwise, but {plain(str(output))!r} is {found}"
            raise typer.BadParameter(problem, param_hint=option)
        taken[mine] = f"the output of {option}"


def _identity(path: str) -> object:
    """Equal for two names of one file; standard input may be a file too."""
    try:
        found = os.fstat(0) if path == "-" else os.stat(os.path.realpath(path))
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def _may_be_replaced(path: str) -> bool:
    """Whether the path is free, a file or a folder: not a device or a pipe."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def open_for_writing(path: Path, option: str) -> IO[str]:
    """Open a text file for writing; failure is a usage error."""
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        problem = f"Expected a file to write, but got {plain(str(path))!r}: {error.strerror}"
        raise typer.BadParameter(problem, param_hint=option) from None


@contextmanager
def text_output(path: Path | None) -> Iterator[IO[str]]:
    """The file of `--output`, opened for text; standard output for None and for -. What fails names it."""
    if path is None or str(path) == "-":
        with named_errors("standard output"):
            yield sys.stdout
        return
    with named_errors(path), open_for_writing(path, "--output") as stream:
        yield stream
