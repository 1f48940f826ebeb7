"""The columnar form of parsed filters means what the filters mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import filters
from whimbrel import Filter, Index
from whimbrel.engine.intake.filter_columns import filter_columns
from whimbrel.model.expression import And, Compare, In


@given(st.lists(filters, max_size=6))
def test_every_filter_comes_back_equal(given: list[Filter]) -> None:
    parsed = filter_columns(given)
    found = dict(parsed.filters)
    for conjunctions in parsed.conjunctions:
        found |= conjunctions.filters()
    assert [found[number] for number in range(len(given))] == given


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "a = TRUE AND b != FALSE",
        "a IN (1, 'x', TRUE, 2.5)",
        "a NOT IN (1, 'x')",
        "a > 1 AND b = 'x' AND a <= 5",
        "a BETWEEN 1 AND 5 AND c = 3",
        "t > TIMESTAMP '2024-01-01' AND t < TIMESTAMP '2025-01-01'",
        "a = 123456789012345678901234567890",
    ],
)
def test_a_plain_conjunction_goes_to_columns(text: str) -> None:
    filter = Filter.parse(text)
    parsed = filter_columns([filter])
    assert not parsed.filters and parsed.conjunctions[0].filters() == {0: filter}


@pytest.mark.parametrize(
    "text", ["a = 1 OR b = 2", "a = NULL", "a IN (1, NULL)", "a > 1 AND a > 2", "a > 1 AND a < 'x'", "a < b", "TRUE"]
)
def test_any_other_filter_stays_a_filter(text: str) -> None:
    assert filter_columns([Filter.parse(text)]).filters == {0: Filter.parse(text)}


def test_numbers_that_are_not_finite_and_empty_lists_stay_filters() -> None:
    made = [Filter(Compare("a", "=", float("inf"))), Filter(In("a", ())), Filter(And(()))]
    assert list(filter_columns(made).filters) == [0, 1, 2]


def test_a_head_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index()
    index.add("a", "x = 1 AND y < 5")
    index.add("b", "x = 1 OR y LIKE 'z%'")
    monkeypatch.setattr("whimbrel.language.sql.dialect.SqlDialect.parse", lambda *_: pytest.fail("parsed again"))
    monkeypatch.setattr("whimbrel.language.sql.dialect.SqlDialect.parse_columns", lambda *_: pytest.fail("again"))
    monkeypatch.setattr("whimbrel.language.sql.dialect.SqlDialect.scan_columns", lambda *_: pytest.fail("again"))
    index.merge()
    assert index.segments == 1 and index.match({"x": 1, "y": 3}) == ["a", "b"]
