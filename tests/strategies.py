"""Hypothesis strategies for values, constraints, filters and events: few names and small pools, so that things meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from whimbrel.model import expression as x
from whimbrel.model.constraint import Constraint
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import IntervalSet, compare_set
from whimbrel.model.normal import key_of
from whimbrel.model.values import Timestamp

NAMES = ["a", "b", "c", "d.x", "d.y"]
NUMBERS = [-1, 0, 1, 2, 3, 5, 0.5, 2.5, -0.0, 2**53, 2**53 + 1, 1e300, 10**30, float("inf"), float("-inf")]
STRINGS = ["", "a", "ab", "abc", "b", "ba", "z", "a\0", "%", "_", "\U0001f600", "10.1.2.3", "10.9.0.1"]
TIMESTAMPS = [Timestamp(0), Timestamp(1), Timestamp.parse("2026-01-31T12:00:00Z"), Timestamp.parse("9999-12-31")]

names = st.sampled_from(NAMES)
numbers = st.sampled_from(NUMBERS)
strings = st.sampled_from(STRINGS)
values = st.one_of(st.booleans(), numbers, numbers, strings, strings, st.sampled_from(TIMESTAMPS))
literals = st.one_of(values, values, values, values, st.none())
comparisons = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
patterns = st.text(alphabet="ab%_", max_size=5)

compares = st.builds(x.Compare, names, comparisons, values)
predicates = st.one_of(
    compares,
    compares,
    st.builds(x.Compare, names, comparisons, literals),
    st.builds(x.CompareAttributes, names, comparisons, names),
    st.builds(x.In, names, st.lists(literals, min_size=1, max_size=3).map(tuple)),
    st.builds(x.Like, names, patterns),
    st.builds(x.StartsWith, names, st.sampled_from(["", "a", "ab", "\U0010ffff"])),
    st.builds(x.EndsWith, names, st.sampled_from(["", "a", "b", "bc"])),
    st.builds(x.InCidr, names, st.sampled_from(["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32"])),
    st.builds(
        x.Contains,
        names,
        st.sampled_from(["ALL", "ANY", "NONE"]),
        st.lists(literals, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(x.IsNull, names),
    st.builds(x.IsMissing, names),
    st.builds(x.Constant, st.sampled_from([True, False, None])),
)


def _nested(inner: st.SearchStrategy[x.Expression]) -> st.SearchStrategy[x.Expression]:
    terms = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(st.builds(x.Not, inner), st.builds(x.And, terms), st.builds(x.Or, terms))


expressions: st.SearchStrategy[x.Expression] = st.recursive(predicates, _nested, max_leaves=6)
filters = expressions.map(Filter)

scalars = st.one_of(values, values, values, st.none(), st.just(float("nan")))
attribute_values = st.one_of(scalars, scalars, st.lists(st.one_of(scalars, st.lists(scalars, max_size=2)), max_size=3))
elements = st.dictionaries(st.sampled_from(["x", "y"]), attribute_values, max_size=2)
nested_values = st.one_of(elements, st.lists(st.one_of(elements, elements, scalars), max_size=3))


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """A nested event: scalars, lists, an object or an array of objects under d, dotted keys beside nested ones."""
    event: dict[str, Any] = draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), attribute_values, max_size=3))
    if draw(st.booleans()):
        event["d"] = draw(nested_values)
    if draw(st.integers(0, 4)) == 0:
        event["d.x"] = draw(attribute_values)
    return event


@st.composite
def interval_sets(draw: st.DrawFn) -> IntervalSet:
    """Unions of true-sets of comparisons, sometimes complemented."""
    out = IntervalSet(())
    for _ in range(draw(st.integers(0, 3))):
        out = out.union(compare_set(draw(comparisons), key_of(draw(values))))
    return out.complement() if draw(st.booleans()) else out


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    """The constraint of one attribute in some conjunction of a generated filter."""
    conjunctions = draw(filters.filter(lambda f: any(c.constraints for c in f.conjunctions))).conjunctions
    pool = [constraint for c in conjunctions for _, constraint in c.constraints]
    return draw(st.sampled_from(pool))
