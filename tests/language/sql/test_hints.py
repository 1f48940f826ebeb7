from __future__ import annotations

import pytest
from hypothesis import given

from tests.language import texts as sql
from whimbrel.language import parse
from whimbrel.language.sql.hints import advice, hints, is_suspicious, suspicious_names
from whimbrel.language.sql.lexer import tokens
from whimbrel.model.errors import FilterSyntaxError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('category = "Toy"', [(11, "Toy")]),
        ('a = "x" AND b != "y z"', [(4, "x"), (17, "y z")]),
        ('a IN ("x", "y")', [(6, "x"), (11, "y")]),
        ('a LIKE "x%"', [(7, "x%")]),
        ('a STARTS WITH "x"', [(14, "x")]),
        ('t CONTAINS "x"', [(11, "x")]),
        ('t contains any ("x")', [(16, "x")]),
        ('a BETWEEN "x" AND "y" AND "z" = 1', [(10, "x"), (18, "y")]),
        ('a = "it""s"', [(4, 'it"s')]),
    ],
)
def test_a_double_quoted_name_where_a_literal_usually_stands_is_suspicious(text, found):
    assert suspicious_names(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "a = b",
        "a = `b`",
        '"first name" = 5',
        '"a" AND ("b" OR "c")',
        "a = 'x \"y\"'",
        'a IN (1) AND ("b" = 1)',
        'a = "',
        "",
    ],
)
def test_names_in_their_place_are_not(text):
    assert suspicious_names(text) == []


def test_it_reads_as_a_question():
    assert str(suspicious_names('a = "it\'s"')[0]) == "did you mean 'it''s'?"


@given(sql.anything)
def test_any_text_may_be_asked(text):
    for position, _ in suspicious_names(text):
        assert text[position] == '"'


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a = 1 && b = 2", "(write AND)"),
        ("a = 1 || b = 2", "(write OR)"),
        ("x % 2 = 0", "arithmetic is not part of the language"),
        ("price + 1 > 5", "arithmetic is not part of the language"),
        ("price * 2 > 5", "arithmetic is not part of the language"),
        ("a.b[0] = 1", "a list is a set: CONTAINS"),
        ("select * from t where a = 1", "write the condition only, which follows WHERE"),
        ("SELECT a WHERE a = 1", "write the condition only"),
        ("where a = 1", "write the condition only"),
        ("price = 1,5", "a decimal point is a point: 1.5"),
        ("EXISTS name", "write name IS NOT MISSING"),
        ("exists(name)", "write IS NOT MISSING after the name"),
        ("foo(a) = 1", "a function of lower, upper, startswith, endswith, contains, array_contains"),
        ("ts > 2026-01-01", "a date is written TIMESTAMP '2026-01-...'"),
        ("price > $5", "numbers have no currency"),
        ("price > ?", "there are no parameters"),
        ("a = 1;", "a filter ends without a semicolon"),
        ("a = 1 -- rows", "there are no comments"),
    ],
)
def test_an_error_says_what_to_write_instead(text, hint):
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    assert hint in str(caught.value)


@given(sql.anything)
def test_no_hint_fails(text):
    cut = tokens(text)
    for at in range(len(cut)):
        advice(cut, at)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('category = "Toy"', [(11, "suspicious-name", """"Toy" is the name of an attribute; did you mean 'Toy'?""")]),
        ("a = NULL", [(4, "suspicious-null", "nothing equals NULL; did you mean IS NULL?")]),
        ("a != null", [(5, "suspicious-null", "nothing equals NULL; did you mean IS NOT NULL?")]),
        ("lower(a) = 'Toy'", [(11, "suspicious-case", "lower(a) never equals 'Toy'; did you mean 'toy'?")]),
        ("upper(a) != 'Toy'", [(12, "suspicious-case", "upper(a) never equals 'Toy'; did you mean 'TOY'?")]),
        ("upper(a) = 'straße'", [(11, "suspicious-case", "upper(a) never equals 'straße'; did you mean 'STRAßE'?")]),
        ('a == "Toy"', [(5, "suspicious-name", """"Toy" is the name of an attribute; did you mean 'Toy'?""")]),
        ("upper(a) = 'ß' AND lower(a) = 'σς'", []),
        ("a IS NULL AND lower(a) = 'toy' AND b IN (1, NULL) AND b = lower OR lower(", []),
        ("lower(a) =", []),
    ],
)
def test_what_parses_and_is_hardly_meant_gets_a_hint(text, found):
    assert hints(text) == found


@given(sql.anything)
def test_hints_are_about_any_text(text):
    assert all(0 <= hint.position < len(text) for hint in hints(text))


@given(sql.anything, sql.anything)
def test_a_text_with_hints_is_suspicious_also_among_others(text, other):
    if hints(text):
        assert is_suspicious(text) and is_suspicious(f"{other}\n{text}\n{other}")


def test_plain_texts_are_not_suspicious():
    assert not is_suspicious("a = 'x' AND b > 5\nc IN (1, 2)")
    assert is_suspicious("a = 1\na = nULl")


def test_a_text_of_thousands_of_hints_is_read_once() -> None:
    found = hints(" OR ".join(["a = NULL"] * 10_000))
    assert len(found) == 10_000 and found[-1].position == 9_999 * len("a = NULL OR ") + 4
    assert len(suspicious_names('a = "x" ' * 10_000)) == 10_000
