"""Hypothesis strategies for values, constraints, filters and events: few names and small pools, so that things meet."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from whimbrel.model import expression as x
from whimbrel.model.constraint import Constraint
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import IntervalSet, compare_set
from whimbrel.model.normal_form import key_of
from whimbrel.model.values import SortKey, Timestamp

NAMES = ["a", "b", "c", "d", "d.x", "d.y", "d.e.x"]
NUMBERS = [
    *(-1, 0, 1, 2, 3, 5, 0.5, 2.5, -0.0),
    *(math.nextafter(1, 2), math.nextafter(1, 0), 5e-324, -5e-324),
    *(2**53 - 1, 2**53, 2**53 + 1, float(2**53 + 2), -(2**53) - 1, 2**63, 2**63 - 1, 10**30, 1e30, 1e300),
    *(10**1000 - 1, math.inf, -math.inf),
]
STRINGS = [
    *("", "a", "ab", "abc", "b", "ba", "z", "\0", "a\0", "a\0\0", "%", "_"),
    *("AB", "aBc", "ΑΣ", "ας", "İ", "É"),
    *("\ud7ff", "\ue000", "\U0001f600", "\U0010ffff", "a\U0010ffff", "10.1.2.3", "10.9.0.1", "1"),
]
TIMESTAMPS = [
    *map(Timestamp, (-1, 0, 1, 2)),
    Timestamp.parse("2026-01-31T12:00:00Z"),
    Timestamp.parse("9999-12-31"),
    Timestamp.parse("0001-01-01"),
]


def _neighbours() -> list[SortKey]:
    """The keys of the pools and of what lies next to them: the places where a bound can be wrong."""
    out: list[Any] = [False, True]
    for number in NUMBERS:
        out.append(number)
        if abs(number) < 1e308:
            out += (math.nextafter(float(number), math.inf), math.nextafter(float(number), -math.inf))
            out += (int(number) - 1, int(number) + 1)
    out += (10**1000 - 2, 1 - 10**1000, sys.float_info.max, -sys.float_info.max)
    for text in STRINGS:
        out += (text, text + "\0", text + "\U0010ffff", text[:-1], text + "a")
    for moment in TIMESTAMPS:
        out += (moment, Timestamp(moment.nanoseconds - 1), Timestamp(moment.nanoseconds + 1))
    return list(dict.fromkeys(key_of(value) for value in out))


KEYS = _neighbours()

names = st.one_of(st.sampled_from(["a", "d.x"]), st.sampled_from(NAMES))
numbers = st.one_of(st.sampled_from(NUMBERS), st.integers(-2, 6))
strings = st.sampled_from(STRINGS)
_odd = st.one_of(st.booleans(), numbers, numbers, strings, strings, st.sampled_from(TIMESTAMPS))
values = st.one_of(st.sampled_from([1, 2, "a", "ab"]), st.sampled_from([True, 1, "1", Timestamp(1)]), _odd)
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
    st.builds(x.ILike, names, st.text(alphabet="aAbB%_ΣİÉ", max_size=4)),
    st.builds(x.StartsWith, names, st.sampled_from(["", "a", "ab", "\ud7ff", "\U0010ffff"])),
    st.builds(x.EndsWith, names, st.sampled_from(["", "a", "b", "bc"])),
    st.builds(x.RLike, names, st.sampled_from(["", "a", "^a", "b$", "a.c", "[0-9]+"])),
    st.builds(x.InCidr, names, st.sampled_from(["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "::/0"])),
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

scalars = st.one_of(values, values, values, st.none(), st.just(math.nan))
attribute_values = st.one_of(scalars, scalars, st.lists(st.one_of(scalars, st.lists(scalars, max_size=2)), max_size=3))
_inner = st.dictionaries(st.just("x"), attribute_values, max_size=1)
_arrays = st.lists(st.one_of(_inner, scalars), max_size=2)


@st.composite
def elements(draw: st.DrawFn) -> dict[str, Any]:
    """An object under d: x and y, and at times e, an object or an array of objects, or a dotted key beside it."""
    out: dict[str, Any] = draw(st.dictionaries(st.sampled_from(["x", "y"]), attribute_values, max_size=2))
    if draw(st.integers(0, 3)) == 0:
        out["e"] = draw(st.one_of(_inner, _arrays))
    if draw(st.integers(0, 7)) == 0:
        out["e.x"] = draw(attribute_values)
    return out


nested_values = st.one_of(elements(), st.lists(st.one_of(elements(), elements(), scalars), max_size=3))


one_attribute: st.SearchStrategy[x.Expression] = st.recursive(
    predicates.filter(lambda p: hasattr(p, "attribute")).map(lambda p: replace(p, attribute="a")),  # type: ignore[type-var, call-arg]
    _nested,
    max_leaves=5,
)
"""Expressions that mention the attribute a only."""
value_sets = st.lists(st.one_of(values, values, values, st.none()), max_size=4)


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """A nested event: scalars, lists, an object or an array of objects under d, dotted keys beside nested ones."""
    event: dict[str, Any] = draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), attribute_values, max_size=3))
    if draw(st.booleans()):
        event["d"] = draw(nested_values)
    if draw(st.integers(0, 4)) == 0:
        event["d.x"] = draw(attribute_values)
    if draw(st.integers(0, 9)) == 0:
        event["d.e"] = draw(_arrays)
    return event


@st.composite
def interval_sets(draw: st.DrawFn) -> IntervalSet:
    """Unions of true-sets of comparisons, sometimes complemented."""
    out = IntervalSet(())
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.integers(0, 5)) == 0:
            part = IntervalSet.prefix(draw(strings))
        else:
            part = compare_set(draw(comparisons), key_of(draw(values)))
        out = out.union(part) if draw(st.booleans()) or not out else out.intersect(part)
    return out.complement() if draw(st.booleans()) else out


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    """The constraint of one attribute in some conjunction of a generated filter."""
    conjunctions = draw(filters.filter(lambda f: any(c.constraints for c in f.conjunctions))).conjunctions
    pool = [constraint for c in conjunctions for _, constraint in c.constraints]
    return draw(st.sampled_from(pool))
