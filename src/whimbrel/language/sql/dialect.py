"""The SQL dialect: a WHERE clause that a Spark user can nearly write already."""

from __future__ import annotations

from whimbrel.language.sql.printer import print_filter
from whimbrel.language.sql.shapes import ShapeCache
from whimbrel.model.filter import Filter


class SqlDialect:
    """SQL text to filters and back. Threads may share it: the only state is the shape cache."""

    def __init__(self) -> None:
        self.shapes = ShapeCache()

    def parse(self, source: object) -> Filter:
        """The filter that a text stands for."""
        text: str = source  # type: ignore[assignment]  # the cache refuses what is not text
        return Filter(self.shapes.parse(text), text, "sql")

    def locate(self, text: str, number: int, part: str, value: int) -> int:
        """Where a part of a predicate stands in a text."""
        from whimbrel.language.sql.places import locate  # only where there is an error

        return locate(text, number, part, value)

    def print(self, filter: Filter) -> str:
        """The canonical text of a filter."""
        return print_filter(filter)


SQL = SqlDialect()
