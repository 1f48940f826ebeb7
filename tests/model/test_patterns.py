"""String patterns: LIKE against regular expressions, its canonical forms, networks and what covers what."""

from __future__ import annotations

import builtins
import itertools
import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from whimbrel.model import patterns
from whimbrel.model.errors import FilterError, LimitExceeded, MissingExtra
from whimbrel.model.intervals import STRINGS, IntervalSet
from whimbrel.model.patterns import (
    Cidr,
    LikePattern,
    Pattern,
    Regex,
    Substring,
    Suffix,
    is_lower_case,
    is_upper_case,
    lower_case,
    parse_ilike,
    parse_like,
    pattern_key,
    plain_like,
)
from whimbrel.model.values import STRING

texts = st.text(alphabet="ab%_\\\n\U0001f600", max_size=7)


def accepts(pattern: str, value: str, escape: str = "\\") -> bool:
    values, rest = parse_like(pattern, escape)
    return (STRING, value) in values and (rest is None or rest.matches(value))


@given(st.text(alphabet="ab%_\\", max_size=7), st.sampled_from(["\\", "", "a", "%", "_"]), st.lists(texts))
def test_like_accepts_what_its_regular_expression_does(pattern: str, escape: str, found: list[str]) -> None:
    try:
        parse_like(pattern, escape)
    except FilterError:
        return
    for value in found:
        whole = re.fullmatch(oracle.like_regex(pattern, escape), value, re.DOTALL)
        assert accepts(pattern, value, escape) == (whole is not None)


@st.composite
def patterns_and_values(draw: st.DrawFn) -> tuple[str, str]:
    """A pattern and a value made from it, so that most of it fits, with at times one character changed."""
    tokens = draw(st.lists(st.sampled_from(["a", "b", "ab", "%", "%", "_"]), max_size=8))
    fill = {"%": st.text(alphabet="ab", max_size=3), "_": st.sampled_from("ab\n\U0001f600")}
    value = "".join(draw(fill.get(token, st.just(token))) for token in tokens)
    if value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        value = value[:at] + draw(st.sampled_from(["", "a", "b", "c"])) + value[at + 1 :]
    return "".join(tokens), value


@given(patterns_and_values())
def test_like_finds_its_segments_from_left_to_right(pair: tuple[str, str]) -> None:
    pattern, value = pair
    whole = re.fullmatch(oracle.like_regex(pattern, ""), value, re.DOTALL)
    assert accepts(pattern, value, "") == (whole is not None)


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("a%b%c", "a-b-c", True),
        ("a%b%c", "a-c", False),
        ("a%a", "a", False),
        ("a%b%b", "ab", False),
        ("%ab%ab%", "aab-abb", True),
        ("%ab%ab%", "aabab", True),
        ("%aba%aba%", "ababa", False),
        ("x%a_c%y", "xaxc-abcy", True),
        ("x%a_c%y", "xaab-abdy", False),
        ("x%a_c%y", "xabcy", True),
        ("%a_", "a", False),
    ],
)
def test_segments_do_not_overlap(pattern: str, value: str, expected: bool) -> None:
    assert accepts(pattern, value) is expected


def test_patterns_of_the_same_strings_are_the_same_pattern() -> None:
    """Every pattern of up to four characters: one canonical form per language, judged on short strings."""
    values = ["".join(word) for size in range(6) for word in itertools.product("abc", repeat=size)]
    forms: dict[Any, set[Any]] = {}
    languages: dict[Any, set[Any]] = {}
    for size in range(5):
        for characters in itertools.product("ab%_", repeat=size):
            pattern = "".join(characters)
            regex = re.compile(oracle.like_regex(pattern, ""))
            language = tuple(value for value in values if regex.fullmatch(value))
            form = parse_like(pattern)
            forms.setdefault(language, set()).add(form)
            languages.setdefault(form, set()).add(language)
    assert all(len(found) == 1 for found in forms.values())
    assert all(len(found) == 1 for found in languages.values())


@pytest.mark.parametrize(
    ("pattern", "values", "rest"),
    [
        ("", IntervalSet.points([(STRING, "")]), None),
        ("abc", IntervalSet.points([(STRING, "abc")]), None),
        (r"50\%", IntervalSet.points([(STRING, "50%")]), None),
        ("ab%", IntervalSet.prefix("ab"), None),
        ("%", STRINGS, None),
        ("%%", STRINGS, None),
        ("%ab", STRINGS, Suffix("ab")),
        ("%ab%", STRINGS, Substring("ab")),
        ("a%b", IntervalSet.prefix("a"), LikePattern((("a",), ("b",)))),
        ("a_", IntervalSet.prefix("a"), LikePattern((("a", ""),))),
        ("%_x", STRINGS, LikePattern((("", ""), ("x",)))),
        ("%_%", STRINGS, LikePattern((("", ""), ("",)))),
    ],
)
def test_a_pattern_reduces_to_the_simplest_form(pattern: str, values: IntervalSet, rest: Pattern | None) -> None:
    assert parse_like(pattern) == (values, rest)


def test_underscore_is_one_code_point() -> None:
    assert accepts("_", "\U0001f600")
    assert not accepts("_", "e\u0301")


def test_wildcards_accept_line_breaks_and_nul() -> None:
    assert accepts("a%b", "a\n\0b")
    assert accepts("a_b", "a\nb")


def test_an_escape_takes_the_next_character_as_it_is() -> None:
    assert accepts(r"a\_b", "a_b")
    assert not accepts(r"a\_b", "axb")
    assert accepts(r"\\", "\\")
    assert accepts("a!%", "a%", escape="!")
    assert accepts("a\\%", "a\\xyz", escape="")


