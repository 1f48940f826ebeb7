"""The outputs of a batch: written beside their place, and put there together when all of them are complete."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from whimbrel.cli.pipeline.inputs import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class OutputFormat(StrEnum):
    """What the pipeline writes."""

    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    ORC = "orc"


_SUFFIXES = {
    ".json": OutputFormat.JSON,
    ".jsonl": OutputFormat.JSON,
    ".ndjson": OutputFormat.JSON,
    ".csv": OutputFormat.CSV,
    ".orc": OutputFormat.ORC,
}


def format_of(path: str, given: OutputFormat | None) -> OutputFormat:
    """The format that was asked for, or that the name tells; else Parquet."""
    return given or _SUFFIXES.get(Path(path).suffix.lower(), OutputFormat.PARQUET)


@dataclass(slots=True)
class Outputs:
    """Directories to write. On another file system than the local one Spark's own commit is all there is."""

    overwrite: bool
    staged: list[tuple[Path, Path]] = field(default_factory=list)

    def check(self, path: str, option: str) -> None:
        """Refuse a place that is taken, before any work is done."""
        if is_remote(path):
            return
        place = Path(path.removeprefix("file://"))
        if place.exists() and not self.overwrite:
            problem = f"Expected a free name, but {str(place)!r} is there (--overwrite replaces it)"
            raise typer.BadParameter(problem, param_hint=option)
        if not place.absolute().parent.is_dir():
            problem = f"Expected a directory to write in, but {str(place.parent)!r} is not there"
            raise typer.BadParameter(problem, param_hint=option)

    def write(self, frame: DataFrame, path: str, format: OutputFormat) -> None:
        """Write a table beside its place."""
        if is_remote(path):
            frame.write.mode("overwrite" if self.overwrite else "error").format(format.value).save(path)
            return
        place = Path(path.removeprefix("file://")).absolute()
        beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}.tmp")
        self.staged.append((beside, place))
        frame.write.option("header", True).format(format.value).save(str(beside))

    def commit(self) -> None:
        """Put everything in its place."""
        for beside, place in self.staged:
            old = place.with_name(f".{place.name}.{secrets.token_hex(4)}.old")
            if place.exists() and self.overwrite:
                place.rename(old)
            beside.rename(place)
            _remove(old)
        self.staged.clear()

    def discard(self) -> None:
        """Remove what was not committed."""
        for beside, _ in self.staged:
            _remove(beside)
        self.staged.clear()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
