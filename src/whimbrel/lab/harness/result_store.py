"""Results on disk. Every finished point is a file, so that an interrupted run goes on where it stopped.

A point is filed under the version of the code and its parameters: points of another version are never read. The files
of an experiment are replaced one by one, the record of the result last.

    <output>/<scale>/<experiment>/table.parquet, table.csv, plot.svg, plot.png, result.json
    <output>/<scale>/<experiment>/points/<version>/<kind>-<hash of the parameters>.json
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from whimbrel.lab.harness.experiment import SCALES, Point
from whimbrel.lab.harness.measures import Measures
from whimbrel.model.errors import WhimbrelError
from whimbrel.storage.atomic import replace_file

RECORD = "result.json"
_FIELDS = {
    "name", "paper", "figure", "question", "why", "scale", "verdict", "claims", "has_paper_claims", "machine",
    "command", "notes", "version",
}  # fmt: skip
"""What reports read of a record."""


class NoResults(WhimbrelError):
    """A `folder` has no results to report."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"Expected results in {folder}, but found none; run: whimbrel lab run --all --output {folder}")


class DamagedResult(WhimbrelError, ValueError):
    """The record of a result in `path`, or the table beside it, cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"Expected the record of an experiment, but {path} is damaged; delete it and run again")


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """The rows of the table at a point, and the machine card of the moment when it was measured."""

    rows: list[dict[str, Any]]
    machine: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResultStore:
    """The results of one experiment at one scale, made by one version of the code."""

    folder: Path
    version: str

    def finished(self, kind: str, point: Point) -> MeasuredPoint | None:
        """What this version measured before at a point; None if it did not."""
        try:
            found = json.loads(self._file(kind, point).read_text())
            return MeasuredPoint(found["rows"], found["machine"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def keep(self, kind: str, point: Point, measured: MeasuredPoint) -> None:
        """Write what was measured at a point."""
        path = self._file(kind, point)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"point": point, "rows": measured.rows, "machine": measured.machine}
        replace_file(path, [json.dumps(content).encode()])

    def write(self, measures: Measures, plot: tuple[bytes, bytes], record: Mapping[str, Any]) -> dict[str, Any]:
        """Write table, plot and record. Return the record with the files; points of other versions are deleted."""
        table = measures.table()
        parquet, csv = io.BytesIO(), io.BytesIO()
        pa.parquet.write_table(table, parquet)
        pa.csv.write_csv(table, csv)
        contents = {
            "table.parquet": parquet.getvalue(),
            "table.csv": csv.getvalue(),
            "plot.svg": plot[0],
            "plot.png": plot[1],
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            replace_file(self.folder / name, [content])
        files = [str(self.folder / name) for name in (*contents, RECORD)]
        whole = {**record, "version": self.version, "files": files}
        replace_file(self.folder / RECORD, [json.dumps(whole, indent=1).encode()])
        for other in (self.folder / "points").glob("*"):
            if other.name != self.version:
                shutil.rmtree(other, ignore_errors=True)
        return whole

    def _file(self, kind: str, point: Point) -> Path:
        digest = hashlib.sha256(json.dumps(point, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / "points" / self.version / f"{kind}-{digest}.json"


def read_results(output: Path, scale: str | None = None) -> list[dict[str, Any]]:
    """The records of all results in a folder; each experiment at the largest scale there is, or at the one asked for.

    Every record gets the `folder` that it lies in, and its table as `measures`. NoResults if there is none,
    DamagedResult if one cannot be read.
    """
    found: dict[str, dict[str, Any]] = {}
    for one in (scale,) if scale else SCALES:
        for path in sorted((output / one).glob(f"*/{RECORD}")):
            try:
                record = json.loads(path.read_text())
                rows = pa.parquet.read_table(path.parent / "table.parquet").to_pylist()
                is_whole = record.keys() >= _FIELDS
            except (ValueError, AttributeError, FileNotFoundError):
                raise DamagedResult(path) from None
            if not is_whole:
                raise DamagedResult(path)
            measures = Measures({name: value for name, value in row.items() if value is not None} for row in rows)
            found[record["name"]] = {**record, "folder": path.parent, "measures": measures}
    if not found:
        raise NoResults(output)
    return list(found.values())
