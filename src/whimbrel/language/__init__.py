"""Text to filters and back, one dialect per file. The default is a SQL WHERE clause."""

from __future__ import annotations

from whimbrel.language.sql.dialect import SQL
from whimbrel.language.sql.hints import suspicious_names
from whimbrel.model import dialects
from whimbrel.model.dialects import Dialect
from whimbrel.model.filter import Filter

DIALECTS: dict[str, Dialect] = {"sql": SQL}

for _name, _dialect in DIALECTS.items():
    dialects.register(_name, _dialect)


def parse(source: object, dialect: str = "sql") -> Filter:
    """The filter that a text stands for in a dialect; UnknownDialect names those available.

    >>> str(parse("price < 5 and category = 'Toy'"))
    "category = 'Toy' AND price < 5"
    """
    return dialects.get(dialect).parse(source)


__all__ = ["DIALECTS", "parse", "suspicious_names"]
