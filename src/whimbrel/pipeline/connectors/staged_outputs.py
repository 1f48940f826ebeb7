"""Outputs of a batch: each is written beside its place; all are moved there together when the job is done."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from whimbrel.pipeline.connectors.files import SUFFIXES, is_remote, local
from whimbrel.storage.atomic import place_directory, remove, temporary_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class OutputFormat(StrEnum):
    """The formats that the pipeline writes."""

    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    ORC = "orc"


def format_of(path: str, given: OutputFormat | None) -> OutputFormat:
    """The given format, else the one of the name, else Parquet."""
    return given or OutputFormat(SUFFIXES.get(Path(path).suffix.lower(), "parquet"))


@dataclass(slots=True)
class StagedOutputs:
    """Directories to write. On a file system other than the local one only Spark's own commit protects them."""

    overwrite: bool
    staged: list[tuple[Path, Path]] = field(default_factory=list)

    def problem(self, path: str) -> str | None:
        """Why nothing can be written to a path, known before any work is done; None if it can be written."""
        if is_remote(path):
            return None
        place = local(path)
        if place.exists() and not self.overwrite:
            return f"Expected a free name, but {str(place)!r} is there (--overwrite replaces it)"
        if not place.absolute().parent.is_dir():
            return f"Expected a directory to write in, but {str(place.parent)!r} is not there"
        return None

    def write(self, frame: DataFrame, path: str, format: OutputFormat) -> None:
        """Write a table to a directory beside its place."""
        writer = frame.write.option("header", True).format(format.value)
        if is_remote(path):
            writer.mode("overwrite" if self.overwrite else "error").save(path)
            return
        place = local(path).absolute()
        beside = temporary_name(place)
        self.staged.append((beside, place))
        writer.save(str(beside))

    def __enter__(self) -> StagedOutputs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """Move everything to its place; after an error remove it instead."""
        try:
            for beside, place in self.staged if kind is None else ():
                if not place_directory(beside, place, self.overwrite):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(place))
        finally:
            for beside, _ in self.staged:
                remove(beside)
