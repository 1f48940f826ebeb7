"""Hypothesis strategies for SQL text: every construct, the ways that people write it, and some that are wrong."""

from __future__ import annotations

from hypothesis import strategies as st

from tests import strategies as model
from whimbrel.language.sql.literals import string_text

WORDS = [
    *("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "MISSING", "TRUE", "FALSE", "CONTAINS"),
    *("ALL", "ANY", "NONE", "STARTS", "ENDS", "WITH", "RLIKE", "CIDR", "TIMESTAMP", "DATE", "ILIKE"),
    *("lower", "contains"),
]
ODDITIES = ["'", '"', "`", ".", "..", "5x", "1.2.3", "1e", "\0", "é", "٣", "²", ";", "--", "/*", "a.", ".5.", "=="]

names = st.sampled_from(["a", "b", "price", "d.x", "a1", "b2.c3", "timestamp", "all", '"in"', "`x y`", 'd."a""b".c'])
numbers = st.one_of(
    st.integers(0, 10**20).map(str),
    st.sampled_from(["0", "007", "1.5", ".5", "5.", "1e3", "1E+2", "2.5e-3", "1e999", "9223372036854775808"]),
)
signed = st.builds("{}{}".format, st.sampled_from(["", "", "-", "+", "- "]), numbers)
contents = st.one_of(st.sampled_from(["", "x", "it's", "5", "a = 5", '"', "`", "%", "ü"]), model.strings)
strings = contents.map(string_text)
moments = st.sampled_from(["2026-01-31", "2026-01-31T12:00:00.5Z", "1969-12-31 23:59:59+01:00"])
timestamps = st.builds("{} '{}'".format, st.sampled_from(["TIMESTAMP", "TIMESTAMP", "DATE"]), moments)
ordinary = st.one_of(signed, strings, timestamps)
literals = st.one_of(ordinary, ordinary, st.sampled_from(["TRUE", "false", "NULL"]))
comparisons = st.sampled_from(["=", "==", "<=>", "!=", "<>", "<", "<=", ">", ">="])
cases = st.sampled_from(["lower", "UPPER"])
members = st.one_of(literals, literals, literals.map("({})".format))
lists = st.lists(members, min_size=1, max_size=4).map(lambda items: f"({', '.join(items)})")
nots = st.sampled_from(["", "NOT "])
likes = st.one_of(st.just("LIKE 'a%'"), st.just("LIKE 'x!%' ESCAPE '!'"), strings.map("LIKE {}".format))

simple_predicates = st.one_of(
    st.builds("{} {} {}".format, names, comparisons, ordinary),
    st.builds("{}{}{}".format, names, comparisons, ordinary),
    st.builds("{} {}IN {}".format, names, nots, lists),
    st.builds("{} {}BETWEEN {} AND {}".format, names, nots, ordinary, ordinary),
    st.builds("{} >= {} AND {} < {}".format, st.just("a"), ordinary, st.just("a"), ordinary),
    st.builds("{} CONTAINS {}".format, names, literals),
    st.builds("{} STARTS WITH {}".format, names, strings),
    names,
)
predicates = st.one_of(
    simple_predicates,
    simple_predicates,
    st.builds("{} {} {}".format, st.one_of(names, literals), comparisons, st.one_of(names, literals)),
    st.builds("{} BETWEEN {} AND {}".format, literals, st.one_of(names, literals), literals),
    st.builds("{} {}{}".format, names, nots, likes),
    st.builds("{} {}ENDS WITH {}".format, names, nots, strings),
    st.builds("{} {}I{}".format, names, nots, likes),
    st.builds("{}({}) {} {}".format, cases, names, st.sampled_from(["=", "!=", "LIKE", "<=>", "<"]), strings),
    st.builds("{}({}) {}IN ({})".format, cases, names, nots, strings),
    st.builds("{}({}, {})".format, st.sampled_from(["startswith", "endswith", "contains"]), names, strings),
    st.builds("{}array_contains({}, {})".format, nots, names, literals),
    st.builds("!{}".format, names),
    st.builds("{} {}RLIKE 'a[0-9]+'".format, names, nots),
    st.builds("{} {}IN CIDR '{}'".format, names, nots, st.sampled_from(["10.0.0.0/8", "::1", "10.0.0.0/99"])),
    st.builds("{} {}CONTAINS {} {}".format, names, nots, st.sampled_from(["ALL", "any", "NONE"]), lists),
    st.builds("{} IS {}{}".format, names, nots, st.sampled_from(["NULL", "missing", "TRUE", "false"])),
    st.sampled_from(["TRUE", "FALSE", "NULL"]),
)


def joined(
    leaves: st.SearchStrategy[str], sizes: int = 3, joins: tuple[str, ...] = (" AND ", " OR ", "\n and ", " oR ")
) -> st.SearchStrategy[str]:
    """Leaves joined by AND and OR without parentheses."""
    return st.lists(leaves, min_size=1, max_size=sizes).flatmap(
        lambda parts: st.lists(st.sampled_from(joins), min_size=len(parts), max_size=len(parts)).map(
            lambda words: "".join(part + word for part, word in zip(parts, words, strict=True)).removesuffix(words[-1])
        )
    )


simple_texts = joined(simple_predicates)
texts = st.recursive(
    predicates,
    lambda inner: st.one_of(joined(inner), inner.map("NOT ({})".format), inner.map("( {})".format)),
    max_leaves=6,
)

_tokens = st.one_of(
    *(st.sampled_from(WORDS), st.sampled_from(ODDITIES), st.sampled_from(["(", ")", ",", "=", "<=", "-"])),
    *(names, numbers, strings),
)
token_soup = st.lists(_tokens, max_size=12).flatmap(
    lambda parts: st.sampled_from(["", " "]).map(lambda space: space.join(parts))
)


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    """A good text with something taken out or put in."""
    text = draw(texts)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 3)))
    return text[:start] + draw(st.one_of(st.just(""), _tokens)) + text[end:]


anything = st.one_of(texts, damaged_texts(), token_soup, st.text(max_size=30))
