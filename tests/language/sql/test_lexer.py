from __future__ import annotations

import pytest

from whimbrel.language.sql.lexer import describe, is_literal, name_of, number_value, position_of, string_value, tokens


def cut(text: str) -> list[str]:
    *found, end = tokens(text)
    assert end == ""
    return found


def test_space_separates_tokens_and_is_no_token():
    assert cut("  a\t=\n5\u00a0") == ["a", "=", "5"]
    assert cut("   ") == []


def test_operators_are_the_longest_that_fit():
    assert cut("a<=b<>c!=d>=e<f>g=h") == ["a", "<=", "b", "<>", "c", "!=", "d", ">=", "e", "<", "f", ">", "g", "=", "h"]


def test_a_doubled_quote_does_not_end_a_string():
    assert cut("'it''s' ''") == ["'it''s'", "''"]
    assert string_value("'it''s'") == "it's"
    assert string_value("''''") == "'"


def test_names_may_have_dots_digits_and_letters_of_any_script():
    assert cut("detail.state _x é.ü a1.2b 名前") == ["detail.state", "_x", "é.ü", "a1.2b", "名前"]


@pytest.mark.parametrize(
    ("token", "name"),
    [
        ("a.b", "a.b"),
        ('"a b"', "a b"),
        ('a."b c".d', "a.b c.d"),
        ('"a.b"', "a.b"),
        ('"say ""hi"""', 'say "hi"'),
        ("`a``b`", "a`b"),
        ('`a"b`', 'a"b'),
        ('""', ""),
        ('a.""', "a."),
        ('"a"."b"', "a.b"),
    ],
)
def test_quotes_serve_odd_characters_in_names(token, name):
    assert cut(token) == [token]
    assert name_of(token) == name


def test_numbers_have_no_sign_and_are_not_part_of_names():
    assert cut("-5 +.5 5. 1e3 1E-2 a5") == ["-", "5", "+", ".5", "5.", "1e3", "1E-2", "a5"]


@pytest.mark.parametrize("text", ["5x", "1.2.3", "1e", "0x10", "1_000", "5٣", "1e5.5", ".5."])
def test_a_malformed_number_is_one_token_that_is_no_literal(text):
    first = cut(text)[0]
    assert not is_literal(first)
    assert "malformed number" in describe(first)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("0", 0),
        ("007", 7),
        ("5.0", 5),
        ("1e2", 100),
        (".5", 0.5),
        ("9007199254740993", 2**53 + 1),
        ("9223372036854775808", float(2**63)),
        ("9223372036854775809", 2**63 + 1),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1e30", 1e30),
        ("1e999", float("inf")),
        ("0" * 2_000 + "1", 1),
    ],
)
def test_numbers_are_exact_integers_or_the_nearest_binary64_in_canonical_form(raw, value):
    assert number_value(raw) == value
    assert type(number_value(raw)) is type(value)


def test_positions_are_found_again():
    text = " a  = 'x' "
    assert [position_of(text, index) for index in range(4)] == [1, 4, 6, len(text)]


@pytest.mark.parametrize(
    ("token", "description"),
    [
        ("", "the end of the filter"),
        ("'", "text without its closing '"),
        ('"', 'a name without its closing "'),
        ("`", "a name without its closing `"),
        ("'x'", "the text 'x'"),
        ("5", "the number 5"),
        ("and", "the keyword AND"),
        ("price", "the name price"),
        (".", "'.'"),
        (";", "';'"),
        ("'" + "x" * 60 + "'", "the text '" + "x" * 38 + "…"),
    ],
)
def test_a_token_is_described_in_words(token, description):
    assert describe(token) == description
