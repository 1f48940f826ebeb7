from __future__ import annotations

import pytest
from hypothesis import given

from tests.language import texts as sql
from whimbrel.language import suspicious_names


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
