"""Text to filters and back: the registry of dialects. Each dialect is a package; the default is a SQL WHERE clause.

To add one, write a package with an object that has the methods of `model.dialects.Dialect`, and register it here.
A dialect may do more: locate parts of a text (`model.dialects.Locating`), parse many texts to columns
(`language.columnar.terms.Columnar`), give hints for lint and explanations (`model.dialects.Hinting`).
"""

from __future__ import annotations

from whimbrel.language.sql.dialect import SQL
from whimbrel.model import dialects
from whimbrel.model.filter import Filter

dialects.register("sql", SQL)


def parse(source: object, dialect: str = "sql") -> Filter:
    """Parse a text (or an object, in some dialects); UnknownDialect lists the dialects there are.

    >>> str(parse("price < 5 and category = 'Toy'"))
    "category = 'Toy' AND price < 5"
    """
    return Filter.parse(source, dialect)
