"""The registry of dialects, which the languages fill."""

from __future__ import annotations

import pytest

from whimbrel import Filter
from whimbrel.model import dialects
from whimbrel.model import expression as x
from whimbrel.model.errors import UnknownDialect


class Shout:
    """A dialect of one filter."""

    def parse(self, source: object) -> Filter:
        return Filter(x.Compare("a", "=", str(source).upper()), str(source), "shout")

    def print(self, filter: Filter) -> str:
        return str(filter.text)


def test_a_registered_dialect_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "_REGISTRY", {"shout": Shout()})
    filter = Filter.parse("hello", dialect="shout")
    assert filter.matches({"a": "HELLO"})
    assert filter.dialect == "shout"
    assert dialects.get("shout").print(filter) == "hello"


def test_an_unknown_dialect_is_refused_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "_REGISTRY", {"sql": Shout(), "cesql": Shout()})
    with pytest.raises(UnknownDialect, match="Expected a dialect of cesql, sql, but got 'SQL'") as caught:
        dialects.get("SQL")
    assert caught.value.available == ("cesql", "sql")


def test_sql_is_there_from_the_start() -> None:
    assert dialects.get("sql").print(Filter(x.IsNull("a"))) == "a IS NULL"
