"""Whatever is sent, the answer is a filter or an error of Whimbrel's own, at a place inside the text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import texts as sql
from whimbrel.language import parse
from whimbrel.model import expression as x
from whimbrel.model.errors import FilterError, WhimbrelError

NAMES = ["a", "b", "c", "d"]


def refusal(text: str) -> WhimbrelError | None:
    try:
        parse(text)
    except WhimbrelError as error:
        return error
    return None


@given(sql.anything)
def test_any_text_gives_a_filter_or_an_error_with_a_place(text):
    error = refusal(text)
    if isinstance(error, FilterError):
        assert 0 <= error.position <= len(text)
        assert error.line >= 1 and error.column >= 1


@given(st.text(st.characters(), max_size=50))
def test_any_characters_surrogates_included_do(text):
    str(refusal(text)).encode()  # the message can be written


def _holds(node: x.Expression, world: dict[str, bool]) -> bool:
    if isinstance(node, x.And):
        return all(_holds(term, world) for term in node.terms)
    if isinstance(node, x.Or):
        return any(_holds(term, world) for term in node.terms)
    if isinstance(node, x.Not):
        return not _holds(node.term, world)
    assert isinstance(node, x.Compare) and node.value is True
    return world[node.attribute]


def _holds_in_sqlglot(node, world: dict[str, bool]) -> bool:
    exp = pytest.importorskip("sqlglot.expressions")
    if isinstance(node, exp.And):
        return _holds_in_sqlglot(node.this, world) and _holds_in_sqlglot(node.expression, world)
    if isinstance(node, exp.Or):
        return _holds_in_sqlglot(node.this, world) or _holds_in_sqlglot(node.expression, world)
    if isinstance(node, exp.Not):
        return not _holds_in_sqlglot(node.this, world)
    if isinstance(node, exp.Paren):
        return _holds_in_sqlglot(node.this, world)
    return world[node.name]


_terms = st.sampled_from([*NAMES, *(f"NOT {name}" for name in NAMES)])
_clauses = st.recursive(
    _terms,
    lambda inner: st.one_of(
        sql.joined(inner, 4, (" AND ", " OR ")), inner.map("({})".format), inner.map("NOT ({})".format)
    ),
    max_leaves=8,
)


@given(_clauses)
def test_and_or_and_not_bind_as_in_every_other_sql(text):
    sqlglot = pytest.importorskip("sqlglot")
    mine, theirs = parse(text).expression, sqlglot.condition(text, dialect="spark")
    for truth in itertools.product([False, True], repeat=len(NAMES)):
        world = dict(zip(NAMES, truth, strict=True))
        assert _holds(mine, world) == _holds_in_sqlglot(theirs, world)