def test_a_pattern_that_ends_with_its_escape_is_refused() -> None:
    with pytest.raises(FilterError, match=r"Expected a character after the escape '!' of LIKE 'abc!'"):
        parse_like("abc!", "!")


def test_a_pattern_with_too_many_wildcards_or_bytes_is_refused() -> None:
    parse_like("%a" * 64)
    with pytest.raises(LimitExceeded, match="at most 64 % and _ in one pattern, but got 65"):
        parse_like("%a" * 65)
    parse_like("x" * 8_192)
    with pytest.raises(LimitExceeded, match="at most 8,192 bytes of UTF-8, but got 8,194"):
        parse_like("é" * 4_097)


def test_a_search_with_many_wildcards_does_not_backtrack() -> None:
    assert not accepts("%a" * 60 + "%b%", "a" * 100_000)


def test_a_pattern_covers_what_it_surely_accepts() -> None:
    assert Suffix("c").covers(Suffix("bc"))
    assert not Suffix("bc").covers(Suffix("c"))
    assert Substring("b").covers(Suffix("abc"))
    assert Substring("b").covers(Substring("abc"))
    assert Substring("b").covers(LikePattern((("x",), ("abc", "y"))))
    assert not Substring("ab").covers(LikePattern((("xa",), ("b",))))
    assert not Suffix("c").covers(Substring("c"))
    assert LikePattern((("a",), ("b",))).covers(LikePattern((("a",), ("b",))))
    assert Regex("a+").covers(Regex("a+"))
    assert not Regex("a+").covers(Suffix("a"))


def test_a_network_has_its_addresses() -> None:
    network = Cidr("10.1.0.0/16")
    assert network.matches("10.1.255.255")
    for other in ("10.2.0.0", "10.1.0", "10.1.0.0/16", "x", "", "::ffff:10.1.0.1", "1" * 10_000):
        assert not network.matches(other)
    assert Cidr("2001:db8::/32").matches("2001:DB8::1")


def test_a_network_is_written_in_one_way() -> None:
    assert Cidr("10.1.2.3/8") == Cidr("10.0.0.0/8")
    assert Cidr("10.1.2.3").network == "10.1.2.3/32"
    assert hash(Cidr("10.1.2.3/8")) == hash(Cidr("10.0.0.0/8"))


def test_a_network_covers_its_parts() -> None:
    assert Cidr("10.0.0.0/8").covers(Cidr("10.1.0.0/16"))
    assert not Cidr("10.1.0.0/16").covers(Cidr("10.0.0.0/8"))
    assert not Cidr("0.0.0.0/0").covers(Cidr("::/0"))
    assert not Cidr("0.0.0.0/0").covers(Suffix("1"))


@pytest.mark.parametrize("text", ["", "10.0.0.0/33", "10.0.0.256", "net"])
def test_text_that_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(FilterError, match=r"Expected an IP network such as 10\.0\.0\.0/8, but got"):
        Cidr(text)


def test_a_regular_expression_is_found_anywhere() -> None:
    assert Regex("b+").matches("abbc")
    assert not Regex("^b").matches("ab")
    assert Regex("^.$").matches("\U0001f600")


def test_a_regular_expression_that_is_none_or_too_long_is_refused() -> None:
    with pytest.raises(FilterError, match=r"Expected a regular expression, but got '\(': "):
        Regex("(")
    with pytest.raises(LimitExceeded, match="regular expression bytes"):
        Regex("a" * 4_097)


def test_a_regular_expression_needs_the_linear_time_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_re2(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name == "re2":
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_re2)
    patterns._compile.cache_clear()
    with pytest.raises(MissingExtra, match=r"google-re2 is not installed; run: pip install 'whimbrel\[regex\]'"):
        Regex("never compiled before")


def test_patterns_of_all_kinds_have_one_order() -> None:
    kinds: list[Pattern] = [Suffix("a"), Regex("a"), Cidr("::/0"), LikePattern((("a",), ("b",))), Substring("a")]
    assert sorted(kinds, key=pattern_key) == [kinds[i] for i in (2, 3, 1, 4, 0)]


def test_lower_case_maps_code_points_one_by_one_and_once() -> None:
    letters = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    lower = [lower_case(letter) for letter in letters]
    assert all(len(letter) == 1 for letter in lower)
    assert lower_case("".join(letters)) == "".join(lower) == lower_case("".join(lower))
    assert not set("ABCXYZ") & set(lower)
    assert all(is_lower_case(letter) for letter in lower)
    assert not any(is_upper_case(letter) for letter in "aßéσж" if len(letter.upper()) == 1)


@given(st.text(alphabet="aAbΣİÉ%_\\", max_size=7), st.lists(st.text(alphabet="aAbBΣσςİiÉé%", max_size=6)))
def test_ilike_is_like_in_lower_case(pattern: str, found: list[str]) -> None:
    try:
        values, rest = parse_ilike(pattern)
    except FilterError:
        return
    for value in found:
        ok = (STRING, value) in values and (rest is None or rest.matches(value))
        assert ok == accepts(lower_case(pattern), lower_case(value))


@given(st.text(alphabet="ab%_\\", max_size=7), texts)
def test_a_plain_pattern_is_met_by_its_text_alone(text: str, other: str) -> None:
    assert accepts(plain_like(text), text)
    assert accepts(plain_like(text), other) == (text == other)
