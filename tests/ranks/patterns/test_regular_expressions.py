"""Regular expressions: the fragments that they need, and those that compiled code decides by itself."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.ranks.patterns.test_patterns import check
from whimbrel import Filter, Index
from whimbrel.compiled.regex_programs import program_sizes
from whimbrel.engine.intake.subscriptions import BadSubscriptions
from whimbrel.language.columnar.terms import READY_FROM, parse_many
from whimbrel.model import expression as x
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.patterns import Regex
from whimbrel.ranks.patterns.pattern_fragments import necessary_fragments, regex_fragments
from whimbrel.ranks.patterns.pattern_rules import read_rules

EMPTY = ("", "(a|b*)", "(ab|cd)?")
"""Expressions of which it is known that no text is in every match."""


@pytest.mark.parametrize(
    ("regex", "found"),
    [
        ("abc", ["abc"]),
        ("^a.bc$", ["a", "bc"]),
        (r"v\d+\.txt", ["v", ".txt"]),
        ("ab*c+d?e{2}f{0,1}gh", ["a", "c", "gh"]),
        ("ab+?c", ["ab", "c"]),
        ("a(bc)d", ["a", "d", "bc"]),
        ("a(b|(c|d))+ef", ["a", "ef"]),
        ("(a|b*)", []),
        ("(ab|cd)?", []),
        ("(ab|cd){0,2}e", ["e"]),
        ("(?i)abc", []),
        ("(?:ab)?c", ["c"]),
        ("(?P<name>ab)c", ["c", "ab"]),
        ("[]a]b[^]]c[[:alpha:]]d", ["b", "c", "d"]),
        (r"[a\]b]c", ["c"]),
        (r"\Qa.b\E", []),
        (r"\pNa", []),
        (r"\x41b", []),
        ("a{b", []),
        ("a{,2}b", []),
        ("", []),
    ],
)
def test_the_fragments_of_regular_expressions(regex: str, found: list[str]) -> None:
    assert regex_fragments(regex) == [found]
    assert regex_fragments(f"{regex}|x(y|z)") == ([found, ["x"]] if found or regex in EMPTY else [[]])


def test_a_group_of_longer_texts_than_what_is_around_it_is_alternatives() -> None:
    assert regex_fragments("^/(orders|users)+/$|x") == [["orders"], ["users"], ["x"]]
    assert regex_fragments("((?:abc|a(de|fg)h)i)") == [["abc"], ["de"], ["fg"]]
    assert regex_fragments("(ab|cd)efg") == [["efg"]]
    assert regex_fragments("(" * 40 + "ab" + ")" * 40) == [[]]


@pytest.mark.parametrize(
    "form", ["({})", "(?:{})", "^({})$", "((?P<name>{}))", "^(({}))", "({})$", "(x{})y?", "(({})|[)(]z)"]
)
def test_texts_in_a_group_that_is_the_whole_expression_are_keys(form: str) -> None:
    regexes = {n: form.replace("{}", f"ab{n}|c{n}d") for n in range(READY_FROM)}
    index = Index()
    index.add_many((n, f"name RLIKE '{regex}'") for n, regex in regexes.items())
    for text in ("ab7", "c7d", "xab17", "xc7dy", "..ab5..c6d", "(z", "ab", "c7"):
        assert index.match({"name": text}) == [n for n, regex in regexes.items() if Regex(regex).matches(text)]
    if form.startswith(("({})", "(?:", "^(", "((?")):
        (segment,) = index._subscriptions.segments.snapshot.segments
        (rules,) = [read_rules(segment.arrays, attr) for attr in segment.derived]
        assert rules is not None and not len(rules.always)


atoms = st.sampled_from(
    ["a", "b", "ab", "[ab]", "[^a]", ".", r"\.", r"\w", "^", "$", "(a|b)", "(?:ab)", "(b(a)?)", "é"]
)
again = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,1}", "+?", "*?"])
sequences = st.lists(st.tuples(atoms, again).map("".join), min_size=1, max_size=5).map("".join)
regexes = st.lists(sequences, min_size=1, max_size=3).map("|".join)


@given(regexes, st.text(alphabet="abé.", max_size=10))
def test_a_string_that_a_regular_expression_finds_has_its_fragments(regex: str, text: str) -> None:
    try:
        matches = Filter(x.RLike("x", regex)).matches({"x": text})
    except Exception:
        return  # no regular expression: ^* and the like
    assert not matches or any(all(fragment in text for fragment in fragments) for fragments in regex_fragments(regex))


PARTS = [
    "a",
    "b",
    "é",
    ".",
    "[ab]",
    "[^a]",
    "[a-c.]",
    r"[\d_]",
    r"\w",
    r"\D",
    r"\.",
    "(a|b)",
    "(?:ab|é)",
    "(b(a)?)",
    "x",
]
parts = st.tuples(st.sampled_from(PARTS), st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"]))
middles = st.lists(parts.map("".join), max_size=4).map("".join)
whole_regexes = st.lists(
    st.builds("{}{}{}".format, st.sampled_from(["", "", "^", r"\A"]), middles, st.sampled_from(["", "", "$", r"\z"])),
    min_size=1,
    max_size=3,
).map("|".join)


@given(
    st.lists(st.one_of(whole_regexes, regexes), min_size=1, max_size=5),
    st.lists(st.text(alphabet="abc1é.\n_", max_size=8), min_size=1, max_size=8),
    st.booleans(),
)
def test_regular_expressions_are_decided_as_their_engine_does(rules: list[str], texts: list[str], plain: bool) -> None:
    kept: dict[int, Filter] = {}
    for regex in rules:
        with contextlib.suppress(Exception):  # no regular expression: ^* and the like
            kept[len(kept)] = Filter.parse(f"x {'' if plain else 'NOT '}RLIKE '{regex}'")
    index = Index()
    index.add_many((id, filter) for id, filter in kept.items())
    index.merge()
    check(index, kept, [*({"x": text} for text in texts), {"x": texts}, {"x": 5}])


signs = [
    r"\b",
    r"\B",
    "(?i)",
    "(?ms)",
    "(?i",
    "(?ix)",
    "(?)",
    "(?iiii)",
    r"\_",
    r"\x41",
    "[]a]",
    "[z-a]",
    "[a-",
    "(?P<n>",
    "{3,1}",
    "{0}",
    "{40}",
    "{,2}",
    "a{2}{3}",
    "()*",
]
loose_texts = st.lists(
    st.one_of(st.sampled_from([*PARTS, *signs]), st.sampled_from(list("()[]{}|^$.*+?\\-,:<é\n"))), max_size=8
).map("".join)


@given(loose_texts)
@example("a" * 64)
def test_an_expression_that_is_called_good_is_one(regex: str) -> None:
    _, (is_good,) = program_sizes([regex], 100)
    if is_good:
        Regex(regex)


def test_bad_regular_expressions_among_many_are_refused_at_load() -> None:
    texts = {
        0: "a{2",
        3: "(b",
        5: "[z-a]",
        70: "c**",
        71: "(?P<n>a)(?P<n>b)",
        90: "a" * 5_000,
        91: "[" + "a" * 5_000 + "]",
    }
    load = [(row, f"x RLIKE '{texts.get(row, f'^v{row}[0-9]+')}'") for row in range(100)]
    parse_many([text for _, text in load] * 50)  # compiles the loops
    with pytest.raises(BadSubscriptions) as caught:
        Index().add_many(load)
    assert [row for row, _ in caught.value.errors] == [3, 5, 70, 90, 91]
    assert "missing ): (b" in str(caught.value.errors[0][1])
    assert isinstance(caught.value.errors[-1][1], LimitExceeded)


@pytest.mark.parametrize(
    "regex", [r"a\b", "(?i)a", "[[:alpha:]]", "[é]", "a{2,60}b{40}", "a^", "^^a", "(^a)*", "$a", r"\pL"]
)
def test_some_regular_expressions_are_verified(regex: str) -> None:
    assert program_sizes([regex], 100)[0] == [0]
    kept = {0: Filter.parse(f"x RLIKE '{regex}'"), 1: Filter.parse(f"x NOT RLIKE '{regex}'")}
    index = Index()
    index.add_many(kept.items())
    check(index, kept, [{"x": text} for text in ("", "a", "ab", "A", "é", "aaaa", ["a", "b"], 5)])


flags = st.sampled_from(["(?i)", "(?s)", "(?m)", "(?is)", "(?mi)"])
folding = st.sampled_from(
    [
        "k",
        "S",
        "i",
        "\u212a",
        "\u017f",
        "\u0130",
        "\u0131",
        "\u00df",
        "\u1e9e",
        "\u00e9",
        "\u00c9",
        "a",
        "B",
        "ab",
        "[aK]",
        ".",
        r"\b",
        "(s|k)",
        "^",
    ]
)


@given(
    st.lists(st.tuples(flags, st.lists(folding, min_size=1, max_size=4).map("".join), folding), min_size=1, max_size=5),
    st.lists(
        st.text(alphabet="kKsSiIaAbB\u212a\u017f\u0130\u0131\u00df\u1e9e\u00e9\u00c9\n", max_size=8),
        min_size=1,
        max_size=5,
    ),
)
@example([("(?i)", "sk", "i")], ["\u017f\u212aI", "SKi"])
@example([("(?i)", "ab", "k")], ["AB", "xK", "\u212a"])
def test_with_flags_an_expression_matches_what_the_reference_says(
    written: list[tuple[str, str, str]], texts: list[str]
) -> None:
    kept = {row: Filter(x.RLike("x", f"{flag}{one}|{other}")) for row, (flag, one, other) in enumerate(written)}
    index = Index()
    index.add_many(kept.items())
    check(index, kept, [{"x": text} for text in texts])


def test_regardless_of_case_an_expression_is_found_by_its_letters() -> None:
    """Of k and s, which match letters beyond ASCII, none is looked for."""
    assert necessary_fragments("(?i)^Orders/[0-9]+/KEY") == [("orderg",), ("eyg",), ("/g",)]
    assert necessary_fragments("(?i)abc|K") == []
    assert necessary_fragments("(?s)Abc") == [("Abci",)]
