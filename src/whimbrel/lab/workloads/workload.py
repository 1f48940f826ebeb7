"""What a workload is: subscriptions and events as Arrow tables, with the call that made them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

Format = Literal["parquet", "jsonl", "csv"]

JSON_ROWS = 16_384
"""Rows turned into Python objects at a time while JSON lines are written."""


@dataclass(frozen=True)
class Workload:
    """Subscriptions, events and their origin: `make(name, seed=seed, **parameters)` gives the same bytes again.

    `subscriptions` has the columns id (int64, 0..n-1) and filter (text in the SQL dialect). `events` has one typed
    column per attribute; a null cell is a missing attribute.
    """

    name: str
    parameters: dict[str, int | float]
    seed: int
    subscriptions: pa.Table
    events: pa.Table

    def write(self, directory: str | Path, format: Format = "parquet") -> tuple[Path, Path]:
        """Write `subscriptions.<format>` and `events.<format>` into the directory, and return their paths.

        The directory is created when it is not there. JSON lines leave nulls out; in CSV a null is an empty cell, and a
        workload with a list column is refused, as CSV has no lists.
        """
        if format not in get_args(Format):
            raise ValueError(f"Expected a format of {', '.join(get_args(Format))}, but got {format!r}")
        lists = [field.name for field in self.events.schema if pa.types.is_list(field.type)]
        if format == "csv" and lists:
            raise ValueError(f"CSV has no lists, but {self.name} has some in {', '.join(lists)}: use parquet or jsonl")
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / f"subscriptions.{format}", folder / f"events.{format}"
        for table, path in zip((self.subscriptions, self.events), paths, strict=True):
            _write(table, path, format)
        return paths


def check_counts(
    workload: str, *more: tuple[bool, str], shares: Mapping[str, object] | None = None, **counts: int
) -> None:
    """Raise one ValueError with the text of every rule that does not hold.

    Counts such as n and events must be integers of at least 1, the seed one of at least 0. Shares must be numbers
    between 0 and 1. `more` are further rules.
    """
    problems = []
    for name, value in counts.items():
        least = 0 if name == "seed" else 1
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not good:
            problems.append(f"expected {name} to be an integer of at least {least}, but got {value!r}")
    problems += [problem for holds, problem in more if not holds]
    for name, share in (shares or {}).items():
        if not (isinstance(share, int | float) and 0 <= share <= 1):
            problems.append(f"expected {name} in [0, 1], but got {share!r}")
    if problems:
        raise ValueError(f"{workload}: {'; '.join(problems)}")


def event_dicts(events: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Events as dicts, without the attributes that they lack."""
    return [{name: value for name, value in row.items() if value is not None} for row in events.to_pylist()]


def _write(table: pa.Table, path: Path, format: Format) -> None:
    if format == "parquet":
        pa.parquet.write_table(table, path)
    elif format == "csv":
        pa.csv.write_csv(table, path)
    else:
        encoder = msgspec.json.Encoder()
        with path.open("wb") as file:
            for batch in table.to_batches(max_chunksize=JSON_ROWS):
                file.write(encoder.encode_lines(event_dicts(batch)))
