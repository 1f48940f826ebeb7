"""The SQL dialect: a WHERE clause, close to that of Spark SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whimbrel.language.sql.literals import name_text, value_text
from whimbrel.language.sql.printer import conjunction_text, print_filter
from whimbrel.language.sql.shape_cache import ShapeCache
from whimbrel.model.dialects import Hint, Hinting, Locating, Printer
from whimbrel.model.filter import Filter

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.compiled.array_types import Int64s
    from whimbrel.language.columnar.terms import ParsedMany
    from whimbrel.model.conjunction import Conjunction
    from whimbrel.model.event_schema import EventSchema
    from whimbrel.model.values import Value


class SqlDialect(Printer, Locating, Hinting):
    """Parses SQL texts to filters, one by one or many at once, and prints filters.

    Threads may share it: the only state is the shape cache. Modules that single filters do not need are imported late.
    """

    def __init__(self) -> None:
        self.shapes = ShapeCache()

    def parse(self, source: object) -> Filter:
        text: str = source  # type: ignore[assignment]  # the cache refuses what is not text
        return self.shapes.parse(text)

    def print(self, filter: Filter) -> str:
        return print_filter(filter)

    def print_conjunction(self, conjunction: Conjunction, schema: EventSchema | None = None) -> str:
        return conjunction_text(conjunction, schema).text

    def print_name(self, attribute: str) -> str:
        return name_text(attribute)

    def print_value(self, value: Value | None) -> str:
        return value_text(value)

    def locate(self, text: str, number: int, part: str, value: int) -> int:
        from whimbrel.language.sql.locate import locate

        return locate(text, number, part, value)

    def is_suspicious(self, text: str) -> bool:
        from whimbrel.language.sql.hints import is_suspicious

        return is_suspicious(text)

    def hints(self, text: str) -> list[Hint]:
        from whimbrel.language.sql.hints import hints

        return hints(text)

    def scan_columns(self, texts: pa.LargeStringArray) -> tuple[ParsedMany, Int64s]:
        """Parse the texts that compiled loops understand; return them and the rows of the other texts."""
        from whimbrel.language.sql.scan import scan_columns

        return scan_columns(texts)

    def is_scan_compiled(self) -> bool:
        """Whether the compiled loops are in memory or in the cache of the machine."""
        from whimbrel.compiled.warm_up import is_cold
        from whimbrel.language.sql.scan_kernels import scan_texts

        return bool(getattr(scan_texts, "signatures", ())) or not is_cold(scan_texts)


SQL = SqlDialect()
