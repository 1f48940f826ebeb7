"""What users of Spark type: other words for the same predicates, which print in canonical form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel import Filter, Index
from whimbrel.language import parse
from whimbrel.model.errors import FilterSyntaxError, LimitExceeded, WhimbrelError
from whimbrel.model.schema import FilterTypeError, Schema

CANONICAL = {
    "a == 1": "a = 1",
    "a==1": "a = 1",
    "a <=> 1": "a = 1",
    "1 <=> a": "a = 1",
    "a <=> NULL": "a IS NULL",
    "NOT (a <=> 1)": "a != 1 OR a IS NULL",
    "a <=> b": "a = b OR a IS NULL AND b IS NULL",
    "NOT a <=> b": "a != b OR a IS NULL AND b IS NOT NULL OR a IS NOT NULL AND b IS NULL",
    "NULL <=> NULL": "TRUE",
    "5 <=> NULL": "FALSE",
    "5 <=> 5.0": "TRUE",
    "a IS TRUE": "a = TRUE",
    "a IS NOT TRUE": "a != TRUE OR a IS NULL",
    "a is false": "a = FALSE",
    "a IS NOT FALSE": "a != FALSE OR a IS NULL",
    "a > DATE '2026-01-01'": "a > TIMESTAMP '2026-01-01T00:00:00Z'",
    "date = DATE '2026-01-01'": "date = TIMESTAMP '2026-01-01T00:00:00Z'",
    "array_contains(tags, 'x')": "tags CONTAINS 'x'",
    "NOT array_contains(tags, 5)": "tags CONTAINS NONE (5)",
    "array_contains(tags, NULL)": "FALSE",
    "startswith(a, 'x')": "a STARTS WITH 'x'",
    "endswith(a,'x')": "a ENDS WITH 'x'",
    "contains(a, '5%')": r"a LIKE '%5\%%'",
    "NOT contains(a, 'x')": "a NOT LIKE '%x%'",
    "a ILIKE 'Fo%o_'": "a ILIKE 'fo%o_'",
    "a NOT ILIKE '%X%'": "a NOT ILIKE '%x%'",
    "a ILIKE 'x!%' ESCAPE '!'": r"a ILIKE 'x\%'",
    "a ILIKE '%'": "a LIKE '%'",
    "a ILIKE NULL": "FALSE",
    "lower(a) = 'x'": "a ILIKE 'x'",
    "'x' = LOWER(a)": "a ILIKE 'x'",
    "upper(a) = 'X'": "a ILIKE 'x'",
    "lower(a) = lower('X')": "a ILIKE 'x'",
    "lower(a) != 'x'": "a NOT ILIKE 'x'",
    "lower(a) <=> 'x'": "a ILIKE 'x'",
    "lower(a) = 'X'": "FALSE",
    "upper(a) != 'x'": "a IS NOT NULL",
    "lower(a) IN ('x', 'y')": "a ILIKE 'x' OR a ILIKE 'y'",
    "lower(a) NOT IN ('x', 'y')": "a NOT ILIKE 'x' AND a NOT ILIKE 'y'",
    "lower(a) IN ('x', NULL)": "a ILIKE 'x'",
    "lower(a) LIKE '%x'": "a ILIKE '%x'",
    "lower(a) STARTS WITH 'x'": "a ILIKE 'x%'",
    "contains(lower(a), 'x')": "a ILIKE '%x%'",
    "a IN('x')": "a = 'x'",
    "!a = 1": "a != 1",
    "!(a = 1 OR b = 1)": "a != 1 AND b != 1",
    "!a": "a != TRUE",
    "lower = 1 AND contains = 2 AND date = 3": "contains = 2 AND date = 3 AND lower = 1",
}


@pytest.mark.parametrize("text", CANONICAL)
def test_other_words_print_in_canonical_form(text: str) -> None:
    filter = parse(text)
    assert str(filter) == CANONICAL[text]
    assert parse(str(filter)) == filter


def test_many_at_once_mean_the_same() -> None:
    one, many = Index(), Index()
    for id, text in enumerate(CANONICAL):
        one.add(id, text)
    many.add_many(enumerate(CANONICAL))
    for id, text in enumerate(CANONICAL):
        assert one[id].filter == many[id].filter == parse(text)
    events: list[dict[str, Any]] = [
        {},
        {"a": "X", "tags": ["x"]},
        {"a": "x"},
        {"a": True},
        {"a": None, "b": 1},
        {"a": 1},
    ]
    events += [{"a": "foxO1"}, {"a": ["Y", "5%"]}, {"a": "Ax"}, {"a": 1, "b": 1}]
    for event in events:
        matched = [id for id, text in enumerate(CANONICAL) if parse(text).matches(event)]
        assert one.match(event) == many.match(event) == matched


words = st.text(alphabet="aAbBΣσİiÉéß", max_size=4)


@given(words, words)
def test_case_does_not_count_and_nothing_else_does(word: str, value: str) -> None:
    def lower(text: str) -> str:
        return "".join(letter.lower()[0] for letter in text)

    equal = lower(word) == lower(value)
    assert parse(f"a ILIKE '{word}'").matches({"a": value}) == equal
    assert parse(f"lower(a) = '{lower(word)}'").matches({"a": value}) == equal
    assert parse(f"upper(a) = upper('{word}')").matches({"a": value}) == equal
    assert parse(f"contains(lower(a), '{lower(word)}')").matches({"a": value}) == (lower(word) in lower(value))


@pytest.mark.parametrize(
    ("text", "expected", "column"),
    [
        ("lower(a)", "a condition such as lower(a) = 'x'", 1),
        ("lower(a) > 'x'", "lower(a) or upper(a) with =", 1),
        ("lower(a) = lower(b)", "lower(a) or upper(a) with =", 1),
        ("a = lower('X')", "lower(a) or upper(a) with =", 1),
        ("lower(a) = 5", "text beside lower(...)", 12),
        ("lower(a) IN (5)", "texts in the list after lower(...)", 13),
        ("lower(5) = 'x'", "an attribute or text in lower(...)", 7),
        ("lower(a) RLIKE 'x'", "an attribute before RLIKE", 1),
        ("lower(a) IS NULL", "an attribute before IS", 1),
        ("lower(a", "')'", 8),
        ("startswith(a, 5)", "text after ',' of startswith", 15),
        ("startswith('x', 'y')", "an attribute before ',' of startswith", 12),
        ("array_contains(tags)", "','", 20),
        ("a = contains(b, 'x')", "an attribute or a literal", 5),
        ("a IS 5", "NULL, MISSING, TRUE, FALSE or NOT", 6),
    ],
)
def test_what_a_function_does_not_take_is_an_error_with_its_place(text: str, expected: str, column: int) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    assert caught.value.expected.startswith(expected) and caught.value.column == column


@pytest.mark.parametrize("text", ["a > DATE '2026-01-01T12:00'", "a > DATE '2026-02-30'"])
def test_a_date_has_no_time(text: str) -> None:
    parse("a > DATE '2026-01-01'")  # of the same shape
    for add in (parse, lambda text: Index().add_many([(1, "a > DATE '2026-01-01'"), (2, text)])):
        with pytest.raises(WhimbrelError, match=r"Expected a (date|timestamp)"):
            add(text)


@pytest.mark.parametrize("start", ["lower(", "contains(a, ", "contains(", "!"])
def test_calls_nest_as_deep_as_parentheses(start: str) -> None:
    with pytest.raises(LimitExceeded, match="filter depth"):
        parse(start * 10_000)


def test_a_misfit_in_a_function_has_its_place() -> None:
    schema = Schema.from_document({"attributes": {"count": "integer"}})
    for text, column in (("startswith(count, 'x')", 1), ("lower(name) = 'x'", 1), ("count ILIKE 'x'", 7)):
        with pytest.raises(FilterTypeError) as caught:
            Filter.parse(f"count > 1 AND {text}", schema=schema)
        assert caught.value.column == column + len("count > 1 AND ")
