"""A tidy table of measures: one row for each point, series and measure, with coordinates as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Coordinate = int | float | str
Where = Callable[[Mapping[str, Any]], bool]
"""Chooses rows by their coordinates."""
FIXED = ("series", "measure", "unit", "value", "low", "high", "repeats")
"""The columns of every table; all others are coordinates."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measure. `at` has coordinates beside those of the point; `low` and `high` are the spread of repeats."""

    series: str
    measure: str
    value: float
    unit: str = ""
    low: float | None = None
    high: float | None = None
    repeats: int = 1
    at: Mapping[str, Coordinate] = field(default_factory=dict)

    def to_dict(self, point: Mapping[str, Coordinate]) -> dict[str, Any]:
        """The row of the table at that point."""
        value = float(self.value)
        return {
            **point, **self.at, "series": self.series, "measure": self.measure, "unit": self.unit, "value": value,
            "low": value if self.low is None else float(self.low),
            "high": value if self.high is None else float(self.high), "repeats": self.repeats,
        }  # fmt: skip


class Measures:
    """All rows of an experiment."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.rows = list(rows)
        names = {name for row in self.rows for name in row}
        self.coordinates = tuple(sorted(names - set(FIXED)))

    def names(self, measure: str) -> list[str]:
        """The series that have the measure, in order of appearance."""
        return list(dict.fromkeys(row["series"] for row in self.rows if row["measure"] == measure))

    def chosen(self, measure: str, series: str, where: Where | None = None) -> list[Mapping[str, Any]]:
        """The rows of one series and measure."""
        return [
            row
            for row in self.rows
            if row["measure"] == measure and row["series"] == series and (where is None or where(row))
        ]

    def values(self, measure: str, series: str, where: Where | None = None) -> dict[tuple[Any, ...], float]:
        """The value at each place, a place being all coordinates in order of their names."""
        return {
            tuple(row.get(name) for name in self.coordinates): float(row["value"])
            for row in self.chosen(measure, series, where)
        }

    def curve(self, measure: str, series: str, x: str, where: Where | None = None) -> list[tuple[float, float]]:
        """The pairs of a coordinate and the value, by the coordinate."""
        rows = [row for row in self.chosen(measure, series, where) if row.get(x) is not None]
        return sorted((float(row[x]), float(row["value"])) for row in rows)

    def table(self) -> pa.Table:
        """The rows as an Arrow table: coordinates first."""
        columns = {name: [row.get(name) for row in self.rows] for name in (*self.coordinates, *FIXED)}
        return pa.table({name: _column(values) for name, values in columns.items()})


def _column(values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    return pa.array(values)
